// The part of snapshot_fields() about workers, failures, memory, verifiers and alarms.

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "runtime/stats/field_access.h"

namespace troupe {
namespace {

using Json = FigureJson;
using S = StatsSnapshot;

// For the table, what reads and writes one member.
template <uint64_t VerifierFigures::* member>
constexpr FieldAccess verifier_seconds{
    [](const S& s) { return s.verifier ? Json(static_cast<double>((*s.verifier).*member) / 1e6) : Json(); },
    [](S& s, const Json& seconds) {
      if (!seconds.is_number()) return;
      if (!s.verifier) s.verifier.emplace();
      (*s.verifier).*member = static_cast<uint64_t>(std::clamp(std::round(seconds.get<double>() * 1e6), 0.0, 1e18));
    }};
template <class Value>
Json of_alarms(const S& s, Value value) {
  Json result = Json::object();
  for (const auto& [name, alarm] : s.alarms) result[name] = value(alarm);
  return result;
}
constexpr FieldAccess kAlarmLevels{
    [](const S& s) { return of_alarms(s, [](const Alarm& a) { return static_cast<int>(a.level); }); },
    [](S& s, const Json& levels) {
      if (!levels.is_object()) return;
      for (const auto& [name, level] : levels.items())
        s.alarms[name].level = level == 2 ? AlarmLevel::error : AlarmLevel::warning;
    }};
constexpr FieldAccess kAlarmTexts{[](const S& s) { return of_alarms(s, [](const Alarm& a) { return a.text; }); },
                                  [](S& s, const Json& texts) {
                                    if (!texts.is_object()) return;
                                    for (const auto& [name, text] : texts.items())
                                      if (const auto alarm = s.alarms.find(name); alarm != s.alarms.end())
                                        read_figure(text, alarm->second.text);
                                  }};
// Null where there are none.
template <uint64_t StatsSnapshot::* member>
constexpr FieldAccess if_any{[](const S& s) { return s.*member > 0 ? Json(s.*member) : Json(); },
                             [](S& s, const Json& bytes) { read_figure(bytes, s.*member); }};

constexpr const char* kWorkers = "Workers and failures";
constexpr const char* kAlarms = "Alarms";

constexpr std::array kWorkerFields = {
    SnapshotField{kWorkers, "training_ended", "training_ended", "true or false", kAlways,
                  "whether training has ended, for whatever reason", of<&S::training_ended>,
                  shown("training has ended")},
    SnapshotField{kWorkers, "workers.up", "workers", "workers", kAlways,
                  "connected now; once training has ended: when it did", of<&S::workers_up>, shown("workers up")},
    SnapshotField{kWorkers, "workers.total", "workers_connected_total", "workers", kAlways,
                  "that have connected since this process started", of<&S::workers_total>,
                  shown("workers connected since the start")},
    SnapshotField{kWorkers, "ranks.up", "ranks", "ranks", kTimed,
                  "that compute updates now, or will when all have come; 1 without `trainer.ranks`",
                  if_any<&S::ranks_up>, shown("ranks up")},
    SnapshotField{kWorkers, "ranks.total", "ranks_wanted", "ranks", kTimed, "`trainer.ranks`", if_any<&S::ranks_total>,
                  shown("ranks wanted")},
    SnapshotField{kWorkers, "workers.starting", "workers_starting", "workers", kAlways,
                  "started by the run, or connected from another process, that still start their environments",
                  of<&S::workers_starting>, shown("workers starting")},
    SnapshotField{
        kWorkers, "rows_served", "rows_served_total{inference=*}", "rows, by inference actor", kAlways,
        "rows that each inference actor has served, in token runs tokens that its steps of generation have read; "
        "of the actors that are gone, the newest 100 have "
        "entries, and `earlier inference actors` is the sum of the others",
        of<&S::rows_served>, shown("rows served", "tokens read")},
    SnapshotField{kWorkers, "weights_behind", "weights_behind_versions{inference=*}", "versions, by inference actor",
                  kAlways,
                  "versions of the weights that were published and that the inference actor has not applied yet",
                  of<&S::weights_behind>, shown("versions behind", Better::down)},
    SnapshotField{kWorkers, "env_failures", "env_failures_total{env=*}", "failures, by environment", kAlways,
                  "over all starts: how often a sub-environment threw or returned numbers that are not finite, or a "
                  "worker ended with an error; one entry, named by the environment's id or, in token runs, by the "
                  "task; empty without a failure",
                  of<&S::env_failures>, shown("failures", Better::down)},
    SnapshotField{kWorkers, "request_retries", "request_retries_total", "requests", kAlways,
                  "over all starts: requests that workers sent again, after an error or without a reply",
                  of<&S::request_retries>, shown("requests sent again", Better::down)},
    SnapshotField{kWorkers, "quarantined", "quarantined_rows", "rows", kAlways,
                  "in quarantine: they failed `workers.quarantine_after` times in a row and are not stepped again",
                  of<&S::quarantined>, shown("rows in quarantine", Better::down)},
    SnapshotField{kWorkers, "skipped_steps", "skipped_steps_total", "optimizer steps", kAlways,
                  "over all starts: skipped because a loss or a gradient was not finite", of<&S::skipped_steps>,
                  shown("optimizer steps skipped", Better::down)},
    SnapshotField{kWorkers, "last_error", "", "text", kAlways,
                  "newest error of an environment or a request; empty without one", of<&S::last_error>,
                  shown("newest error")},
    SnapshotField{kWorkers, "rss_bytes", "resident_memory_bytes", "bytes", kTimed,
                  "resident memory of the trainer's process", if_any<&S::rss_bytes>,
                  shown("memory of the trainer's process")},
    SnapshotField{kWorkers, "worker_bytes", "worker_memory_bytes", "bytes", kTimed,
                  "resident memory of the processes of workers that have joined, all together; null without any",
                  if_any<&S::worker_bytes>, shown("memory of joined workers")},
    SnapshotField{
        kWorkers, "environment_bytes", "environment_memory_bytes", "bytes", kTimed,
        "resident memory of the processes of environments in Python, and of what they start, on all machines; "
        "null without any",
        if_any<&S::environment_bytes>, shown("memory of environments' processes")},
    SnapshotField{kWorkers, "verifier_bytes", "verifier_memory_bytes", "bytes", kTimed,
                  "the same of the processes of verifiers", if_any<&S::verifier_bytes>,
                  shown("memory of verifiers' processes")},
    SnapshotField{kWorkers, "verifier.calls", "verifier_calls_total", "calls", kVerified,
                  "to the verifiers of all workers, and to what replies, since the start of the process, repeated ones "
                  "included; without those of evaluations",
                  of_verifier<&VerifierFigures::calls>, shown("calls of verifiers")},
    SnapshotField{kWorkers, "verifier.failed_calls", "verifier_failed_calls_total", "calls", kVerified,
                  "of them, those that gave no scores or replies; each is repeated once",
                  of_verifier<&VerifierFigures::failed_calls>, shown("calls of verifiers that failed", Better::down)},
    SnapshotField{kWorkers, "verifier.restarts", "verifier_restarts_total", "processes", kVerified,
                  "of verifiers that were started in place of one that had ended or was killed",
                  of_verifier<&VerifierFigures::restarts>, shown("verifiers started again", Better::down)},
    SnapshotField{kWorkers, "verifier.scored", "verifier_scored_total", "answers", kVerified, "that got a score",
                  of_verifier<&VerifierFigures::scored>, shown("answers scored by verifiers")},
    SnapshotField{
        kWorkers, "verifier.seconds", "verifier_seconds_total", "s", kVerified,
        "time in these calls, with the starts of processes; when it grows in a second by the number of processes "
        "(workers.up times task.verifier_processes), all of them are busy",
        verifier_seconds<&VerifierFigures::busy_us>, shown("time in calls of verifiers")},
    SnapshotField{
        kWorkers, "verifier.wait_seconds", "verifier_wait_seconds_total", "s", kVerified,
        "time that the answers to each prompt waited until a process was free for them, the sum over all prompts: it "
        "grows by more than 1 s in a second when several wait",
        verifier_seconds<&VerifierFigures::wait_us>, shown("time waiting for a free verifier", Better::down)},
    SnapshotField{kAlarms, "alarms", "alarm_level{alarm=*}", "1 = warning, 2 = error", kAlways,
                  "the alarms that are raised now, by name; none is raised: an empty object", kAlarmLevels},
    SnapshotField{kAlarms, "alarm_texts", "", "text", kAlways,
                  "what was measured when each of these alarms was raised, and what to do", kAlarmTexts,
                  FigureView{.type = FigureType::map}},
};

}  // namespace

std::span<const SnapshotField> worker_fields() { return kWorkerFields; }

}  // namespace troupe
