#pragma once
// Updates of a run that a start had made and the next one made again, because no checkpoint had them: after a kill. The
// sum over all starts is in the file undone_updates of the run folder. Plain functions; any thread.

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/base/file.h"

namespace troupe {

// The sum so far; 0 if the file is missing, and with a warning if it is damaged or cannot be read.
uint64_t read_undone_updates(const Disk& disk, const std::string& folder);
// Adds those that are undone together with the records whose last line this is, once however often it is called, and
// returns the sum. Call before the records are removed. A disk that refuses is logged, and does not hold the run.
uint64_t add_undone_updates(Disk& disk, const std::string& folder, uint64_t updates, std::string_view last_line);

}  // namespace troupe
