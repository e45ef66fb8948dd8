#include "text/write_tokenizer.h"

#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/base/strict_json.h"

namespace troupe {

namespace {

Json added_token(int32_t id, std::string_view content, bool special) {
  return {{"id", id},        {"content", content},  {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false}, {"special", special}};
}

// The template of transformers. It is given the text of the first token, because the result is encoded as a text.
std::string jinja_of(const WrittenTokens& tokens) {
  const std::string begin = tokens.prompts_begin_with_bos ? "{{ bos_token }}" : "";
  if (tokens.chat == ChatTemplate::none)
    return begin + "{% for message in messages %}{{ message['content'] }}{% endfor %}";
  return begin +
         R"({% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + )"
         R"('<|im_end|>' + '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})";
}

}  // namespace

std::string tokenizer_json(const CharTokenizer& tokenizer, CharacterTokens characters) {
  Json vocabulary = Json::object();
  // `unk_token` is required there; because the vocabulary does not have it, unknown characters are errors.
  for (const std::string& token : tokenizer.tokens()) vocabulary.emplace(token, vocabulary.size());
  Json added = Json::array({added_token(CharTokenizer::kPad, CharTokenizer::kPadToken, true),
                            added_token(CharTokenizer::kEos, CharTokenizer::kEosToken, true)});
  if (characters == CharacterTokens::added)
    for (int32_t id = CharTokenizer::kFirstCharacter; id < tokenizer.vocabulary_size(); ++id)
      added.push_back(added_token(id, tokenizer.tokens()[static_cast<size_t>(id)], false));
  const Json file = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", added},
      {"normalizer", nullptr},
      {"pre_tokenizer",
       {{"type", "Split"}, {"pattern", {{"Regex", "[\\s\\S]"}}}, {"behavior", "Isolated"}, {"invert", false}}},
      {"post_processor", nullptr},
      {"decoder", {{"type", "Fuse"}}},
      {"model", {{"type", "WordLevel"}, {"vocab", vocabulary}, {"unk_token", "<unk>"}}},
  };
  return file.dump(1) + '\n';
}

std::string tokenizer_config_json(const WrittenTokens& tokens, std::string_view base, const std::string& path) {
  Json file = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  if (!base.empty()) file = parse_strict(base, path);
  for (const auto& [key, token] :
       {std::pair{"bos_token", &tokens.bos}, {"eos_token", &tokens.eos}, {"pad_token", &tokens.pad}})
    if (!token->empty()) file[key] = *token;
  file["chat_template"] = jinja_of(tokens);
  return file.dump(1) + '\n';
}

std::string tokenizer_config_json() {
  return tokenizer_config_json(
      {.bos = "", .eos = std::string(CharTokenizer::kEosToken), .pad = std::string(CharTokenizer::kPadToken)});
}

void write_tokenizer_json(const CharTokenizer& tokenizer, Disk& disk, const std::string& folder,
                          CharacterTokens characters) {
  disk.write_atomic(folder + "/tokenizer.json", tokenizer_json(tokenizer, characters));
  disk.write_atomic(folder + "/tokenizer_config.json", tokenizer_config_json());
}

}  // namespace troupe
