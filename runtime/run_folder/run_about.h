#pragma once
// What a run is called and how it was started: about.json in its folder, which `troupe train` writes and `troupe runs`
// reads. No result depends on it. Plain functions; any thread.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/file.h"

namespace troupe {

struct RunAbout {
  std::string name, note;
  std::vector<std::string> tags;  // sorted, each once
};

// What one start of a run was made by.
struct StartFacts {
  std::string time;  // "2026-03-01T12:00:00Z"
  std::string command, folder, host;
  std::vector<std::pair<std::string, std::string>> versions;  // of programs and libraries
  std::string commit;                                         // of the work tree that `folder` is in; empty without one
  std::string diff;                                           // what is not committed of it, at most kMostDiff bytes
  bool diff_cut = false;                                      // it is longer
};
inline constexpr size_t kMostDiff = 1 << 20;

// Empty where the folder has none, or one that is damaged or cannot be read: `damage` then becomes what is wrong with
// the file, beginning with its path, and else empty.
RunAbout read_about(const Disk& disk, const std::string& folder, std::string* damage = nullptr);

// What keep_about() makes of it: the tags of `given` are added, a name and a note replaced by those that are not empty.
RunAbout about_with(RunAbout about, const RunAbout& given);

// Adds the tags of `given` to those of the run, and replaces its name and its note by those that are not empty. A start
// that differs in more than its time from the last one is appended, its diff as code.diff or code.diff.2, .3 and so on.
// Writes nothing where nothing changes. Throws IoError.
void keep_about(Disk& disk, const std::string& folder, const RunAbout& given, const std::optional<StartFacts>& start);

}  // namespace troupe
