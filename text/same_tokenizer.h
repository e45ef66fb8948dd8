#pragma once
// Whether the tokenizer.json of another model makes the ids of a tokenizer. Blocks on the disk; any thread.

#include <optional>
#include <string>

#include "runtime/base/file.h"
#include "text/tokenizer.h"
#include "text/tokenizer_config.h"

namespace troupe {

// Nothing if FOLDER/tokenizer.json gives every text the ids that `tokenizer` gives it, which was made from `config`.
// Else the file, its number of tokens and hash, and those of the tokenizer, which is called that of the policy. Throws
// ConfigError that begins with `setting` for a file that cannot be read.
std::optional<std::string> tokenizer_difference(const Disk& disk, const Tokenizer& tokenizer,
                                                const TokenizerConfig& config, const std::string& folder,
                                                const std::string& setting);

}  // namespace troupe
