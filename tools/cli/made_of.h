#pragma once
// made_of.json in a run folder: what the run was made of (actors/spec_fields.h), compared whenever the run is used.
// Plain functions; main thread.

#include <optional>
#include <string>
#include <vector>

#include "actors/run_context.h"
#include "runtime/config/fixed_settings.h"

namespace troupe {

// What the process that trains keeps: made_of(), with the hash of the weights in model.path also where they are only
// the first ones. Call it before anything changes the weights of `learner`.
SpecFields made_of_training(const RunContext& context, const Learner& learner);

// What the run in `folder` was made of; nothing if an older program made the folder. Throws ConfigError for a file that
// cannot be used.
std::optional<SpecFields> read_made_of(const std::string& folder);

// Throws ConfigError with all that differs from what the run in `folder` was made of. A folder of an older program does
// not say, and is accepted.
void require_made_of(const std::string& folder, const SpecFields& now);

// Throws ConfigError if files of the run in `folder` are said to be in another place, and it cannot be compared whether
// they are the same: the run had none, has none now, or its folder is of an older program.
void require_comparable_files(const std::string& folder, const std::vector<SettingChange>& changes);

// Keeps it. Throws ConfigError when the disk refuses.
void keep_made_of(const std::string& folder, const SpecFields& now);

}  // namespace troupe
