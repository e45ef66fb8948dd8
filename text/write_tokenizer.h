#pragma once
// A CharTokenizer as files that `transformers` loads with AutoTokenizer and that give the same ids. Blocks on the disk;
// any thread.

#include <string>

#include "runtime/base/file.h"
#include "text/char_tokenizer.h"

namespace troupe {

// The text of tokenizer.json, for Hugging Face's `tokenizers`. A character outside the alphabet is an error there too.
std::string tokenizer_json(const CharTokenizer& tokenizer);

// The text of tokenizer_config.json, which names the special tokens.
std::string tokenizer_config_json();

// Writes both files into a folder, which must exist. Throws IoError.
void write_tokenizer_json(const CharTokenizer& tokenizer, Disk& disk, const std::string& folder);

}  // namespace troupe
