#include "runtime/run_folder/run_state.h"

#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "runtime/run_folder/line_file.h"

namespace troupe {

namespace {

// Whether the process named in run.lock holds it.
bool is_held(const Disk& disk, const std::string& folder, const HeldLocks& held) {
  const std::string path = folder + "/run.lock";
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return false;
  try {
    constexpr uint64_t kMostBytes = 64;
    return held.contains({std::strtoll(disk.read(path, kMostBytes).c_str(), nullptr, 10), status.st_ino});
  } catch (const IoError&) {  // not a file that a run has written
    return false;
  }
}

// Whether processes of other machines may use the folder, whose locks are not seen here: NFS, SMB, CIFS, SMB2, FUSE,
// Lustre, GPFS, BeeGFS, Ceph.
bool is_on_network(const std::string& folder) {
  constexpr std::array<uint32_t, 9> kNetwork = {0x6969,     0x517B,     0xFF534D42, 0xFE534D42, 0x65735546,
                                                0x0BD00BD0, 0x47504653, 0x19830326, 0x00C36400};
  struct statfs status{};
  return ::statfs(folder.c_str(), &status) == 0 &&
         std::ranges::count(kNetwork, static_cast<uint32_t>(status.f_type)) > 0;
}

// Whether its file system has no free block for this user. What the run says of that then is not in the folder.
bool is_on_full_disk(const std::string& folder) {
  struct statfs status{};
  if (::statfs(folder.c_str(), &status) != 0 || status.f_blocks == 0) return false;
  return (geteuid() == 0 ? status.f_bfree : status.f_bavail) == 0;
}

int64_t seconds_since(int64_t moment) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::seconds>(now).count() - moment;
}

}  // namespace

std::string_view text_of(RunState state) {
  switch (state) {
    case RunState::running: return "running";
    case RunState::finished: return "finished";
    case RunState::stopped: return "stopped";
    case RunState::crashed: return "crashed";
  }
  return "crashed";
}

// Lines like "1: FLOCK  ADVISORY  WRITE 17131 fe:00:2205989 0 EOF".
HeldLocks held_locks() {
  HeldLocks held;
  std::ifstream file("/proc/locks");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string number, kind, advisory, access, place;
    int64_t process = 0;
    if (!(words >> number >> kind >> advisory >> access >> process >> place) || kind != "FLOCK") continue;
    uint64_t inode = 0;
    const char* digits = place.data() + place.rfind(':') + 1;
    if (std::from_chars(digits, place.data() + place.size(), inode).ec == std::errc()) held.emplace(process, inode);
  }
  return held;
}

bool has_open_start(const Disk& disk, const std::string& folder) { return disk.exists(folder + "/endpoints.json"); }

StateOfRun state_of(const Disk& disk, const std::string& folder, const nlohmann::ordered_json& summary,
                    const HeldLocks& held, int64_t changed) {
  constexpr int64_t kSilence = 60;  // a run writes more often
  if (is_held(disk, folder, held))
    return {RunState::running, is_on_full_disk(folder) ? "its disk is full, so that these figures may be old" : ""};
  if (has_open_start(disk, folder)) {
    if (is_on_network(folder) && seconds_since(changed) < kSilence)
      return {RunState::running, "on another machine: it wrote in the last minute"};
    return {RunState::crashed, "killed"};
  }
  if (!summary.is_object()) return {RunState::crashed, "ended before it wrote a summary"};
  const std::string error = text_member(summary, "error"), reason = text_member(summary, "reason");
  if (!error.empty()) return {RunState::crashed, error};
  if (reason == "interrupted") return {RunState::stopped, reason};
  return {reason.starts_with("stop.") ? RunState::finished : RunState::crashed, reason};
}

}  // namespace troupe
