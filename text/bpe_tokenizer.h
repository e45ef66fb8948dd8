#pragma once
// BpeTokenizer: byte-level byte pair encoding as a tokenizer.json describes it. After set_special(), only a cache of
// words changes; then any thread.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/tokenizer.h"
#include "text/tokenizer_json.h"

namespace troupe {

// Ids of the special tokens that no tokenizer.json names.
struct SpecialIds {
  std::optional<int32_t> bos, eos, pad;
};

class BpeTokenizer : public Tokenizer {
 public:
  // With the bos() of the description's prompts, and no other special ids.
  explicit BpeTokenizer(BpeDescription description);
  // Sets the ids, which must be in the vocabulary. The bos() of prompts must stay the same.
  void set_special(const SpecialIds& special);

  std::vector<int32_t> encode(std::string_view text) const override;
  std::string decode(std::span<const int32_t> ids, SpecialTokens special = SpecialTokens::keep) const override;
  int32_t vocabulary_size() const override { return static_cast<int32_t>(tokens_.size()); }
  std::optional<int32_t> id_of(std::string_view token) const override;
  std::optional<int32_t> bos() const override { return special_.bos; }
  std::optional<int32_t> eos() const override { return special_.eos; }
  std::optional<int32_t> pad() const override { return special_.pad; }
  bool prompts_begin_with_bos() const override { return prompts_begin_with_bos_; }
  uint64_t hash() const override { return hash_; }

 private:
  struct Token {
    std::string bytes;
    bool special = false;
  };
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  template <class Value>
  using Map = std::unordered_map<std::string, Value, Hash, std::equal_to<>>;
  // The ids of words that occurred before. Whoever holds the mutex may use it; another thread goes without it.
  struct Cache {
    std::mutex mutex;
    Map<std::vector<int32_t>> words;
  };

  static Token token_of(const std::string& spelling, bool special);
  // Append the ids of a text between added tokens, and of one word of it. `cache` may be nullptr.
  void encode_text(std::string_view text, Cache* cache, std::vector<int32_t>& ids) const;
  void encode_word(std::string_view word, Cache* cache, std::vector<int32_t>& ids) const;
  std::vector<int32_t> merged(std::string_view word) const;
  // The words of a text.
  std::vector<std::string_view> words_of(std::string_view text) const;

  std::vector<Token> tokens_;             // by id
  Map<int32_t> ids_;                      // by bytes: the tokens that merges can produce
  std::array<int32_t, 256> byte_ids_{};   // -1: the byte has no token
  Map<int32_t> added_ids_;                // by content
  AddedTokens added_, added_normalized_;  // looked for before and after normalisation
  BytePairMerges merges_;
  std::vector<SplitPattern> patterns_;
  std::optional<int32_t> unknown_;
  bool ignore_merges_, nfc_, prompts_begin_with_bos_;
  SpecialIds special_;
  uint64_t hash_;  // of the description
  std::unique_ptr<Cache> cache_;
};

}  // namespace troupe
