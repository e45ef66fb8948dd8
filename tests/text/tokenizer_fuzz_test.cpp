// Changes bytes of a tokenizer.json at random. The only allowed outcomes are a tokenizer that works, and a ConfigError
// of one line. TROUPE_FUZZ_SECONDS runs for that time instead of a fixed number of files; TROUPE_FUZZ_SEED is the first
// seed.

#include <chrono>
#include <cstdlib>

#include "runtime/base/errors.h"
#include "runtime/base/rng.h"
#include "tests/support/test.h"
#include "tests/text/fixtures.h"
#include "text/utf8.h"

using namespace troupe;
using namespace troupe::test;

namespace {

using Clock = std::chrono::steady_clock;

uint64_t number_in(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Every part of a file that is read. The vocabulary comes last, so that most changes hit something else.
std::string whole_file() {
  Tree tree = small_tokenizer();
  tree["normalizer"] = {{"type", "NFC"}};
  const Tree split = {
      {"type", "Split"},
      {"pattern", {{"Regex", R"((?i:'s|'t)|[^\r\n\p{L}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}]++|\s+(?!\S)|\s+)"}}},
      {"behavior", "Isolated"},
      {"invert", false}};
  const Tree digits = {{"type", "Digits"}, {"individual_digits", true}};
  tree["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers", Tree::array({split, digits, tree["pre_tokenizer"]})}};
  const Tree single =
      Tree::array({{{"SpecialToken", {{"id", "<|im_start|>"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}}}}});
  tree["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", single},
                            {"pair", Tree::array()},
                            {"special_tokens", {{"<|im_start|>", {{"ids", Tree::array({261})}}}}}};
  const Tree vocabulary = tree["model"]["vocab"];
  tree["model"].erase("vocab");
  tree["model"]["vocab"] = vocabulary;
  return tree.dump();
}

// The text with one to four changes.
std::string changed(std::string text, Rng& rng) {
  static constexpr std::string_view kPieces[] = {"null", "true",   "-1",  "1e9",      "2147483647", "4294967296", "0.5",
                                                 "[]",   "{}",     "\"",  "\\",       "\\u0000",    "\\ud800",    ",",
                                                 "(",    ")",      "[",   "]",        "*",          "+",          "|",
                                                 "^",    "{9999}", "(?:", "\\\\p{L}", "\xff",       "\xc3",       "é"};
  for (uint64_t changes = 1 + rng.below(4); changes > 0 && !text.empty(); --changes) {
    const size_t at = rng.below(text.size()), count = rng.below(20);
    switch (rng.below(5)) {
      case 0: text[at] = static_cast<char>(rng.below(256)); break;
      case 1: text[at] = static_cast<char>(static_cast<uint8_t>(text[at]) ^ (1u << rng.below(8))); break;
      case 2: text.erase(at, count); break;
      case 3: text.insert(at, text.substr(rng.below(text.size()), count)); break;
      default: text.insert(at, kPieces[rng.below(std::size(kPieces))]);
    }
  }
  return text;
}

// Whether the file gives a tokenizer, which is then used.
bool loads(const std::string& file) {
  try {
    const BpeTokenizer tokenizer(read_tokenizer_json(file, "t.json"));
    const std::string text = "lower low\n\n slow's 1234 e\u0301\u65e5<|im_end|>\u3000!";
    const std::vector<int32_t> ids = tokenizer.encode_prompt(text);
    for (const int32_t id : ids) REQUIRE((id >= 0 && id < tokenizer.vocabulary_size()));
    REQUIRE_FALSE(utf8_error(tokenizer.decode(ids)).has_value());
    REQUIRE(static_cast<size_t>(tokenizer.vocabulary_size()) <= file.size());
    return true;
  } catch (const ConfigError& error) {
    const std::string what = error.what();
    REQUIRE_MESSAGE((what.starts_with("t.json") || what.starts_with("text: ")), what);
    REQUIRE_MESSAGE(what.find('\n') == std::string::npos, what);
    return false;
  }
}

}  // namespace

TEST_CASE("tokenizer_json: a file with changed bytes loads or is refused in one line") {
  const std::string file = whole_file();
  REQUIRE(loads(file));
  const bool timed = std::getenv("TROUPE_FUZZ_SECONDS") != nullptr;
  const auto end = Clock::now() + std::chrono::seconds(number_in("TROUPE_FUZZ_SECONDS", 0));
  const uint64_t first = number_in("TROUPE_FUZZ_SEED", 1);
  int loaded = 0, refused = 0;
  for (uint64_t seed = first; timed ? Clock::now() < end : seed < first + 3000; ++seed) {
    INFO("TROUPE_FUZZ_SEED=" << seed);
    Rng rng(seed);
    ++(loads(changed(file, rng)) ? loaded : refused);
  }
  MESSAGE(loaded << " files loaded, " << refused << " refused");
  CHECK((timed || (loaded > 20 && refused > 1000)));
}
