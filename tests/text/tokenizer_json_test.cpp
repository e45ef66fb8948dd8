#include "text/tokenizer_json.h"

#include "runtime/base/errors.h"
#include "tests/support/test.h"
#include "tests/text/fixtures.h"

using namespace troupe;
using namespace troupe::test;

namespace {

std::string refusal(const Tree& tree) {
  try {
    read_tokenizer_json(tree.dump(), "t.json");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

// The refusal of the small tokenizer with one value replaced.
std::string refusal(const char* pointer, const Tree& value) {
  Tree tree = small_tokenizer();
  tree[Tree::json_pointer(pointer)] = value;
  return refusal(tree);
}

Tree splitters(const Tree& first) {
  return {{"type", "Sequence"}, {"pretokenizers", {first, small_tokenizer()["pre_tokenizer"]}}};
}

Tree split(const Tree& pattern, const char* behavior = "Isolated", bool invert = false) {
  return splitters({{"type", "Split"}, {"pattern", pattern}, {"behavior", behavior}, {"invert", invert}});
}

}  // namespace

TEST_CASE("tokenizer_json: the small file is accepted") {
  CHECK(refusal(small_tokenizer()) == "accepted");
  CHECK(refusal("/model/dropout", 0.0) == "accepted");
  CHECK(refusal("/model/continuing_subword_prefix", "") == "accepted");
  CHECK(refusal("/model/unk_token", "") == "accepted");
  CHECK(refusal("/model/merges", Tree::array()) == "accepted");
  CHECK(refusal("/normalizer", {{"type", "NFC"}}) == "accepted");
  CHECK(refusal("/pre_tokenizer", split({{"Regex", "\\p{N}{1,3}"}})) == "accepted");
}

TEST_CASE("tokenizer_json: what is not supported is refused with its place") {
  struct Case {
    const char* pointer;
    Tree value;
    const char* text;
  };
  const Tree byte_level = small_tokenizer()["pre_tokenizer"];
  for (
      const Case& c : std::initializer_list<Case>{
          {"/version", "2.0", "version: \"2.0\" is not supported, expected \"1.0\""},
          {"/truncation", {{"max_length", 8}}, "truncation: {\"max_length\":8} is not supported, expected null"},
          {"/padding", {{"strategy", "x"}}, "padding: "},
          {"/extra", 1, "extra: unknown key"},
          {"/model", 1, "model: 1 is not supported, expected an object"},
          {"/model/type", "Unigram", "model.type: \"Unigram\" is not supported, expected BPE"},
          {"/model/type", "WordPiece", "model.type: \"WordPiece\" is not supported, expected BPE"},
          {"/model/dropout", 0.1, "model.dropout: 0.1 is not supported, expected null"},
          {"/model/unk_token", "<unk>", "model.unk_token: \"<unk>\" is not supported, expected a token of model.vocab"},
          {"/model/continuing_subword_prefix", "##",
           "model.continuing_subword_prefix: \"##\" is not supported, expected null"},
          {"/model/end_of_word_suffix", "</w>", "model.end_of_word_suffix: \"</w>\" is not supported, expected null"},
          {"/model/fuse_unk", true, "model.fuse_unk: true is not supported, expected false"},
          {"/model/byte_fallback", true, "model.byte_fallback: true is not supported, expected false"},
          {"/model/byte_fallback", 1, "model.byte_fallback: 1 is not supported, expected true or false"},
          {"/model/extra", 1, "model.extra: unknown key"},
          {"/model/vocab", Tree::array(), "model.vocab: "},
          {"/model/vocab/a", 98, "model.vocab: \"b\" has the id 98 of another token"},
          {"/model/vocab/a", -1, "model.vocab: \"a\" has the id -1, expected a whole number below the 261 tokens"},
          {"/model/vocab/a", 261, "model.vocab: \"a\" has the id 261, expected a whole number below the 261 tokens"},
          {"/model/vocab/a", 1.5, "model.vocab: \"a\" has the id 1.5, expected a whole number below the 261 tokens"},
          {"/model/merges/0", "lo", "model.merges[0]: \"lo\" is not a merge"},
          {"/model/merges/0", "l o w", "model.merges[0]: \"l o w\" is not a merge"},
          {"/model/merges/0", {"l"}, "model.merges[0]: "},
          {"/model/merges/0", {"l", "q"}, "model.merges[0]: needs the token \"lq\", which model.vocab does not have"},
          {"/normalizer", {{"type", "NFKC"}}, "normalizer.type: \"NFKC\" is not supported, expected NFC"},
          {"/normalizer", {{"type", "Sequence"}}, "normalizer.type: \"Sequence\" is not supported, expected NFC"},
          {"/pre_tokenizer", nullptr, "pre_tokenizer: null is not supported, expected an object"},
          {"/pre_tokenizer/type", "Metaspace",
           "pre_tokenizer.type: \"Metaspace\" is not supported, expected ByteLevel"},
          {"/pre_tokenizer/add_prefix_space", true,
           "pre_tokenizer.add_prefix_space: true is not supported, expected false"},
          {"/pre_tokenizer/add_prefix_space", nullptr, "pre_tokenizer: add_prefix_space is missing, expected false"},
          {"/pre_tokenizer", {{"type", "Sequence"}, {"pretokenizers", Tree::array()}}, "pre_tokenizer.pretokenizers: "},
          {"/pre_tokenizer",
           {{"type", "Sequence"}, {"pretokenizers", {{{"type", "Whitespace"}}}}},
           "pre_tokenizer.pretokenizers[0].type: \"Whitespace\" is not supported, expected ByteLevel"},
          {"/pre_tokenizer", splitters({{"type", "Whitespace"}}),
           "pre_tokenizer.pretokenizers[0].type: \"Whitespace\" is not supported, expected Digits, Split or ByteLevel"},
          {"/pre_tokenizer", splitters(byte_level),
           "pre_tokenizer.pretokenizers[0].type: \"ByteLevel\" is not supported, expected Digits, Split or ByteLevel, "
           "and ByteLevel at the end"},
          {"/pre_tokenizer", split({{"String", " "}}), "pre_tokenizer.pretokenizers[0].pattern.String: unknown key"},
          {"/pre_tokenizer", split({{"Regex", "a."}}),
           "pre_tokenizer.pretokenizers[0].pattern.Regex: \"a.\" contains \".\" at byte 1, which is not supported"},
          {"/pre_tokenizer", split({{"Regex", "a"}}, "Removed"),
           "pre_tokenizer.pretokenizers[0].behavior: \"Removed\" is not supported, expected Isolated"},
          {"/pre_tokenizer", split({{"Regex", "a"}}, "Isolated", true),
           "pre_tokenizer.pretokenizers[0].invert: true is not supported, expected false"},
          {"/post_processor",
           {{"type", "BertProcessing"}},
           "post_processor.type: \"BertProcessing\" is not supported, expected ByteLevel, TemplateProcessing"},
          {"/decoder", nullptr, "decoder: null is not supported, expected an object"},
          {"/decoder/type", "WordPiece", "decoder.type: \"WordPiece\" is not supported, expected ByteLevel"},
          {"/added_tokens/1/lstrip", true, "added_tokens[1].lstrip: true is not supported, expected false"},
          {"/added_tokens/1/rstrip", true, "added_tokens[1].rstrip: true is not supported, expected false"},
          {"/added_tokens/1/single_word", true, "added_tokens[1].single_word: true is not supported, expected false"},
          {"/added_tokens/1/id", 263, "added_tokens[1].id: 263 is not supported, expected 262"},
          {"/added_tokens/1/id", -1, "added_tokens[1].id: -1 is not an id"},
          {"/added_tokens/1/content", "a", "added_tokens[1].id: 262 is not supported, expected 97"},
          {"/added_tokens/1/content", "", "added_tokens[1].content: \"\" is not supported, expected a text"},
          {"/added_tokens/1/content", "<|im_start|>",
           "added_tokens[1].content: \"<|im_start|>\" is not supported, expected each token once"}}) {
    const std::string found = refusal(c.pointer, c.value);
    CHECK_MESSAGE(found.starts_with("t.json: " + std::string(c.text)), c.pointer << " gave: " << found);
  }
}

TEST_CASE("tokenizer_json: templates other than one token before the text are refused") {
  const Tree text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  const Tree token = {{"SpecialToken", {{"id", "<|im_start|>"}, {"type_id", 0}}}};
  const auto with = [&](const Tree& single, int id = 261) {
    return Tree{{"type", "TemplateProcessing"},
                {"single", single},
                {"pair", Tree::array()},
                {"special_tokens", {{"<|im_start|>", {{"id", "<|im_start|>"}, {"ids", {id}}, {"tokens", {"x"}}}}}}};
  };
  CHECK(refusal("/post_processor", with(Tree::array({text}))) == "accepted");
  CHECK(refusal("/post_processor", with(Tree::array({token, text}))) == "accepted");
  const std::string shape =
      "t.json: post_processor.single: expected the text alone, or one special token before the text";
  CHECK(refusal("/post_processor", with(Tree::array({text, token}))) == shape);
  CHECK(refusal("/post_processor", with(Tree::array({token, text, token}))) == shape);
  CHECK(refusal("/post_processor", with(Tree::array())) == shape);
  CHECK(refusal("/post_processor", with(Tree::array({token, text}), 263)) ==
        "t.json: post_processor: adds the id 263, expected an id below 263");
}

TEST_CASE("tokenizer_json: a missing key, a key that is there twice and other text are refused") {
  Tree tree = small_tokenizer();
  tree.erase("decoder");
  CHECK(refusal(tree) == "t.json: the key \"decoder\" is missing");
  tree = small_tokenizer();
  tree["model"].erase("type");
  CHECK(refusal(tree) == "accepted");
  tree["model"].erase("merges");
  CHECK(refusal(tree) == "t.json: model: the key \"merges\" is missing");
  CHECK(refusal(Tree::array()) == "t.json: [] is not supported, expected an object");
  CHECK_THROWS_AS(read_tokenizer_json("{\"version\": \"1.0\", \"version\": \"1.0\"}", "t.json"), ConfigError);
  CHECK_THROWS_AS(read_tokenizer_json("", "t.json"), ConfigError);
  CHECK_THROWS_AS(read_tokenizer_json("{", "t.json"), ConfigError);
}

TEST_CASE("tokenizer_json: a special token is a text, or an object with its text") {
  const std::string json =
      R"({"eos_token": {"content": "</s>", "lstrip": false}, "bos_token": "<s>", "pad_token": null})";
  CHECK(special_token_of(json, "c.json", "eos_token") == "</s>");
  CHECK(special_token_of(json, "c.json", "bos_token") == "<s>");
  CHECK_FALSE(special_token_of(json, "c.json", "pad_token").has_value());
  CHECK_FALSE(special_token_of(json, "c.json", "unk_token").has_value());
  CHECK_THROWS_WITH_AS(special_token_of(R"({"eos_token": 3})", "c.json", "eos_token"),
                       "c.json: eos_token: 3 is not supported, expected a string", ConfigError);
}
