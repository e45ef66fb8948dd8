#pragma once
// Whether a run is under way, and how one that is not has ended, from what its folder holds. Takes no lock, because
// that could refuse a run that starts at the same moment. Plain functions; any thread.

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include <nlohmann/json_fwd.hpp>

#include "runtime/base/file.h"

namespace troupe {

enum class RunState : uint8_t {
  running,   // a process holds the folder
  finished,  // ended at a limit of the section stop
  stopped,   // ended by a signal, with a last checkpoint
  crashed,   // ended by an error, or killed
};
std::string_view text_of(RunState state);

struct StateOfRun {
  RunState state = RunState::crashed;
  std::string reason;  // of its end, or of what is known about it; may be empty while it runs
};

// The processes that hold locks on this machine: pairs of a process id and an inode.
using HeldLocks = std::set<std::pair<int64_t, uint64_t>>;
HeldLocks held_locks();

// Whether a start has not ended in order: it is under way, or was killed.
bool has_open_start(const Disk& disk, const std::string& folder);

// `summary` is the contents of summary.json, not an object without one; `changed` is when the run wrote last, in
// seconds since 1970. A run on another machine, which shares the folder, counts as running if it wrote in the last
// minute.
StateOfRun state_of(const Disk& disk, const std::string& folder, const nlohmann::ordered_json& summary,
                    const HeldLocks& held, int64_t changed);

}  // namespace troupe
