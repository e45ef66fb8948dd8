#include "text/char_tokenizer.h"

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "tests/support/test.h"
#include "text/write_tokenizer.h"

using namespace troupe;

using Ids = std::vector<int32_t>;

TEST_CASE("char: ids are pad, eos, then the alphabet in its order") {
  const CharTokenizer tokenizer("0é日🎲");
  CHECK(tokenizer.vocabulary_size() == 6);
  CHECK(tokenizer.pad() == 0);
  CHECK(tokenizer.eos() == 1);
  CHECK_FALSE(tokenizer.bos().has_value());
  CHECK(tokenizer.encode("🎲é0日0") == Ids{5, 3, 2, 4, 2});
  CHECK(tokenizer.id_of("é") == 3);
  CHECK(tokenizer.id_of("<eos>") == 1);
  CHECK_FALSE(tokenizer.id_of("é0").has_value());
  CHECK(tokenizer.encode_prompt("00") == Ids{2, 2});
}

TEST_CASE("char: decode gives back what encode was given") {
  const CharTokenizer tokenizer("ab \n日<>");
  for (const char* text : {"", "a", "ab\n 日日", "a<eos>b<pad>", "<<eos><b>"})
    CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
}

TEST_CASE("char: special tokens in a text become their ids, and can be left out of the text") {
  const CharTokenizer tokenizer("ab");
  CHECK(tokenizer.encode("a<eos>b<pad><pad>") == Ids{2, 1, 3, 0, 0});
  CHECK(tokenizer.decode(Ids{2, 1, 3, 0}) == "a<eos>b<pad>");
  CHECK(tokenizer.decode(Ids{2, 1, 3, 0}, SpecialTokens::skip) == "ab");
  CHECK(tokenizer.decode(Ids{-1, 2, 99}) == "a");
}

TEST_CASE("char: a character outside the alphabet is refused with its place") {
  const CharTokenizer tokenizer("ab日");
  CHECK_THROWS_WITH_AS(tokenizer.encode("a日<eos>é"),
                       "text: character 7 \"é\" (U+00E9) is not in the alphabet of the tokenizer; only a "
                       "new run can have another tokenizer.alphabet",
                       ConfigError);
  CHECK_THROWS_WITH_AS(tokenizer.encode("ab\n"),
                       "text: character 2 \"\\x0a\" (U+000A) is not in the alphabet of the tokenizer; only a "
                       "new run can have another tokenizer.alphabet",
                       ConfigError);
  CHECK_THROWS_WITH_AS(tokenizer.encode("a\xe6\x97"), "text: byte 1 (0xe6) is not UTF-8, expected a text in UTF-8",
                       ConfigError);
}

TEST_CASE("char: alphabets that are empty, repeat a character or are not UTF-8 are refused") {
  CHECK_THROWS_WITH_AS(CharTokenizer(""), "tokenizer.alphabet: \"\" is empty, expected the characters of the texts",
                       ConfigError);
  CHECK_THROWS_WITH_AS(CharTokenizer("aéba日é"),
                       "tokenizer.alphabet: \"a\" (U+0061) is there twice, expected each "
                       "character once",
                       ConfigError);
  CHECK_THROWS_WITH_AS(CharTokenizer("ab\xff"), "tokenizer.alphabet: \"ab\\xff\" is not UTF-8 from byte 2",
                       ConfigError);
}

TEST_CASE("char: the written files hold the vocabulary and name the special tokens") {
  const auto file = nlohmann::json::parse(tokenizer_json(CharTokenizer("a\"\\日")));
  CHECK(file["model"]["vocab"] ==
        nlohmann::json({{"<pad>", 0}, {"<eos>", 1}, {"a", 2}, {"\"", 3}, {"\\", 4}, {"日", 5}}));
  CHECK(file["added_tokens"][1]["content"] == "<eos>");
  const auto added =
      nlohmann::json::parse(tokenizer_json(CharTokenizer("a b"), CharacterTokens::added))["added_tokens"];
  CHECK(added.size() == 5);
  CHECK(added[3]["content"] == " ");
  CHECK(added[3]["id"] == 3);
  CHECK(added[3]["special"] == false);
  const auto config = nlohmann::json::parse(tokenizer_config_json());
  CHECK(config["eos_token"] == "<eos>");
  CHECK(config["pad_token"] == "<pad>");
}
