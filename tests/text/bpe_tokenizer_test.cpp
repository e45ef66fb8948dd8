#include "text/bpe_tokenizer.h"

#include <thread>

#include "runtime/base/errors.h"
#include "runtime/base/rng.h"
#include "tests/support/test.h"
#include "tests/text/fixtures.h"
#include "text/utf8.h"

using namespace troupe;
using namespace troupe::test;

using Ids = std::vector<int32_t>;
using Pieces = std::vector<std::string>;

TEST_CASE("bpe: merges apply in the order of their ranks") {
  const BpeTokenizer tokenizer = tokenizer_of(small_tokenizer());
  CHECK(pieces(tokenizer, "lower low slow") == Pieces{"lower", " low", " ", "s", "low"});
  CHECK(tokenizer.encode("lower") == Ids{260});
  CHECK(tokenizer.encode("").empty());
  CHECK(tokenizer.vocabulary_size() == 263);
}

TEST_CASE("bpe: merges in one string mean the same as in two") {
  Tree tree = small_tokenizer();
  tree["model"]["merges"] = {"l o", "lo w", "e r", "Ġ low", "low er"};
  CHECK(tokenizer_of(tree).encode("lower low slow") == tokenizer_of(small_tokenizer()).encode("lower low slow"));
}

TEST_CASE("bpe: special tokens in the middle of a text are found before words") {
  const BpeTokenizer tokenizer = tokenizer_of(small_tokenizer());
  CHECK(pieces(tokenizer, "low<|im_end|>er") == Pieces{"low", "<|im_end|>", "er"});
  CHECK(pieces(tokenizer, "<|im_end|") == Pieces{"<", "|", "i", "m", "_", "e", "n", "d", "|"});
  const Ids ids = tokenizer.encode("<|im_start|>low<|im_end|>");
  CHECK(ids == Ids{261, 257, 262});
  CHECK(tokenizer.decode(ids) == "<|im_start|>low<|im_end|>");
  CHECK(tokenizer.decode(ids, SpecialTokens::skip) == "low");
}

TEST_CASE("bpe: of added tokens at one place the longest counts") {
  Tree tree = small_tokenizer();
  Tree token = tree["added_tokens"][1];
  token["id"] = 263;
  token["content"] = "<|im_end|>!";
  token["special"] = false;
  tree["added_tokens"].push_back(token);
  const BpeTokenizer tokenizer = tokenizer_of(tree);
  CHECK(tokenizer.encode("<|im_end|>!<|im_end|>") == Ids{263, 262});
  CHECK(tokenizer.decode(Ids{263}, SpecialTokens::skip) == "<|im_end|>!");
}

TEST_CASE("bpe: normalized added tokens are found in the normalised text") {
  Tree tree = small_tokenizer();
  tree["normalizer"] = {{"type", "NFC"}};
  tree["added_tokens"][0]["content"] = "caf\u00e9";
  tree["added_tokens"][0]["normalized"] = true;
  CHECK(tokenizer_of(tree).encode("cafe\u0301") == Ids{261});
  tree["added_tokens"][0]["normalized"] = false;
  CHECK(tokenizer_of(tree).encode("cafe\u0301") != Ids{261});
}

TEST_CASE("bpe: any text in UTF-8 is given back") {
  const BpeTokenizer tokenizer = tokenizer_of(small_tokenizer());
  Rng rng(11);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (uint64_t i = rng.below(60); i > 0; --i)
      append_utf8(text, static_cast<char32_t>(rng.below(2) == 0 ? rng.below(128) : rng.below(0xD800)));
    const Ids ids = tokenizer.encode(text);
    REQUIRE(tokenizer.decode(ids) == text);
    REQUIRE(tokenizer.encode(text) == ids);  // now from the cache
  }
}

TEST_CASE("bpe: a text that is not UTF-8 is refused, ids that do not spell UTF-8 are replaced") {
  const BpeTokenizer tokenizer = tokenizer_of(small_tokenizer());
  CHECK_THROWS_WITH_AS(tokenizer.encode("ab\xc3"), "text: byte 2 (0xc3) is not UTF-8, expected a text in UTF-8",
                       ConfigError);
  CHECK(tokenizer.decode(Ids{0xC3}) == "\xEF\xBF\xBD");
  CHECK(tokenizer.decode(Ids{0xC3, 0xA9}) == "é");
  CHECK(tokenizer.decode(Ids{-5, 'a', 100000}) == "a");
}

TEST_CASE("bpe: a byte without a token becomes the unknown token, or is left out") {
  Tree tree = small_tokenizer();
  Tree vocabulary = Tree::object();
  for (const auto& [token, id] : tree["model"]["vocab"].items()) vocabulary[token == "z" ? "日" : token] = id;
  tree["model"]["vocab"] = vocabulary;
  CHECK(tokenizer_of(tree).encode("azb") == Ids{'a', 'b'});
  tree["model"]["unk_token"] = "";
  CHECK_THROWS_WITH_AS(tokenizer_of(tree),
                       "t.json: model.unk_token: \"\" is not supported, expected a token of model.vocab, or null",
                       ConfigError);
  tree["model"]["unk_token"] = "q";
  CHECK(tokenizer_of(tree).encode("azb") == Ids{'a', 'q', 'b'});
}

TEST_CASE("bpe: with ignore_merges a word of the vocabulary is one token") {
  Tree tree = small_tokenizer();
  tree["model"]["vocab"]["xyz"] = 261;
  tree["added_tokens"][0]["id"] = 262;
  tree["added_tokens"][1]["id"] = 263;
  CHECK(tokenizer_of(tree).encode("xyz") == Ids{'x', 'y', 'z'});
  tree["model"]["ignore_merges"] = true;
  CHECK(tokenizer_of(tree).encode("xyz xyz") == Ids{261, ' ', 'x', 'y', 'z'});
}

TEST_CASE("bpe: splitters apply one after the other") {
  Tree tree = small_tokenizer({{"1", "2"}, {"a", "1"}});
  const Tree byte_level = tree["pre_tokenizer"];
  CHECK(pieces(tokenizer_of(tree), "a12") == Pieces{"a", "12"});
  tree["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers", {{{"type", "Digits"}, {"individual_digits", true}}, byte_level}}};
  CHECK(pieces(tokenizer_of(tree), "a12") == Pieces{"a", "1", "2"});
  tree["pre_tokenizer"]["pretokenizers"][0]["individual_digits"] = false;
  CHECK(pieces(tokenizer_of(tree), "a12") == Pieces{"a", "12"});
  tree["pre_tokenizer"]["pretokenizers"][0] = {
      {"type", "Split"}, {"pattern", {{"Regex", "[a-z]\\p{N}"}}}, {"behavior", "Isolated"}, {"invert", false}};
  tree["pre_tokenizer"]["pretokenizers"][1]["use_regex"] = false;
  CHECK(pieces(tokenizer_of(tree), "a12") == Pieces{"a1", "2"});
}

TEST_CASE("bpe: id_of finds tokens by their text") {
  const BpeTokenizer tokenizer = tokenizer_of(small_tokenizer());
  CHECK(tokenizer.id_of(" low") == 259);
  CHECK(tokenizer.id_of("<|im_end|>") == 262);
  CHECK(tokenizer.id_of("\n") == 10);
  CHECK_FALSE(tokenizer.id_of("Ġlow").has_value());
  CHECK_FALSE(tokenizer.id_of("").has_value());
}

TEST_CASE("bpe: a template with bos applies to prompts only") {
  Tree tree = small_tokenizer();
  tree["post_processor"] = {
      {"type", "TemplateProcessing"},
      {"single",
       {{{"SpecialToken", {{"id", "<|im_start|>"}, {"type_id", 0}}}}, {{"Sequence", {{"id", "A"}, {"type_id", 0}}}}}},
      {"pair", Tree::array()},
      {"special_tokens", {{"<|im_start|>", {{"id", "<|im_start|>"}, {"ids", {261}}, {"tokens", {"<|im_start|>"}}}}}}};
  const BpeTokenizer tokenizer = tokenizer_of(tree);
  CHECK(tokenizer.bos() == 261);
  CHECK(tokenizer.encode("low") == Ids{257});
  CHECK(tokenizer.encode_prompt("low") == Ids{261, 257});
  tree["post_processor"] = {{"type", "Sequence"}, {"processors", {{{"type", "ByteLevel"}}, tree["post_processor"]}}};
  CHECK(tokenizer_of(tree).encode_prompt("low") == Ids{261, 257});
  tree["post_processor"] = {{"type", "ByteLevel"}, {"trim_offsets", false}};
  CHECK(tokenizer_of(tree).encode_prompt("low") == Ids{257});
}

TEST_CASE("bpe: threads that share a tokenizer get the same ids") {
  const BpeTokenizer tokenizer = tokenizer_of(small_tokenizer());
  std::string text;
  for (int i = 0; i < 2000; ++i) text += " lower" + std::to_string(i);
  const Ids expected = tokenizer_of(small_tokenizer()).encode(text);
  std::vector<Ids> results(4);
  std::vector<std::thread> threads;
  for (Ids& result : results)
    threads.emplace_back([&] {
      for (int i = 0; i < 5; ++i) result = tokenizer.encode(text);
    });
  for (std::thread& thread : threads) thread.join();
  for (const Ids& result : results) CHECK(result == expected);
}

TEST_CASE("bpe: more words than the cache holds change nothing") {
  const BpeTokenizer tokenizer = tokenizer_of(small_tokenizer());
  std::string text;
  for (int i = 0; i < 20000; ++i) text += " " + std::to_string(i);
  CHECK(tokenizer.decode(tokenizer.encode(text)) == text);
  CHECK(tokenizer.encode("lower low slow") == tokenizer_of(small_tokenizer()).encode("lower low slow"));
}
