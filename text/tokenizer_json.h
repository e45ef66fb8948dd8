#pragma once
// Reads a tokenizer.json of Hugging Face's `tokenizers` (https://github.com/huggingface/tokenizers) with a byte-level
// BPE model. What is not supported is refused, so that ids never differ silently. Pure functions; any thread.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/byte_pair_merges.h"
#include "text/split_pattern.h"

namespace troupe {

// A tokenizer.json, checked.
struct BpeDescription {
  std::vector<std::string> vocabulary;  // token by id, as it is spelled in the file
  BytePairMerges merges;
  bool ignore_merges = false;          // a word of the vocabulary is one token, whatever the merges give
  std::optional<int32_t> unknown;      // in place of a byte without a token; without it, such a byte is left out
  bool nfc = false;                    // texts are normalised first
  std::vector<SplitPattern> patterns;  // applied in this order, each to the words of the one before
  std::vector<AddedToken> added;
  std::optional<int32_t> prompt_bos;  // the token before a prompt
  uint64_t hash = 0;                  // XXH3 of the file
};

// Throws ConfigError "PATH: json.path: ..." for a text that is not such a file or needs something that is not
// supported.
BpeDescription read_tokenizer_json(std::string_view json, const std::string& path);

// Throws ConfigError "PATH: key: ..." if a tokenizer_config.json makes transformers give other ids than this
// tokenizer.json does, whose added tokens these are: a space before each text, special tokens read as text, other added
// tokens, or these with other properties.
void check_tokenizer_config(std::string_view json, const std::string& path, const std::vector<AddedToken>& added);

// The text of the token that a tokenizer_config.json names at `key` ("eos_token"); nullopt if it names none. Throws
// ConfigError "PATH: ...".
std::optional<std::string> special_token_of(std::string_view json, const std::string& path, const std::string& key);

}  // namespace troupe
