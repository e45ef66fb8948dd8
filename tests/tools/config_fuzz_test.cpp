// Random config files and command lines: each is accepted, or refused with one clear line. TROUPE_FUZZ_SEED chooses
// others, TROUPE_FUZZ_SECONDS sets how long to continue.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include <nlohmann/json.hpp>

#include "actors/config/config.h"
#include "runtime/base/errors.h"
#include "runtime/base/rng.h"
#include "runtime/base/suggest.h"
#include "runtime/config/fields.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"
#include "tools/cli/command_line.h"
#include "tools/cli/commands.h"
#include "tools/cli/config_lookup.h"

using namespace troupe;

namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

uint64_t seed() {
  const char* text = std::getenv("TROUPE_FUZZ_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

// Calls `one` `count` times, each with its own random stream, and then until TROUPE_FUZZ_SECONDS have passed.
void repeat(const char* name, int count, const std::function<void(Rng&)>& one) {
  const char* text = std::getenv("TROUPE_FUZZ_SECONDS");
  const auto end = Clock::now() + std::chrono::duration<double>(text == nullptr ? 0.0 : std::strtod(text, nullptr));
  for (uint64_t i = 0; static_cast<int>(i) < count || Clock::now() < end; ++i) {
    Rng rng(derive_key(seed(), name, i));
    CAPTURE(i);
    one(rng);
  }
}

// The message of the ConfigError that `action` throws, or "". It must not throw anything else.
std::string refusal(const std::function<void()>& action) {
  try {
    action();
  } catch (const ConfigError& refused) {
    return refused.what();
  }
  return "";
}

// One line of UTF-8 without control characters, short enough to read.
void check_line(const std::string& error) {
  CAPTURE(error);
  CHECK(printable(error, error.size()) == error);
  CHECK(error.size() <= 1500);
  CHECK(error.find("internal") == std::string::npos);
}

const std::vector<std::string>& run_files() {
  static const std::vector<std::string> files = [] {
    std::vector<std::string> texts;
    for (const auto& entry : std::filesystem::recursive_directory_iterator("configs"))
      if (entry.path().extension() == ".json") {
        std::ostringstream text;
        text << std::ifstream(entry.path()).rdbuf();
        texts.push_back(text.str());
      }
    return texts;
  }();
  return files;
}

template <class T>
const T& any_of(Rng& rng, const std::vector<T>& values) {
  return values[rng.below(values.size())];
}

std::string odd_text(Rng& rng) {
  static const std::vector<std::string> texts = {"",
                                                 " ",
                                                 "\n",
                                                 "\r\n",
                                                 "\t",
                                                 std::string("\0", 1),
                                                 "\xff",
                                                 "\xc3",
                                                 "\u0430lg",
                                                 "\u200b",
                                                 "\u202e",
                                                 "\uff11",
                                                 "true",
                                                 "null",
                                                 "-0",
                                                 "1e999",
                                                 "NaN",
                                                 "-",
                                                 "--",
                                                 "..",
                                                 ".",
                                                 "/dev/zero",
                                                 "%s%n",
                                                 "$(x)",
                                                 "'",
                                                 "\"",
                                                 "\\",
                                                 "{",
                                                 "[",
                                                 "}",
                                                 "\u212a",
                                                 "\x1b[2J",
                                                 "\xed\xa0\x80",
                                                 std::string(5000, 'x')};
  return any_of(rng, texts);
}

Json odd_value(Rng& rng, int depth = 0) {
  switch (rng.below(16)) {
    case 0: return nullptr;
    case 1: return true;
    case 2: return -1;
    case 3: return 0;
    case 4: return std::numeric_limits<int64_t>::min();
    case 5: return std::numeric_limits<uint64_t>::max();
    case 6: return 1e308;
    case 7: return 5e-324;
    case 8: return -0.0;
    case 9: return 0.5;
    case 10: return Json::array();
    case 11: return Json::object();
    case 12: return static_cast<int64_t>(rng.next_u64() >> rng.below(64));
    case 13: {
      Json list = Json::array();
      for (uint64_t i = rng.below(depth < 4 ? 40 : 1); i > 0; --i) list.push_back(odd_value(rng, depth + 4));
      return list;
    }
    case 14: {
      Json object = Json::object();
      for (uint64_t i = rng.below(depth < 4 ? 5 : 1); i > 0; --i) object[odd_text(rng)] = odd_value(rng, depth + 1);
      return object;
    }
    default: return odd_text(rng);
  }
}

// A setting of a config file, or something similar.
std::string odd_path(Rng& rng) {
  static const std::vector<SettingInfo> fields = describe_fields();
  std::string path = any_of(rng, fields).path;
  switch (rng.below(8)) {
    case 0: return odd_text(rng);
    case 1: return path + '.' + odd_text(rng);
    case 2: return path.substr(0, path.find('.'));
    case 3: path.insert(rng.below(path.size()), odd_text(rng)); return path;
    case 4: path.erase(rng.below(path.size()), 1); return path;
    case 5: return "env.params." + odd_text(rng);
    default: return path;
  }
}

// A config file with odd values for some settings.
std::string odd_tree(Rng& rng) {
  Json root = Json::parse(any_of(rng, run_files()));
  for (uint64_t i = 1 + rng.below(3); i > 0; --i) {
    const std::string path = odd_path(rng);
    const size_t dot = path.find('.');
    if (dot == std::string::npos) {
      root[path] = odd_value(rng);
    } else {
      Json& section = root[path.substr(0, dot)];
      if (section.is_object() || section.is_null()) section[path.substr(dot + 1)] = odd_value(rng);
    }
  }
  return root.dump(-1, ' ', false, Json::error_handler_t::ignore);
}

// A config file with bytes changed, removed, doubled or inserted.
std::string odd_bytes(Rng& rng) {
  std::string text = any_of(rng, run_files());
  for (uint64_t i = 1 + rng.below(4); i > 0 && !text.empty(); --i) {
    const size_t at = rng.below(text.size()), length = rng.below(20);
    switch (rng.below(5)) {
      case 0: text[at] = static_cast<char>(rng.below(256)); break;
      case 1: text.erase(at, length); break;
      case 2: text.insert(at, text.substr(at, length)); break;
      case 3: text.insert(at, odd_text(rng)); break;
      default: text.resize(at); break;
    }
  }
  return text;
}

void check_file(const std::string& text) {
  CAPTURE(text.substr(0, 2000));
  const std::string error = refusal([&] {
    const RunConfig config = parse_config(text, "run.json");
    CHECK(parse_config(to_json(config), "again") == config);
  });
  check_line(error);
  if (!error.empty()) CHECK(error.starts_with("run.json:"));
}

}  // namespace

TEST_CASE("config fuzz: a config file with bytes changed is read or refused with one line") {
  repeat("bytes", 3000, [](Rng& rng) { check_file(odd_bytes(rng)); });
}

TEST_CASE("config fuzz: a config file with odd values is read or refused with one line") {
  repeat("tree", 3000, [](Rng& rng) { check_file(odd_tree(rng)); });
}

TEST_CASE("config fuzz: what is read passes every check or is refused with one line") {
  const test::TempFolder folder;
  const std::string path = folder / "run.json";
  repeat("checks", 800, [&](Rng& rng) {
    const std::string text = odd_tree(rng);
    CAPTURE(text.substr(0, 2000));
    std::ofstream(path, std::ios::trunc | std::ios::binary) << text;
    check_line(refusal([&] { load_run_config(path); }));
  });
}

TEST_CASE("config fuzz: --set is applied, or refused with one line and then changes nothing") {
  repeat("set", 3000, [](Rng& rng) {
    RunConfig config;
    const RunConfig before = config;
    std::string assignment = odd_path(rng);
    if (rng.below(20) > 0) assignment += '=';
    assignment += rng.below(2) ? odd_text(rng) : odd_value(rng).dump(-1, ' ', false, Json::error_handler_t::ignore);
    CAPTURE(assignment.substr(0, 300));
    const std::string error = refusal([&] { apply_override(config, assignment); });
    check_line(error);
    if (!error.empty()) CHECK(config == before);
    if (error.empty()) CHECK(parse_config(to_json(config), "again") == config);
  });
}

TEST_CASE("config fuzz: a command line is understood or refused with one line") {
  const std::vector<std::string> words = {
      "train",     "warmup",   "worker",  "inference",  "node",    "spawn",     "eval",       "play",
      "export",    "envs",     "config",  "bench",      "help",    "--help",    "--run",      "--seed",
      "--set",     "--listen", "--stats", "--on-alarm", "--json",  "--connect", "--",         "cartpole",
      "1",         "a:1",      "[::1]:2", "-1",         "--seeds", "1..2",      "--episodes", "gae",
      "--workers", "--node",   "--plot",  "--seconds",  "-h",      "metrics",   "simulate",   "version",
      "scorer",    "top",      "--once",  "runs",       "plot",    "sweep",     "dash"};
  repeat("line", 3000, [&](Rng& rng) {
    std::vector<std::string> line;
    for (uint64_t i = rng.below(8); i > 0; --i) {
      std::string word = rng.below(5) == 0 ? odd_text(rng) : any_of(rng, words);
      if (rng.below(6) == 0) word += '=' + odd_text(rng);
      line.push_back(word);
    }
    CAPTURE(line);
    std::ostringstream help;
    const std::string error = refusal([&] { parse_command_line(all_commands(), line, help); });
    check_line(error);
    CHECK((error.empty() || help.str().empty()));
  });
}

TEST_CASE("config fuzz: a very deep path in --set and an object that keeps growing are refused") {
  RunConfig config;
  std::string deep = "env.params";
  for (int i = 0; i < 50'000; ++i) deep += ".a";
  CHECK(refusal([&] { apply_override(config, deep + "=1"); }).ends_with(": is nested deeper than 32 levels"));
  std::string error;
  for (int i = 0; i < 5000 && error.empty(); ++i)
    error = refusal([&] { apply_override(config, "env.params.key" + std::to_string(i) + "=value"); });
  CHECK(error == "--set: env.params: has grown beyond 16 KiB, write it into the config file");
}
