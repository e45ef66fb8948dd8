#include "runtime/run_folder/undone_updates.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/base/text_format.h"
#include "runtime/weights/weights.h"

namespace troupe {

namespace {

constexpr const char* kUndoneFile = "/undone_updates";
constexpr const char* kUndone = "run folder";
constexpr uint64_t kMostBytes = 64;

// "SUM HASH\n", where the hash is that of the last line that was counted.
struct Undone {
  uint64_t updates = 0;
  std::string last;
};

std::optional<Undone> undone_in(std::string_view text) {
  Undone undone;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, undone.updates);
  if (error != std::errc() || stop == end || end[-1] != '\n') return std::nullopt;
  const std::string_view rest(stop, end - 1);
  if (rest.empty()) return undone;
  if (rest.front() != ' ' || rest.size() != 17 || rest.find('\n') != rest.npos) return std::nullopt;
  undone.last = rest.substr(1);
  return undone;
}

Undone read_undone(const Disk& disk, const std::string& folder) {
  const std::string path = folder + kUndoneFile;
  try {
    if (!disk.exists(path)) return {};
    if (std::optional<Undone> undone = undone_in(disk.read(path, kMostBytes))) return *undone;
    log_warn(kUndone, path + " is damaged: the updates that were undone are counted from 0 again");
  } catch (const IoError& error) {
    log_warn(kUndone, std::string(error.what()) + ": the updates that were undone are counted from 0 again");
  }
  return {};
}

}  // namespace

uint64_t read_undone_updates(const Disk& disk, const std::string& folder) { return read_undone(disk, folder).updates; }

uint64_t add_undone_updates(Disk& disk, const std::string& folder, uint64_t updates, std::string_view last_line) {
  Undone undone = read_undone(disk, folder);
  const std::string last = format_hash(checksum_of(last_line.data(), last_line.size()));
  if (updates == 0 || last == undone.last) return undone.updates;
  undone.updates += std::min(updates, std::numeric_limits<uint64_t>::max() - undone.updates);
  try {
    disk.write_atomic(folder + kUndoneFile, std::to_string(undone.updates) + ' ' + last + '\n');
  } catch (const IoError& error) {
    log_warn(kUndone, std::string(error.what()) + ": later starts do not count these undone updates");
  }
  return undone.updates;
}

}  // namespace troupe
