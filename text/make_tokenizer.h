#pragma once
// The table of tokenizers. Any thread.

#include <memory>
#include <string>
#include <vector>

#include "text/tokenizer.h"
#include "text/tokenizer_config.h"

namespace troupe {

// The tokenizer of the config. Reads files for kind bpe. Throws ConfigError for a setting or a file that is not
// accepted: "tokenizer.path: ..." or "FILE: json.path: ...".
std::unique_ptr<Tokenizer> make_tokenizer(const TokenizerConfig& config);

// The files that it reads: tokenizer.json and tokenizer_config.json, which need not be there. None for kind char.
std::vector<std::string> tokenizer_files(const TokenizerConfig& config);

}  // namespace troupe
