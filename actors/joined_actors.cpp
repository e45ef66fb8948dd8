#include "actors/joined_actors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "runtime/base/suggest.h"

namespace troupe {

namespace {

using std::chrono::microseconds;

constexpr std::array<std::string_view, 7> kKinds = {"worker", "worker host",    "grader",         "inference",
                                                    "scorer", "inference host", "weight receiver"};
constexpr size_t kMostProcesses = 4096;
constexpr uint64_t kMostActors = 100'000;    // of a kind in a process
constexpr std::chrono::seconds kSilent{10};  // after which a process is forgotten
constexpr std::chrono::seconds kRecent{10};  // of which shares are
constexpr uint64_t kMostOldest = uint64_t{1} << 50;

uint64_t grown(uint64_t before, uint64_t now) { return now > before ? now - before : 0; }

std::optional<std::string> misfit(const ActorReport& report) {
  if (std::ranges::find(kKinds, report.kind) == kKinds.end())
    return "it has actors of the unknown kind \"" + printable(report.kind) + '"';
  if (report.actors == 0 || report.actors > kMostActors)
    return "it has " + std::to_string(report.actors) + " actors of the kind \"" + report.kind + '"';
  return std::nullopt;
}

}  // namespace

ProcessReport report_of(ActorBoard& board) {
  ProcessReport report;
  for (const auto& [kind, figures] : board.figures(ActorBoard::Clock::now()))
    report.actors.push_back({kind, figures.actors, figures.busy_us, figures.blocked_us,
                             static_cast<uint64_t>(std::llround(1e6 * figures.oldest_seconds))});
  return report;
}

std::optional<std::string> JoinedActors::add(const std::string& process, const ProcessReport& report,
                                             Clock::time_point now) {
  Reports reports;
  for (const ActorReport& actors : report.actors) {
    if (auto why = misfit(actors)) return why;
    if (!reports.emplace(actors.kind, actors).second) return "it has the kind \"" + actors.kind + "\" twice";
  }
  for (const auto& [kind, actors] : reports) kinds_[kind];  // its shares are of the time from now on
  auto known = processes_.find(process);
  if (known == processes_.end()) {
    forget_silent(now);
    if (processes_.size() >= kMostProcesses) return "already " + std::to_string(kMostProcesses) + " processes report";
    known = processes_.emplace(process, Process{}).first;
  } else {
    add_times(known->second, reports, now);
  }
  known->second = {std::move(reports), now};
  return std::nullopt;
}

// A report of another process may contain any number, so no actor adds more time than has passed since the report
// before, and the first report adds none.
void JoinedActors::add_times(const Process& before, const Reports& reports, Clock::time_point now) {
  const auto passed = std::clamp<Clock::duration>(now - before.at, Clock::duration(0), kSilent);
  const auto passed_us = static_cast<uint64_t>(std::chrono::duration_cast<microseconds>(passed).count());
  for (const auto& [name, report] : reports) {
    const auto earlier = before.actors.find(name);
    if (earlier == before.actors.end()) continue;
    const uint64_t lived = report.actors * passed_us;
    const uint64_t busy = std::min(grown(earlier->second.busy_us, report.busy_us), lived);
    Kind& kind = kinds_[name];
    kind.lived_us += lived;
    kind.busy_us += busy;
    kind.blocked_us += std::min(grown(earlier->second.blocked_us, report.blocked_us), busy);
  }
}

void JoinedActors::forget_silent(Clock::time_point now) {
  std::erase_if(processes_, [&](const auto& process) { return now - process.second.at > kSilent; });
}

std::optional<ActorTimes> JoinedActors::times(Clock::time_point now) {
  forget_silent(now);
  ActorTimes times;
  for (const auto& [name, process] : processes_)
    for (const auto& [kind, report] : process.actors) {
      double& oldest = times.oldest_seconds[kind];
      oldest = std::max(oldest, 1e-6 * static_cast<double>(std::min(report.oldest_us, kMostOldest)));
    }
  for (auto& [name, kind] : kinds_) {
    kind.lived.add(now, kind.lived_us);
    kind.busy.add(now, kind.busy_us);
    kind.blocked.add(now, kind.blocked_us);
    const double lived = kind.lived.over(now, kRecent), busy = kind.busy.over(now, kRecent) / lived;
    if (!times.oldest_seconds.contains(name) || !std::isfinite(busy)) continue;
    times.busy[name] = busy;
    times.blocked[name] = kind.blocked.over(now, kRecent) / lived;
    times.waiting[name] = 1 - busy;
  }
  if (times.oldest_seconds.empty()) return std::nullopt;
  return times;
}

}  // namespace troupe
