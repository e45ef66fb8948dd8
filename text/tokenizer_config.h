#pragma once
// The section "tokenizer" of a config file. Plain values; any thread.

#include <string>

#include "runtime/config/fields.h"

namespace troupe {

struct TokenizerConfig {
  std::string kind = "char";  // char: one token per character of `alphabet`; bpe: byte-level BPE from `path`
  std::string path;           // a tokenizer.json, or the folder that contains it; only for bpe
  std::string alphabet;       // the characters, in the order of their ids; only for char
  // Special tokens by their text. Empty: what tokenizer_config.json beside tokenizer.json says; only for bpe.
  std::string bos, eos, pad;
  std::string chat_template = "none";  // how a prompt is written for a chat model: none or chatml
  friend bool operator==(const TokenizerConfig&, const TokenizerConfig&) = default;
};

// Adds the settings of the section to `fields`, bound to the members of `config`.
void describe(TokenizerConfig& config, Fields& fields);

}  // namespace troupe
