#pragma once
// CharTokenizer: one token per character of an alphabet. Constant after construction; any thread.

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/added_tokens.h"
#include "text/tokenizer.h"

namespace troupe {

class CharTokenizer : public Tokenizer {
 public:
  static constexpr int32_t kPad = 0, kEos = 1, kFirstCharacter = 2;
  static constexpr std::string_view kPadToken = "<pad>", kEosToken = "<eos>";

  // The ids: 0 is "<pad>", 1 is "<eos>", then the characters of the alphabet in its order. Throws ConfigError
  // "tokenizer.alphabet: ..." for an alphabet that is empty, is not UTF-8 or has a character twice.
  explicit CharTokenizer(std::string_view alphabet);

  // Also throws ConfigError for a character outside the alphabet; the message names it and its place.
  std::vector<int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const int32_t> ids, SpecialTokens special = SpecialTokens::keep) const override;
  int32_t vocabulary_size() const override { return static_cast<int32_t>(tokens_.size()); }
  std::optional<int32_t> id_of(std::string_view token) const override;
  std::optional<int32_t> bos() const override { return std::nullopt; }
  std::optional<int32_t> eos() const override { return kEos; }
  std::optional<int32_t> pad() const override { return kPad; }
  bool prompts_begin_with_bos() const override { return false; }
  uint64_t hash() const override;

  // The characters, in the order of their ids.
  std::string alphabet() const;
  // The tokens by id.
  const std::vector<std::string>& tokens() const { return tokens_; }

 private:
  std::vector<std::string> tokens_;
  std::unordered_map<char32_t, int32_t> ids_;
  AddedTokens special_;
};

}  // namespace troupe
