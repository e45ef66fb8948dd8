#include "text/char_tokenizer.h"

#include <algorithm>

#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"
#include "runtime/weights/weights.h"
#include "text/utf8.h"

namespace troupe {

namespace {

constexpr const char* kPath = "tokenizer.alphabet: ";

std::string shown(std::string_view character, char32_t code) {
  return '"' + printable(character) + "\" (" + code_point_text(code) + ')';
}

}  // namespace

CharTokenizer::CharTokenizer(std::string_view alphabet)
    : tokens_{std::string(kPadToken), std::string(kEosToken)},
      special_({{.content = std::string(kPadToken), .id = kPad, .special = true},
                {.content = std::string(kEosToken), .id = kEos, .special = true}}) {
  if (alphabet.empty()) throw ConfigError(std::string(kPath) + "\"\" is empty, expected the characters of the texts");
  if (const auto at = utf8_error(alphabet))
    throw ConfigError(kPath + ('"' + printable(alphabet)) + "\" is not UTF-8 from byte " + std::to_string(*at));
  for (size_t at = 0; at < alphabet.size();) {
    const Utf8Character character = utf8_character(alphabet, at).value();
    const std::string_view text = alphabet.substr(at, character.bytes);
    if (!ids_.emplace(character.code, vocabulary_size()).second)
      throw ConfigError(kPath + shown(text, character.code) + " is there twice, expected each character once");
    tokens_.emplace_back(text);
    at += character.bytes;
  }
}

std::vector<int32_t> CharTokenizer::encode(std::string_view text) const {
  require_utf8(text);
  std::vector<int32_t> ids;
  size_t place = 0;  // of the next character
  for (const TextPart& part : special_.split(text)) {
    if (part.id >= 0) {
      ids.push_back(part.id);
      place += part.text.size();
      continue;
    }
    for (size_t at = 0; at < part.text.size(); ++place) {
      const Utf8Character character = utf8_character(part.text, at).value();
      const auto found = ids_.find(character.code);
      if (found == ids_.end())
        throw ConfigError(
            "text: character " + std::to_string(place) + ' ' +
            shown(part.text.substr(at, character.bytes), character.code) +
            " is not in the alphabet of the tokenizer; only a new run can have another tokenizer.alphabet");
      ids.push_back(found->second);
      at += character.bytes;
    }
  }
  return ids;
}

std::string CharTokenizer::decode(std::span<const int32_t> ids, SpecialTokens special) const {
  std::string text;
  const int32_t first = special == SpecialTokens::skip ? kFirstCharacter : 0;
  for (const int32_t id : ids)
    if (id >= first && id < vocabulary_size()) text += tokens_[static_cast<size_t>(id)];
  return text;
}

std::string CharTokenizer::alphabet() const {
  std::string text;
  for (size_t id = kFirstCharacter; id < tokens_.size(); ++id) text += tokens_[id];
  return text;
}

uint64_t CharTokenizer::hash() const {
  const std::string text = alphabet();
  return checksum_of(text.data(), text.size());
}

std::optional<int32_t> CharTokenizer::id_of(std::string_view token) const {
  const auto found = std::ranges::find(tokens_, token);
  if (found == tokens_.end()) return std::nullopt;
  return static_cast<int32_t>(found - tokens_.begin());
}

}  // namespace troupe
