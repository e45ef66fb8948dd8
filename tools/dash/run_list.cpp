#include "tools/dash/run_list.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"
#include "tools/cli/config_lookup.h"
#include "tools/cli/found_runs.h"

namespace troupe {

namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds kInterval{1};
constexpr size_t kShownPath = 200;  // bytes in messages

bool is_folder(const std::string& path) {
  std::error_code failed;
  return fs::is_directory(path, failed);
}

// Another one when a file that an overview is made from has changed.
std::string signature_of(const std::string& folder) {
  std::string text;
  for (const char* name : {"config.json", "metrics.jsonl", "summary.json", "best.json", "endpoints.json", "run.lock",
                           "about.json", "alarms.json"}) {
    struct stat status{};
    if (::stat((folder + '/' + name).c_str(), &status) == 0)
      text += std::to_string(status.st_ino) + ' ' + std::to_string(status.st_size) + ' ' +
              std::to_string(status.st_mtim.tv_sec) + '.' + std::to_string(status.st_mtim.tv_nsec);
    text += ';';
  }
  return text;
}

// The alarms of a run, of which `before` were known. Of one of an older version that goes on, not all records are read
// again for each new one.
RunAlarms alarms_now(const RunOverview& run, const RunAlarms* before) {
  if (before == nullptr || run.state != RunState::running) return alarms_of_run(posix_disk(), run);
  if (std::optional<RunAlarms> written = written_alarms(posix_disk(), run.folder)) return *std::move(written);
  RunAlarms alarms{before->raised, alarms_in(run.last)};
  for (const auto& [name, level] : alarms.standing) add_worst(name, level, alarms.raised);
  return alarms;
}

}  // namespace

RunList::RunList(Words folders) : folders_(std::move(folders)) {
  for (std::string& folder : folders_) {
    if (!is_folder(folder)) require_run_folder(folder);  // throws, with the nearest name
    while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  }
}

// The folders that may be runs. The problems of the others are noted.
Words RunList::candidates() {
  Words result;
  for (const std::string& folder : folders_) {
    const std::string shown = printable(folder, kShownPath);
    if (!is_folder(folder)) {
      problems_.push_back(shown + ": there is no such folder any more");
      continue;
    }
    if (has_config(folder) || known_.contains(folder)) {
      result.push_back(folder);
      continue;
    }
    try {
      const RunFolders found = run_folders(folder);
      result.insert(result.end(), found.runs.begin(), found.runs.end());
      if (!found.others.empty()) problems_.push_back(others_text(folder, found.others));
      if (found.runs.empty() && found.others.empty()) problems_.push_back(shown + ": holds no runs yet");
    } catch (const IoError& error) {
      problems_.emplace_back(error.what());
    }
  }
  return result;
}

void RunList::look_at(const std::string& folder, const HeldLocks& held) {
  const auto found = known_.find(folder);
  const std::string signature = signature_of(folder);
  // Whether a process holds the lock of a run is not in its files.
  const bool same = found != known_.end() && found->second.there && found->second.signature == signature &&
                    found->second.run.state != RunState::running;
  if (same) return;
  try {
    RunOverview run = read_run(folder, held);
    if (found == known_.end()) order_.push_back(folder);
    // All else that an overview has is in the files.
    changed_ |= found == known_.end() || !found->second.there || found->second.signature != signature ||
                found->second.run.state != run.state || found->second.run.reason != run.reason;
    std::string bottleneck = bottleneck_of_run(posix_disk(), run);
    RunAlarms alarms = alarms_now(run, found == known_.end() ? nullptr : &found->second.alarms);
    known_[folder] = {signature, std::move(run), std::move(bottleneck), std::move(alarms), true};
    return;
  } catch (const ConfigError& error) {
    problems_.emplace_back(error.what());
  } catch (const IoError& error) {
    problems_.emplace_back(error.what());
  }
  if (found != known_.end()) changed_ |= std::exchange(found->second.there, false);
}

void RunList::refresh(Clock::time_point now) {
  if (now < next_) return;
  next_ = now + kInterval;
  problems_.clear();
  const HeldLocks held = held_locks();
  const Words folders = candidates();
  for (const std::string& folder : folders) {
    look_at(folder, held);
    if (const auto found = known_.find(folder); found != known_.end() && found->second.there)
      problems_.insert(problems_.end(), found->second.run.damaged.begin(), found->second.run.damaged.end());
  }
  for (auto& [folder, known] : known_) {
    if (std::ranges::count(folders, folder) > 0) continue;
    changed_ |= std::exchange(known.there, false);
    problems_.push_back(printable(folder, kShownPath) + ": was deleted; what was read of it is still shown");
  }
  if (std::exchange(changed_, false)) collect();
}

void RunList::collect() {
  ++changes_;
  std::ranges::sort(order_);
  std::vector<RunOverview> all;
  for (const std::string& folder : order_) all.push_back(known_.at(folder).run);
  std::vector<SettingValues> differs = differences(all);
  runs_.clear();
  for (size_t i = 0; i < all.size(); ++i) {
    const Known& known = known_.at(order_[i]);
    runs_.push_back({std::move(all[i]), std::move(differs[i]), known.bottleneck, known.alarms, !known.there});
  }
}

const ServedRun* RunList::find(const std::string& folder) const {
  const auto found = std::ranges::find_if(runs_, [&](const ServedRun& each) { return each.run.folder == folder; });
  return found == runs_.end() ? nullptr : &*found;
}

}  // namespace troupe
