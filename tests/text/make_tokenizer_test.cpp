#include "text/make_tokenizer.h"

#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"
#include "tests/text/fixtures.h"

using namespace troupe;
using namespace troupe::test;

namespace {

std::string refusal(const TokenizerConfig& config) {
  try {
    make_tokenizer(config);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

// A folder with the small tokenizer, and the config that reads it.
struct Files {
  TempFolder folder;
  TokenizerConfig config;

  explicit Files(const std::string& tokenizer_config = "") {
    posix_disk().write_atomic(folder / "tokenizer.json", small_tokenizer().dump());
    if (!tokenizer_config.empty()) posix_disk().write_atomic(folder / "tokenizer_config.json", tokenizer_config);
    config.kind = "bpe";
    config.path = folder.path();
  }
};

}  // namespace

TEST_CASE("make_tokenizer: char needs an alphabet and nothing of bpe") {
  TokenizerConfig config;
  CHECK(refusal(config) == "tokenizer.alphabet: \"\" is empty, expected the characters of the texts");
  config.alphabet = "0123456789";
  CHECK(make_tokenizer(config)->vocabulary_size() == 12);
  config.path = "x";
  CHECK(refusal(config) ==
        "tokenizer.path: \"x\" has no effect with tokenizer.kind \"char\"; set tokenizer.kind to \"bpe\", or remove "
        "tokenizer.path (default \"\")");
  config.path = "";
  config.eos = "two\nlines";
  CHECK(refusal(config).starts_with("tokenizer.eos: \"two\\x0alines\" has no effect with tokenizer.kind \"char\"; "));
}

TEST_CASE("make_tokenizer: bpe reads a file, or the folder that contains it") {
  const Files files;
  TokenizerConfig config = files.config;
  CHECK(make_tokenizer(config)->vocabulary_size() == 263);
  config.path = files.folder / "tokenizer.json";
  CHECK(make_tokenizer(config)->vocabulary_size() == 263);
  CHECK_FALSE(make_tokenizer(config)->eos().has_value());
  config.path = files.folder / "absent.json";
  CHECK(refusal(config).starts_with("tokenizer.path: " + config.path + ": "));
  config.path = "";
  CHECK(refusal(config) == "tokenizer.path: \"\" is empty, expected the path of a tokenizer.json");
  config.path = files.folder.path();
  config.alphabet = "ab";
  CHECK(refusal(config).starts_with("tokenizer.alphabet: \"ab\" has no effect with tokenizer.kind \"bpe\""));
}

TEST_CASE("make_tokenizer: special tokens come from the config, else from tokenizer_config.json") {
  const Files files(R"({"eos_token": "<|im_end|>", "pad_token": {"content": "<|im_start|>"}, "other": [1]})");
  CHECK(make_tokenizer(files.config)->eos() == 262);
  CHECK(make_tokenizer(files.config)->pad() == 261);
  CHECK_FALSE(make_tokenizer(files.config)->bos().has_value());
  TokenizerConfig config = files.config;
  config.pad = "low";
  CHECK(make_tokenizer(config)->pad() == 257);
  config.pad = "nothing";
  CHECK(refusal(config) == "tokenizer.pad: \"nothing\" is not a token of the vocabulary");
  const Files wrong(R"({"eos_token": "</s>"})");
  CHECK(refusal(wrong.config) ==
        wrong.folder / "tokenizer_config.json" + ": eos_token: \"</s>\" is not a token of the vocabulary");
}

TEST_CASE("make_tokenizer: a tokenizer_config.json that makes transformers give other ids is refused") {
  const auto error = [](const std::string& config) {
    const Files files(config);
    const std::string what = refusal(files.config), begin = files.folder / "tokenizer_config.json" + ": ";
    return what.starts_with(begin) ? what.substr(begin.size()) : what;
  };
  CHECK(error(R"({"add_prefix_space": false, "split_special_tokens": false, "add_bos_token": false})") == "accepted");
  CHECK(error(R"({"add_prefix_space": true})") == "add_prefix_space: true is not supported, expected false");
  CHECK(error(R"({"split_special_tokens": true})") == "split_special_tokens: true is not supported, expected false");
  const std::string good = R"({"added_tokens_decoder": {"262": {"content": "<|im_end|>", "lstrip": false}}})";
  CHECK(error(good) == "accepted");
  CHECK(error(R"({"added_tokens_decoder": {"262": {"content": "<|im_end|>", "lstrip": true}}})") ==
        "added_tokens_decoder.262.lstrip: true is not supported, expected false");
  CHECK(error(R"({"added_tokens_decoder": {"261": {"content": "<|im_end|>"}}})") ==
        "added_tokens_decoder.261: the token \"<|im_end|>\" with the id 261 is not one of the added_tokens of "
        "tokenizer.json");
  CHECK(error(R"({"additional_special_tokens": ["<|im_end|>", "<new>"]})") ==
        "additional_special_tokens[1]: \"<new>\" is not one of the added_tokens of tokenizer.json");
  CHECK(error(R"({"eos_token": "low"})") == "eos_token: \"low\" is not one of the added_tokens of tokenizer.json");
}

TEST_CASE("make_tokenizer: chatml needs its tokens in the vocabulary") {
  const Files files;
  TokenizerConfig config = files.config;
  config.chat_template = "chatml";
  CHECK(refusal(config) == "accepted");
  config = {};
  config.alphabet = "ab";
  config.chat_template = "chatml";
  CHECK(
      refusal(config) ==
      "tokenizer.chat_template: chatml needs the token \"<|im_start|>\", which the vocabulary does not have, expected "
      "none");
}

TEST_CASE("make_tokenizer: an unknown kind is refused") {
  TokenizerConfig config;
  config.kind = "unigram";
  CHECK(refusal(config) == "tokenizer.kind: \"unigram\" is unknown, expected one of: char, bpe");
}

TEST_CASE("tokenizer_config: every member is described, and defaults are accepted") {
  TokenizerConfig config;
  Fields fields;
  describe(config, fields);
  CHECK(fields.size() == 7);
  const auto root = nlohmann::ordered_json::parse(fields_json(fields));
  read_fields(fields, root, "config");
  CHECK(config == TokenizerConfig{});
  CHECK_THROWS_WITH_AS(override_field(fields, "tokenizer.kind=word"), doctest::Contains("expected one of: char, bpe"),
                       ConfigError);
}
