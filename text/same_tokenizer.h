#pragma once
// Whether the tokenizer.json of another model makes the ids of a tokenizer. Blocks on the disk; any thread.

#include <string>

#include "runtime/base/file.h"
#include "text/tokenizer.h"
#include "text/tokenizer_config.h"

namespace troupe {

// Throws ConfigError that begins with `setting` unless FOLDER/tokenizer.json gives every text the ids that `tokenizer`
// gives it, which was made from `config`.
void require_same_tokenizer(const Disk& disk, const Tokenizer& tokenizer, const TokenizerConfig& config,
                            const std::string& folder, const std::string& setting);

}  // namespace troupe
