#pragma once
// What `troupe top` reads in the folder of a run, also while the run writes it. Plain functions; any thread.

#include <optional>
#include <string>
#include <vector>

#include "tools/cli/address.h"
#include "tools/top/model.h"

namespace troupe {

// Where the run says that it serves its statistics; nothing if it is not running, or was never.
std::optional<Address> stats_address(const std::string& folder);
// The folders below `parent` whose runs can be reached, sorted. Each that was killed costs a moment.
std::vector<std::string> live_runs(const std::string& parent);

// Puts what the folder has recorded into the model: the name, the points of the curves, the last snapshot, and what has
// changed between two, as events at the time of the run. Throws IoError if it cannot be read.
void read_record(TopModel& model, const std::string& folder);

// What the folder says of a run that cannot be reached: the state that `troupe runs` shows, and why.
struct FolderState {
  Link link = Link::ended;  // `unserved` while a process has the folder
  std::string note;
};
FolderState folder_state(const std::string& folder);

}  // namespace troupe
