// YAML config files: the core schema of YAML 1.2, and everything that is refused.
#include "runtime/config/yaml.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <sstream>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/rng.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

Json read(const std::string& text) { return parse_yaml(text, "run.yaml"); }

std::string refusal(const std::string& text) {
  try {
    read(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::string nested(const std::string& open, const std::string& inside, const std::string& close, int levels) {
  std::string text;
  for (int i = 0; i < levels; ++i) text += open;
  text += inside;
  for (int i = 0; i < levels; ++i) text += close;
  return text;
}

const std::vector<std::string>& samples() {
  static const std::vector<std::string> texts = [] {
    std::vector<std::string> all = {
        "env: {id: GridWorld, params: {size: 8, slip: 0.1}}\nrollout:\n  length: 32 # steps\nseed: 0x1F\n",
        "model:\n  hidden: [64, 64]\n  activation: 'tanh'\n  shared_trunk: false\nname: \"a-b\"\n",
        "algorithm: &a\n  gamma: .99\n  clip_high: ~\n  kl: k3\nother: *a\nlist:\n- 1\n- - 2\n  - 3\n- k: v\n",
        "%YAML 1.2\n---\ntext: |\n  one\n  two\nfolded: >-\n  one\n  two\n? key\n: value\n...\n"};
    for (const auto& entry : std::filesystem::recursive_directory_iterator("configs")) {
      if (entry.path().extension() != ".json") continue;
      std::ostringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      all.push_back(text.str());
    }
    return all;
  }();
  return texts;
}

std::string mutated(Rng& rng) {
  static const std::vector<std::string> pieces = {
      "&a ", "*a",   "!!str ", "!x ",  "- ",    "? ",  ": ",  "\n",         "\t",          "  ", "{",
      "}",   "[",    "]",      ",",    "'",     "\"",  "|\n", ">-",         "#",           "%",  "---\n",
      "...", "<<: ", "null",   ".inf", "1e999", "0o8", "\\",  "\\x",        "\xff",        "\r", "@",
      "`",   "~",    "\u2028", "\x04", "no",    "yes", "=",   "2001-01-01", "\xEF\xBB\xBF"};
  std::string text = samples()[rng.below(samples().size())];
  for (uint64_t i = 1 + rng.below(6); i > 0 && !text.empty(); --i) {
    const size_t at = rng.below(text.size()), length = rng.below(30);
    switch (rng.below(6)) {
      case 0: text[at] = static_cast<char>(rng.below(256)); break;
      case 1: text.erase(at, length); break;
      case 2: text.insert(at, text.substr(at, length)); break;
      case 3: text.resize(at); break;
      default: text.insert(at, pieces[rng.below(pieces.size())]); break;
    }
  }
  return text;
}

}  // namespace

TEST_CASE("yaml: plain scalars follow the core schema of YAML 1.2") {
  const std::pair<const char*, Json> cases[] = {
      {"true", true},
      {"False", false},
      {"TRUE", true},
      {"yes", "yes"},
      {"no", "no"},
      {"on", "on"},
      {"off", "off"},
      {"y", "y"},
      {"null", nullptr},
      {"~", nullptr},
      {"Null", nullptr},
      {"nUll", "nUll"},
      {"0", 0},
      {"010", 10},
      {"0o17", 15},
      {"0x1f", 31},
      {"0b11", "0b11"},
      {"-7", -7},
      {"+7", 7},
      {"1_000", "1_000"},
      {"1e6", 1e6},
      {"-.5", -0.5},
      {"3.", 3.0},
      {".", "."},
      {"1.5e-3", 0.0015},
      {"12:30", "12:30"},
      {"2001-01-01", "2001-01-01"},
      {"1.2.3", "1.2.3"},
      {"e5", "e5"},
      {"0x", "0x"},
      {"18446744073709551615", 18446744073709551615U},
      {"18446744073709551616", 18446744073709551616.0},
      {"-9223372036854775808", std::numeric_limits<int64_t>::min()},
  };
  for (const auto& [text, value] : cases) {
    CAPTURE(text);
    const Json read_back = read("key: " + std::string(text)).at("key");
    CHECK(read_back == value);
    CHECK(read_back.is_number_integer() == value.is_number_integer());
    CHECK(read_back.is_string() == value.is_string());
  }
  CHECK(read("key:").at("key").is_null());
}

TEST_CASE("yaml: integers are read exactly, and a number that would be rounded to an integer is refused") {
  CHECK(read("9007199254740993.0") == uint64_t{9007199254740993});
  CHECK(read("+1.8446744073709551615e19") == std::numeric_limits<uint64_t>::max());
  CHECK(read("-9007199254740993.0") == int64_t{-9007199254740993});
  CHECK(refusal("seed: 1e-400") == "run.yaml:1:7: 1e-400 cannot be represented, the nearest number is 0.0");
  CHECK(refusal("seed: 2.00000000000000000001") ==
        "run.yaml:1:7: 2.00000000000000000001 cannot be represented, the nearest number is 2.0");
}

TEST_CASE("yaml: quoted scalars and blocks are text") {
  CHECK(read("a: 'true'\nb: \"1\"\nc: |\n  1\nd: >-\n  null\n") ==
        Json::parse(R"({"a": "true", "b": "1", "c": "1\n", "d": "null"})"));
  CHECK(read("! 12") == "12");
}

TEST_CASE("yaml: blocks, flows, comments and aliases, with keys in order") {
  const Json value = read("# a run\nz: {b: 1, a: [1, 2.5]} # two\ny: &list\n- 1\n- - 2\nx: *list\n1: true\n");
  CHECK(value.dump() == R"({"z":{"b":1,"a":[1,2.5]},"y":[1,[2]],"x":[1,[2]],"1":true})");
}

TEST_CASE("yaml: a JSON file is the same value as YAML") {
  for (const std::string& text : samples()) {
    if (!text.starts_with('{')) continue;
    CAPTURE(text);
    CHECK(read(text) == parse_strict(text, "run.json"));
  }
}

TEST_CASE("yaml: errors have line and column") {
  const std::pair<std::string, std::string> cases[] = {
      {"", ": is empty, expected a YAML value"},
      {"# only a comment\n", ": is empty, expected a YAML value"},
      {"a: 1\nb: 2\na: 3\n", ":3:1: the key a is there twice"},
      {"s:\n  a: {b: 1, 'b': 2}\n", ":2:13: the key b is there twice"},
      {"a: !!int 3\n", ":1:4: the tag tag:yaml.org,2002:int is not supported"},
      {"a: !mine {b: 1}\n", ":1:4: the tag !mine is not supported"},
      {"a: 1\n---\nb: 2\n", ": holds several documents, or text after its value; expected one document"},
      {"{\"a\": 1} // x\n", ": holds several documents, or text after its value; expected one document"},
      {"[1, 2]: 3\n", ":1:1: a list or a map as a key; is a bracket not closed?"},
      {"{a: 1", ":1:1: a list or a map as a key; is a bracket not closed?"},
      {"? {a: 1}\n: 3\n", ":1:3: a list or a map as a key; is a bracket not closed?"},
      {"~: 3\n", ":1:1: a key that is no text"},
      {"a: .inf\n", ":1:4: .inf is not a finite number"},
      {"a: -.INF\n", ":1:4: -.INF is not a finite number"},
      {"a: .nan\n", ":1:4: .nan is not a finite number"},
      {"a: 1e999\n", ":1:4: 1e999 is too large a number"},
      {"a: 0x10000000000000000\n", ":1:4: 0x10000000000000000 is too large a number"},
      {"a: \xff\n", ": not valid YAML: ill-formed UTF-8"},
      {"a: 1\x04\nb: 2\n", ": not valid YAML: a control character, byte 5"},
      {std::string("a: \0", 4), ": not valid YAML: a control character, byte 4"},
      {nested("[", "", "]", 33), ":1:33: nested deeper than 32 levels"},
  };
  for (const auto& [text, error] : cases) {
    CAPTURE(text);
    CHECK(refusal(text) == "run.yaml" + error);
  }
  for (const char* text : {"a: [1, 2", "a: b: c", "a:\n\tb: 1", "a: *nothing", "\"a", "a: @x"}) {
    CAPTURE(text);
    CHECK(refusal(text).starts_with("run.yaml:"));
    CHECK(refusal(text).find(": not valid YAML: ") != std::string::npos);
  }
  CHECK(refusal(nested("[", "1", "]", 32)) == "");
}

TEST_CASE("yaml: the error about a key * without quotes shows the quotes") {
  const std::string hint = "; a key * is written in quotes: \"*\"";
  for (const char* text : {"encoders:\n  *: {kind: mlp}\n", "encoders: {*: {kind: mlp}}\n", "*: 3\n",
                           "encoders: {a: 1, *: {kind: mlp}}\n", "encoders:\n  a: 1\n  * : 3\n"}) {
    CAPTURE(text);
    CHECK(refusal(text).ends_with(hint));
  }
  for (const char* text : {"a: *nothing", "a: [*nothing]", "*nothing : 3", "a: * b"}) {
    CAPTURE(text);
    CHECK(refusal(text).find(hint) == std::string::npos);
  }
  CHECK(refusal("encoders: {\"*\": {kind: mlp}, a: {}}") == "");
}

TEST_CASE("yaml: what the parser misses is refused with its usual cause") {
  const std::string tabs = "; tabs cannot indent, use spaces", open = "; is a brace or a bracket not closed?",
                    indented = "; is this line indented differently from those above it, or a brace not closed?",
                    further =
                        "; is this line indented further than the one above it, or a text with \": \" not in quotes?";
  const std::pair<std::string, std::string> cases[] = {
      {"env:\n\tid: x\n", tabs},
      {"env:\n  id: x\n\trows: 8\n", tabs},
      {"a: [1, 2", open},
      {"a: 1\nb: {c: 1\n", open},
      {"a:\n  b: 1\n c: 2\n", indented},
      {"a:\n  - 1\n b: 2\n", indented},
      {"a: 1\n  b: 2\n", further},
      {"a: b: c", further},
      {"a: @x", "unknown token"},
  };
  for (const auto& [text, cause] : cases) {
    CAPTURE(text);
    CHECK(refusal(text) != "");
    CAPTURE(refusal(text));
    CHECK(refusal(text).ends_with(cause));
  }
}

TEST_CASE("yaml: aliases that multiply are refused, and so is one inside its own anchor") {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 10; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) bomb += (j ? ", " : "") + before;
    bomb += "]\n";
  }
  CHECK(refusal(bomb).find(": holds more than 100000 values") != std::string::npos);
  CHECK(refusal("a: &a [1, *a]\n") == "run.yaml:1:11: an alias inside of what it stands for");
}

TEST_CASE("yaml: very deep texts are refused, and long ones are read") {
  for (const char* open : {"[", "{a: ", "- ", "? "})
    CHECK(refusal(nested(open, "", "", 200'000)).starts_with("run.yaml:"));
  CHECK(refusal("a: " + std::string(1 << 20, '1')) == "");
  CHECK(refusal(nested("&a ", "1", "", 100'000)).starts_with("run.yaml:"));
}

TEST_CASE("yaml fuzz: a text with bytes changed is read or refused with one line") {
  for (uint64_t i = 0; i < 4000; ++i) {
    Rng rng(derive_key(1, "yaml", i));
    const std::string text = mutated(rng);
    CAPTURE(text);
    std::string error;
    try {
      const Json value = read(text);
      CHECK(parse_strict(value.dump(), "again") == value);
    } catch (const ConfigError& refused) {
      error = refused.what();
    }
    CAPTURE(error);
    CHECK(printable(error, error.size()) == error);
    CHECK(error.size() <= 500);
    if (!error.empty()) CHECK(error.starts_with("run.yaml:"));
  }
}
