#include "text/split_pattern.h"

#include "runtime/base/errors.h"
#include "runtime/base/rng.h"
#include "tests/support/test.h"
#include "text/utf8.h"

using namespace troupe;

namespace {

using Words = std::vector<std::string>;

constexpr const char* kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

Words split(const char* regex, std::string_view text) {
  std::vector<std::string_view> words;
  SplitPattern(regex, "p").split(text, words);
  return {words.begin(), words.end()};
}

std::string refusal(const std::string& regex) {
  try {
    const SplitPattern pattern(regex, "p");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("split_pattern: GPT-2's words") {
  CHECK(split(kGpt2, "I'll pay  $12.50 today\n\n  ok") ==
        Words{"I", "'ll", " pay", " ", " $", "12", ".", "50", " today", "\n\n ", " ok"});
  CHECK(split(kGpt2, "") == Words{});
  CHECK(split(kGpt2, "I'LL") == Words{"I", "'", "LL"});
}

TEST_CASE("split_pattern: Qwen2's words") {
  CHECK(split(kQwen2, "I'LL pay  $12 today\n\n  ok") ==
        Words{"I", "'LL", " pay", " ", " $", "1", "2", " today", "\n\n", " ", " ok"});
}

TEST_CASE("split_pattern: U+180E is no white space, although it is to PCRE2") {
  CHECK(split("\\s+", "a\u180eb\u3000c") == Words{"a\u180eb", "\u3000", "c"});
  CHECK(split("\\S+", "a\u180eb\u3000c") == Words{"a\u180eb", "\u3000", "c"});
  CHECK(split("[\\s]", " ") == Words{" "});
}

TEST_CASE("split_pattern: the words of any text are the text") {
  Rng rng(3);
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i)
      append_utf8(text,
                  rng.below(3) == 0 ? static_cast<char32_t>(rng.below(0xD800)) : static_cast<char32_t>(rng.below(128)));
    for (const char* regex : {kGpt2, kQwen2, "\\p{N}", "abc"}) {
      std::string joined;
      for (const std::string& word : split(regex, text)) {
        REQUIRE_FALSE(word.empty());
        joined += word;
      }
      REQUIRE(joined == text);
    }
  }
}

TEST_CASE("split_pattern: long runs need neither much time nor much stack") {
  for (const char c : {' ', 'a', '\n', '1', '!'}) {
    const std::string text(1 << 20, c);
    CHECK(split(kGpt2, text + "x").size() <= 3);
    CHECK_FALSE(split(kQwen2, text + "x").empty());
  }
}

TEST_CASE("split_pattern: what Oniguruma and PCRE2 may read differently is refused with its place") {
  struct Case {
    const char *regex, *part;
    int at;
  };
  for (const Case& c : std::initializer_list<Case>{{"a.b", ".", 1},
                                                   {"^a", "^", 0},
                                                   {"a$", "$", 1},
                                                   {"\\w+", "\\w", 0},
                                                   {"\\d", "\\d", 0},
                                                   {"a+?", "+?", 1},
                                                   {"a{2}?", "}?", 3},
                                                   {"a{,2}", "{,", 1},
                                                   {"(?<=a)b", "(?<=", 0},
                                                   {"(?s:a)", "(?s:", 0},
                                                   {"(*UTF)a", "(*UT", 0},
                                                   {"\\p{Han}", "\\p{Han}", 0},
                                                   {"\\p{Cn}", "\\p{Cn}", 0},
                                                   {"[a[b]]", "[b", 2},
                                                   {"[a&&b]", "&&", 2},
                                                   {"[\\S]", "\\S", 1},
                                                   {"[]a]", "[]", 0},
                                                   {"[a", "[a", 0},
                                                   {"(?i:[a])", "[", 4},
                                                   {"(?i:\\p{Lu})", "\\p{Lu}", 4},
                                                   {"(?i:é)", "\\xc3", 4},
                                                   {"(?i:ss)", "s", 5},
                                                   {"(?i:f(?:I))", "I", 8},
                                                   {"(?i:S)(?i:t)", "t", 10},
                                                   {"a)", ")", 1},
                                                   {"\\1", "\\1", 0},
                                                   {"\\b", "\\b", 0},
                                                   {"[!-/]", "-/]", 2},
                                                   {"[a-z-9]", "-z-", 2}})
    CHECK(refusal(c.regex) == "p: \"" + std::string(c.regex) + "\" contains \"" + c.part + "\" at byte " +
                                  std::to_string(c.at) + ", which is not supported");
}

TEST_CASE("split_pattern: a wrong expression, and one that matches nothing at all, are refused") {
  CHECK(refusal("(a").starts_with("p: \"(a\" is not a regular expression: "));
  CHECK(refusal("+").starts_with("p: \"+\" is not a regular expression: "));
  CHECK(refusal("") == "p: \"\" matches an empty text, expected one that does not");
  CHECK(refusal("\\s*") == "p: \"\\s*\" matches an empty text, expected one that does not");
  CHECK(refusal("a{2,3}|[a-z0-9]++(?:b|c)?+\\.") == "accepted");
  CHECK(refusal("(?i:'s|t|f!i)fi") == "accepted");
}

TEST_CASE("split_pattern: a match that takes too many steps is refused") {
  const std::string text = std::string(64, 'a') + " b";
  CHECK_THROWS_WITH_AS(
      split("(?:a|a)+b", text),
      ("text: 66 bytes from \"" + std::string(60, 'a') + "...\" cannot be split into words: match limit exceeded")
          .c_str(),
      ConfigError);
}
