#include "runtime/run_folder/undone_updates.h"

#include <charconv>

#include "runtime/base/errors.h"
#include "runtime/base/log.h"

namespace troupe {

namespace {

constexpr const char* kUndoneFile = "/undone_updates";
constexpr uint64_t kMostBytes = 64;

}  // namespace

uint64_t read_undone_updates(const Disk& disk, const std::string& folder) {
  uint64_t updates = 0;
  try {
    if (!disk.exists(folder + kUndoneFile)) return 0;
    const std::string text = disk.read(folder + kUndoneFile, kMostBytes);
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, updates);
    return error == std::errc() && stop + 1 == end && *stop == '\n' ? updates : 0;
  } catch (const IoError&) {
    return 0;
  }
}

uint64_t add_undone_updates(Disk& disk, const std::string& folder, uint64_t updates) {
  const uint64_t sum = read_undone_updates(disk, folder) + updates;
  try {
    if (updates > 0) disk.write_atomic(folder + kUndoneFile, std::to_string(sum) + '\n');
  } catch (const IoError& error) {
    log_warn("run folder", std::string(error.what()) + ": later starts do not count these undone updates");
  }
  return sum;
}

}  // namespace troupe
