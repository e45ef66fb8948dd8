#pragma once
// The small files of a run folder that a start hands on to the next one: `epoch`, `run_id` and `stats_port`. Used by
// the owner of the folder before any actor starts. Plain functions.

#include <cstdint>
#include <optional>
#include <string>

#include "runtime/base/file.h"

namespace troupe {

inline constexpr const char* kEpochFile = "/epoch";
inline constexpr const char* kStatsPortFile = "/stats_port";

// The epoch of a start of the run in `folder`: `at_least`, or one more than any start had before, whichever is larger,
// also when those left no checkpoint. Kept in the file `epoch` before it returns. Throws ConfigError when the disk
// refuses (then no start may use the epoch) or the file holds something else.
uint32_t take_epoch(Disk& disk, const std::string& folder, uint32_t at_least);

// The port on which the last start of the run in `folder` served its statistics, so that an open page finds the next
// start. Nothing without one.
std::optional<uint16_t> read_stats_port(const Disk& disk, const std::string& folder);
// Throws IoError.
void write_stats_port(Disk& disk, const std::string& folder, uint16_t port);

// The identity of the run in `folder`, by which its workers find it again and no other: a random number as text, kept
// in the file `run_id` and the same at every start. Throws ConfigError when the disk refuses.
std::string run_identity(Disk& disk, const std::string& folder);

}  // namespace troupe
