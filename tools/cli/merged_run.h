#pragma once
// The run folder of a token_transformer whose adapters are merged into its decoder. Blocks on the disk; main thread.

#include <string>

#include "actors/run_context.h"
#include "runtime/run_folder/checkpoint.h"

namespace troupe {

// What export needs of a run whose token_transformer has adapters. Throws ConfigError for another run, named by its
// folder.
RunContext adapters_context(const std::string& run, const RunConfig& config);

// Writes config.json, made_of.json and one checkpoint, which has the merged weights and no optimizer, into a folder
// that exists. Throws IoError.
void write_merged_run(const RunContext& adapters, Checkpoint checkpoint, const std::string& folder);

}  // namespace troupe
