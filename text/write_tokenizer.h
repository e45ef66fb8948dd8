#pragma once
// Tokenizers as files that `transformers` loads with AutoTokenizer and that give the same ids. Blocks on the disk; any
// thread.

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/file.h"
#include "text/char_tokenizer.h"
#include "text/chat_template.h"

namespace troupe {

// How the characters are written. transformers 5 splits the texts of some models, such as Qwen2, in its own way and
// loses characters; added tokens are found before that.
enum class CharacterTokens : uint8_t { vocabulary, added };

// The text of tokenizer.json, for Hugging Face's `tokenizers`. A character outside the alphabet is an error there too.
std::string tokenizer_json(const CharTokenizer& tokenizer, CharacterTokens characters = CharacterTokens::vocabulary);

// What tokenizer_config.json says about prompts and answers; an empty token = none.
struct WrittenTokens {
  std::string bos, eos, pad;
  ChatTemplate chat = ChatTemplate::none;
  bool prompts_begin_with_bos = false;
};

// The text of tokenizer_config.json: that of `base`, the text of such a file or empty, with these tokens and with a
// chat template that writes prompts as prompt_text() does. `path`: the place of `base` in errors. Throws ConfigError.
std::string tokenizer_config_json(const WrittenTokens& tokens, std::string_view base = {},
                                  const std::string& path = "");

// The same for a CharTokenizer.
std::string tokenizer_config_json();

// Writes both files into a folder, which must exist. Throws IoError.
void write_tokenizer_json(const CharTokenizer& tokenizer, Disk& disk, const std::string& folder,
                          CharacterTokens characters = CharacterTokens::vocabulary);

}  // namespace troupe
