#pragma once
// The lines that a run prints of its warm-up, its evaluations and what failed. Pure functions; any thread.

#include <cstdint>
#include <string>

#include "actors/config/run_config.h"
#include "actors/messages/local.h"
#include "runtime/stats/snapshot.h"

namespace troupe {

// "evaluation: return 500.00 +- 0.00 over 100 episodes".
std::string evaluation_text(const Evaluation& evaluation, const RunConfig& config);

// The same with the update that was evaluated: "after 200 updates: evaluation: ...".
std::string evaluation_after_text(const Evaluation& evaluation, const RunConfig& config);

// How often environments, or workers of a token run, failed.
std::string failures_text(const StatsSnapshot& last, const ExperienceWords& words);

// How often the verifier failed, on answers and in whole calls, and the function that replies to them; empty if neither
// did, or the run has none.
std::string verifier_text(const StatsSnapshot& last);

// How many writes and lines of the log the disk refused; empty if none.
std::string lost_text(uint64_t writes, uint64_t log_lines);

// Of a warm-up that goes on, and of one that is complete.
std::string warmup_text(const WarmupState& warmup);
std::string warmup_end_text(const WarmupState& warmup, const RunConfig& config);

}  // namespace troupe
