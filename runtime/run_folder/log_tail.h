#pragma once
// The end of the log of a run, for those who watch it. Plain function; any thread.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/file.h"

namespace troupe {

inline constexpr uint64_t kLogTailBytes = 64 << 10;
inline constexpr size_t kLogTailLines = 200;

// The last lines of log.txt, the newest last: at most kLogTailLines, whole lines of the last kLogTailBytes, with
// control characters escaped. None if there is no such file. Throws IoError when it cannot be read.
std::vector<std::string> log_tail(const Disk& disk, const std::string& folder);

}  // namespace troupe
