#include "tools/top/run_watch.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"
#include "runtime/run_folder/log_tail.h"
#include "tools/top/run_files.h"

namespace troupe {

namespace {

constexpr std::chrono::seconds kLogInterval{2};

std::string time_of_day() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[16];
  return {text, std::strftime(text, sizeof text, "%H:%M:%S", &local)};
}

// The newest lines of the log; none if it cannot be read.
std::vector<std::string> log_of(const std::string& folder) {
  try {
    return log_tail(posix_disk(), folder);
  } catch (const IoError&) {
    return {};
  }
}

}  // namespace

RunWatch::RunWatch(WatchedRun run) : run_(std::move(run)), reader_(model_), client_([this] { return where(); }) {
  model_.source = run_.text();
}

void RunWatch::begin(std::vector<int> others, bool history) {
  if (!run_.address && !where()) return read_folder();
  const Clock::time_point end = Clock::now() + StatsClient::kPatience;
  const auto asked = [&] {
    std::vector<pollfd> ready;
    for (const int other : others) ready.push_back({other, POLLIN, 0});
    return ::poll(ready.data(), ready.size(), 0) > 0;
  };
  while (!is_complete(history) && Clock::now() < end && !asked()) {
    wait(std::chrono::milliseconds(100), others);
    if (reader_.greeted() || client_.problem().empty()) continue;
    if (run_.address) throw ConfigError(client_.problem());
    return read_folder();
  }
  // The port of a run that was killed may be that of another program, which says nothing.
  if (!reader_.greeted() && !run_.address && Clock::now() >= end) read_folder();
}

void RunWatch::wait(std::chrono::milliseconds longest, const std::vector<int>& others) {
  const auto until_due = std::chrono::ceil<std::chrono::milliseconds>(client_.due() - Clock::now());
  const auto timeout = std::clamp(until_due, std::chrono::milliseconds(0), longest);
  std::vector<pollfd> ready = {{client_.descriptor(), client_.events(), 0}};
  for (const int other : others) ready.push_back({other, POLLIN, 0});
  ::poll(ready.data(), ready.size(), static_cast<int>(timeout.count()));
  receive();
  note_link();
  if (!run_.folder.empty() && Clock::now() >= log_read_ + kLogInterval) {
    model_.log = log_of(run_.folder);
    log_read_ = Clock::now();
  }
}

std::optional<Address> RunWatch::where() const { return run_.address ? run_.address : stats_address(run_.folder); }

void RunWatch::receive() {
  const Clock::time_point now = Clock::now();
  for (const std::string& line : client_.step(now)) {
    if (opened_ != client_.opened()) {
      opened_ = client_.opened();
      reader_.begin();
    }
    const uint64_t snapshots = reader_.snapshots();
    try {
      const std::string request = reader_.received(line, time_of_day());
      if (!request.empty()) client_.send(request);
    } catch (const ConfigError& refused) {
      return client_.drop(printable(refused.what(), 200), now);
    }
    heard_ = now;
    if (reader_.greeted()) client_.greeted();
    if (reader_.snapshots() > snapshots && on_snapshot_) on_snapshot_(*model_.newest);
  }
}

void RunWatch::read_folder() {
  read_record(model_, run_.folder);
  model_.log = log_of(run_.folder);
  note_link();
}

void RunWatch::note_link() {
  const bool live = client_.connected() && reader_.greeted() && opened_ == client_.opened();
  model_.silent_seconds = live ? std::chrono::duration<double>(Clock::now() - heard_).count() : 0;
  if (live) {
    model_.link = Link::live;
    model_.note.clear();
  } else if (!run_.folder.empty()) {
    note_folder();
  } else if (!client_.problem().empty()) {
    model_.link = Link::lost;
    model_.note = printable(client_.problem(), 200);
  }
}

void RunWatch::note_folder() {
  const FolderState folder = folder_state(run_.folder);
  const bool running = folder.link == Link::unserved, served = where().has_value();
  if (running && served && client_.problem().empty()) return;  // it is being connected to
  if (running && !served && opened_ > 0) return;               // it is about to end, or begins again
  model_.link = running && served ? Link::lost : folder.link;
  model_.note = printable(running && served ? client_.problem() : folder.note, 200);
}

bool RunWatch::is_complete(bool history) const {
  if (!reader_.greeted()) return false;
  return !history || (model_.newest && reader_.has_history());
}

}  // namespace troupe
