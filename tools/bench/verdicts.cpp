// Builds a bottleneck, looks at the verdict, and measures what its advice gives.

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <nlohmann/json.hpp>

#include "actors/supervisor.h"
#include "runtime/base/log.h"
#include "runtime/base/mutex.h"
#include "runtime/base/text_format.h"
#include "runtime/stats/bottleneck.h"
#include "runtime/stats/expected_gain.h"
#include "tools/bench/bench.h"
#include "tools/bench/support.h"
#include "tools/bench/verdict_cases.h"

namespace troupe {

namespace {

constexpr double kRunSeconds = 8;  // of one run: most of the 10 s over which shares of time are measured
constexpr size_t kMayBeWrong = 1;  // verdicts
constexpr double kMuchGain = 0.2, kMostError = 0.3;  // predicted gains of that and more; relative to the measured one

// Keeps what the run reports.
class LastReport final : public RunSink {
 public:
  explicit LastReport(std::chrono::microseconds save) : save_(save) {}
  void save(const Checkpoint&) override { std::this_thread::sleep_for(save_); }
  void record(const StatsSnapshot&) override {}
  void show(const StatsSnapshot& snapshot) override {
    const MutexLock lock(mutex_);
    if (!first_ && snapshot.elapsed_seconds > kRunSeconds / 4) first_ = snapshot;
    last_ = snapshot;
    changed_.notify_all();
  }
  // The first report after a quarter of the time, and the first at its end.
  std::pair<StatsSnapshot, StatsSnapshot> wait() {
    const MutexLock lock(mutex_);
    const auto complete = [this] { return first_ && last_.elapsed_seconds >= kRunSeconds; };
    const auto patience = kBenchPatience + std::chrono::duration<double>(kRunSeconds);
    if (!changed_.wait_for(mutex_, patience, complete)) give_up("report of a run");
    return {*first_, last_};
  }

 private:
  std::chrono::microseconds save_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<StatsSnapshot> first_;
  StatsSnapshot last_;
};

struct Observed {
  Bottleneck verdict;
  double gain = kUnknown;  // predicted
  double updates_per_second = 0;
};

// Tells the supervisor to stop when the object ends, and waits for its end.
class RunningRun {
 public:
  RunningRun(const SlowRun& run, std::shared_ptr<RunSink> sink)
      : system_({.scheduler = SchedulerKind::threads, .threads = 2, .network = false, .network_config = {}},
                register_messages) {
    const std::shared_ptr<RunContext> context = slow_context(run.config, run.costs);
    RunDependencies dependencies{slow_learner(*context, run.costs), ReplayStart{}, std::move(sink),
                                 [](const RunOutcome&) {}};
    root_ = system_.get().spawn(supervisor, RunContextPtr(context), std::move(dependencies));
  }
  ~RunningRun() {
    caf::anon_send(caf::actor_cast<caf::typed_actor<caf::reacts_to<Stop>>>(root_), Stop{"interrupted"});
    root_ = nullptr;
    system_.await_actors(kBenchPatience);
  }
  RunningRun(const RunningRun&) = delete;
  RunningRun& operator=(const RunningRun&) = delete;

 private:
  OwnedSystem system_;
  SupervisorActor root_;
};

Observed observe(const SlowRun& run) {
  const auto sink = std::make_shared<LastReport>(run.costs.save);
  const OtherPrograms others(run.costs.other_programs);
  const RunningRun running(run, sink);
  auto [first, last] = sink->wait();
  last.told_bottleneck.reset();  // the verdict of this moment, not one that is held
  Observed result;
  result.verdict = find_bottleneck(last);
  result.gain = predicted_gain(last, result.verdict);
  result.updates_per_second =
      static_cast<double>(last.updates - first.updates) / (last.elapsed_seconds - first.elapsed_seconds);
  return result;
}

// What was observed of one bottleneck, over all repeats.
struct CaseResult {
  std::string name, change, right;
  std::vector<std::string> verdicts;  // names of resources
  std::vector<double> predicted, measured;

  size_t times_right() const { return static_cast<size_t>(std::ranges::count(verdicts, right)); }
  bool is_right() const { return 2 * times_right() > verdicts.size(); }
  // Of a resource whose gain users see.
  bool is_wrongly_shown() const {
    if (!gain_is_shown(resource_of(right)) || predicted.empty() || median(predicted) < kMuchGain) return false;
    return std::abs(median(predicted) - median(measured)) > kMostError * median(measured);
  }
  nlohmann::ordered_json json() const {
    return {{"name", name},
            {"right", right},
            {"verdicts", verdicts},
            {"change", change},
            {"predicted_gain", predicted.empty() ? kUnknown : median(predicted)},
            {"measured_gain", median(measured)}};
  }
  std::string line() const {
    const auto gain = [](const std::vector<double>& gains) {
      return gains.empty() ? std::string("-") : format_percent(median(gains));
    };
    std::string said;
    for (const std::string& verdict : verdicts) said += (said.empty() ? "" : ", ") + verdict;
    return (is_right() ? "right  " : "WRONG  ") + name + std::string(20 - std::min<size_t>(19, name.size()), ' ') +
           "says " + said + "; gain of " + change + ": predicted " + gain(predicted) + ", measured " + gain(measured) +
           (is_wrongly_shown() ? ", WRONG" : "");
  }
};

CaseResult measure_case(const VerdictCase& c, size_t repeats) {
  CaseResult result{c.name, c.change, std::string(name_of(c.right)), {}, {}, {}};
  for (size_t i = 0; i < repeats; ++i) {
    const Observed before = observe(c.run), after = observe(c.advised);
    result.verdicts.emplace_back(name_of(before.verdict.resource));
    if (std::isfinite(before.gain)) result.predicted.push_back(before.gain);
    result.measured.push_back(after.updates_per_second / before.updates_per_second - 1);
  }
  return result;
}

}  // namespace

BenchReport bench_verdicts(double seconds) {
  const std::vector<VerdictCase> cases = verdict_cases();
  const double once = 2 * kRunSeconds * static_cast<double>(cases.size());
  const auto repeats = static_cast<size_t>(std::max(1.0, seconds / once));
  open_log(nullptr, {.to_stderr = false});  // hides warnings about what is slow on purpose
  BenchReport report;
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  size_t right = 0, wrong_gains = 0;
  for (const VerdictCase& c : cases) {
    const CaseResult result = measure_case(c, repeats);
    right += result.is_right() ? 1 : 0;
    wrong_gains += result.is_wrongly_shown() ? 1 : 0;
    results.push_back(result.json());
    report.lines.push_back(result.line());
  }
  close_log();
  report.failed = right + kMayBeWrong < cases.size() || wrong_gains > 0;
  report.lines.push_back(std::to_string(right) + " of " + std::to_string(cases.size()) + " verdicts are right; " +
                         std::to_string(repeats) + (repeats == 1 ? " run" : " runs") + " of each");
  report.json = nlohmann::ordered_json{{"repeats", repeats}, {"right", right}, {"cases", results}}.dump();
  return report;
}

}  // namespace troupe
