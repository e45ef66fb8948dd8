#include "text/write_tokenizer.h"

#include <nlohmann/json.hpp>

#include "runtime/base/strict_json.h"

namespace troupe {

namespace {

Json special_token(int32_t id, std::string_view content) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", true}};
}

}  // namespace

std::string tokenizer_json(const CharTokenizer& tokenizer) {
  Json vocabulary = Json::object();
  // `unk_token` is required there; because the vocabulary does not have it, unknown characters are errors.
  for (const std::string& token : tokenizer.tokens()) vocabulary.emplace(token, vocabulary.size());
  const Json file = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens",
       {special_token(CharTokenizer::kPad, CharTokenizer::kPadToken),
        special_token(CharTokenizer::kEos, CharTokenizer::kEosToken)}},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"Regex", "[\\s\\S]"}}}, {"behavior", "Isolated"}, {"invert", false}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "Fuse"}}},
      {"model", {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "<unk>"}}},
  };
  return file.dump(1) + '\n';
}

std::string tokenizer_config_json() {
  const Json file = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                     {"pad_token", CharTokenizer::kPadToken},
                     {"eos_token", CharTokenizer::kEosToken},
                     {"clean_up_tokenization_spaces", false}};
  return file.dump(1) + '\n';
}

void write_tokenizer_json(const CharTokenizer& tokenizer, Disk& disk, const std::string& folder) {
  disk.write_atomic(folder + "/tokenizer.json", tokenizer_json(tokenizer));
  disk.write_atomic(folder + "/tokenizer_config.json", tokenizer_config_json());
}

}  // namespace troupe
