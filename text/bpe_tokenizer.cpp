#include "text/bpe_tokenizer.h"

#include <utility>

#include "runtime/base/errors.h"
#include "text/byte_alphabet.h"
#include "text/normalizer.h"
#include "text/utf8.h"

namespace troupe {

namespace {

// Limits of the cache, which is emptied when it is full: at most about 8 MB.
constexpr size_t kCachedWords = 16384;
constexpr size_t kCachedWordBytes = 64;

AddedTokens with_normalized(const std::vector<AddedToken>& added, bool normalized) {
  std::vector<AddedToken> tokens;
  for (const AddedToken& token : added)
    if (token.normalized == normalized) tokens.push_back(token);
  return AddedTokens(tokens);
}

}  // namespace

BpeTokenizer::BpeTokenizer(BpeDescription description)
    : added_(with_normalized(description.added, false)),
      added_normalized_(with_normalized(description.added, true)),
      merges_(std::move(description.merges)),
      patterns_(std::move(description.patterns)),
      unknown_(description.unknown),
      ignore_merges_(description.ignore_merges),
      nfc_(description.nfc),
      prompts_begin_with_bos_(description.prompt_bos.has_value()),
      special_({.bos = description.prompt_bos}),
      hash_(description.hash),
      cache_(std::make_unique<Cache>()) {
  byte_ids_.fill(-1);
  for (const std::string& spelling : description.vocabulary) {
    const auto id = static_cast<int32_t>(tokens_.size());
    const auto bytes = bytes_of_spelling(spelling);
    tokens_.push_back(token_of(spelling, false));
    if (!bytes) continue;  // merges cannot produce it
    ids_.emplace(*bytes, id);
    if (bytes->size() == 1) byte_ids_[static_cast<uint8_t>((*bytes)[0])] = id;
  }
  for (const AddedToken& token : description.added) {
    const auto index = static_cast<size_t>(token.id);
    if (index >= tokens_.size()) tokens_.resize(index + 1);
    tokens_[index] = token_of(token.content, token.special);
    added_ids_.emplace(token.content, token.id);
  }
}

// A token with other characters than those that spell bytes, such as "<|a b|>", stands for its own text.
BpeTokenizer::Token BpeTokenizer::token_of(const std::string& spelling, bool special) {
  return {bytes_of_spelling(spelling).value_or(spelling), special};
}

void BpeTokenizer::set_special(const SpecialIds& special) {
  TROUPE_CHECK(!prompts_begin_with_bos_ || special.bos == special_.bos, special.bos.value_or(-1));
  special_ = special;
}

std::vector<int32_t> BpeTokenizer::encode(std::string_view text) const {
  require_utf8(text);
  const std::unique_lock lock(cache_->mutex, std::try_to_lock);
  Cache* cache = lock.owns_lock() ? cache_.get() : nullptr;
  std::vector<int32_t> ids;
  for (const TextPart& part : added_.split(text)) {
    if (part.id >= 0) {
      ids.push_back(part.id);
      continue;
    }
    const std::string normalized = nfc_ ? nfc(part.text) : std::string();
    for (const TextPart& inner : added_normalized_.split(nfc_ ? std::string_view(normalized) : part.text)) {
      if (inner.id >= 0)
        ids.push_back(inner.id);
      else
        encode_text(inner.text, cache, ids);
    }
  }
  return ids;
}

void BpeTokenizer::encode_text(std::string_view text, Cache* cache, std::vector<int32_t>& ids) const {
  for (const std::string_view word : words_of(text)) encode_word(word, cache, ids);
}

std::vector<std::string_view> BpeTokenizer::words_of(std::string_view text) const {
  std::vector<std::string_view> words = {text}, parts;
  for (const SplitPattern& pattern : patterns_) {
    parts.clear();
    for (const std::string_view word : words) pattern.split(word, parts);
    std::swap(words, parts);
  }
  return words;
}

void BpeTokenizer::encode_word(std::string_view word, Cache* cache, std::vector<int32_t>& ids) const {
  if (cache == nullptr || word.size() > kCachedWordBytes) {
    const std::vector<int32_t> found = merged(word);
    ids.insert(ids.end(), found.begin(), found.end());
    return;
  }
  auto known = cache->words.find(word);
  if (known == cache->words.end()) {
    if (cache->words.size() >= kCachedWords) cache->words.clear();
    known = cache->words.emplace(std::string(word), merged(word)).first;
  }
  ids.insert(ids.end(), known->second.begin(), known->second.end());
}

std::vector<int32_t> BpeTokenizer::merged(std::string_view word) const {
  if (ignore_merges_)
    if (const auto found = ids_.find(word); found != ids_.end()) return {found->second};
  std::vector<int32_t> ids;
  ids.reserve(word.size());
  for (const char c : word) {
    const int32_t id = byte_ids_[static_cast<uint8_t>(c)];
    if (id >= 0)
      ids.push_back(id);
    else if (unknown_)
      ids.push_back(*unknown_);
  }
  merges_.apply(ids);
  return ids;
}

std::string BpeTokenizer::decode(std::span<const int32_t> ids, SpecialTokens special) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocabulary_size()) continue;
    const Token& token = tokens_[static_cast<size_t>(id)];
    if (!token.special || special == SpecialTokens::keep) bytes += token.bytes;
  }
  return utf8_lossy(bytes);
}

std::optional<int32_t> BpeTokenizer::id_of(std::string_view token) const {
  for (const Map<int32_t>* map : {&added_ids_, &ids_})
    if (const auto found = map->find(token); found != map->end()) return found->second;
  return std::nullopt;
}

}  // namespace troupe
