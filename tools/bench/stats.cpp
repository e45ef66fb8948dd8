// What the figures of a run cost.

#include <sys/resource.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <nlohmann/json.hpp>

#include "actors/supervisor.h"
#include "runtime/base/log.h"
#include "runtime/base/mutex.h"
#include "runtime/base/text_format.h"
#include "runtime/stats/actor_board.h"
#include "runtime/stats/histogram.h"
#include "tools/bench/bench.h"
#include "tools/bench/support.h"
#include "tools/cli/learning_context.h"

namespace troupe {

namespace {

using nlohmann::ordered_json;

constexpr int64_t kRowsOfGroup = 32;   // as in configs/cartpole.json
constexpr double kMostCost = 0.005;    // of the processor time of the run
constexpr double kHandlersOfStep = 2;  // of a group: the request for actions, and the reply
constexpr size_t kCallsAtOnce = 100'000;

double processor_seconds() {
  rusage use{};
  getrusage(RUSAGE_SELF, &use);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

// Of one call, for about so many seconds.
double nanoseconds_of(double seconds, const std::function<void(size_t)>& call) {
  std::vector<double> turns;
  const auto start = BenchClock::now();
  do {
    turns.push_back(1e9 / static_cast<double>(kCallsAtOnce) * seconds_of([&] {
                      for (size_t i = 0; i < kCallsAtOnce; ++i) call(i);
                    }));
  } while (seconds_since(start) < seconds);
  return median(turns);
}

// What each step of a group of environments records.
struct EventCosts {
  double histogram = 0;  // a time in a histogram
  double handler = 0;    // the begin and the end of a handler on the board of actors
  double of_step() const { return histogram + kHandlersOfStep * handler; }
};

EventCosts event_costs(double seconds) {
  Histogram histogram;
  ActorBoard board;
  const auto entry = board.add("worker");
  EventCosts costs;
  costs.histogram = nanoseconds_of(seconds / 2, [&](size_t i) { histogram.add(1e-6 * static_cast<double>(i % 4096)); });
  costs.handler = nanoseconds_of(seconds / 2, [&](size_t) {
    const auto begun = ActorBoard::Clock::now();
    entry->begin_handler(begun);
    const CountBlocked count(entry->blocked());
    entry->end_handler(begun, ActorBoard::Clock::now());
  });
  if (histogram.count() == 0) give_up("histogram");
  return costs;
}

// The state of a run at two moments.
class TwoReports final : public RunSink {
 public:
  struct Moment {
    StatsSnapshot snapshot;
    double processor_seconds = 0;
    double stats_seconds = 0;  // in the handlers of stats and of the recorder
  };

  TwoReports(double seconds, std::shared_ptr<ActorBoard> board) : seconds_(seconds), board_(std::move(board)) {}
  void save(const Checkpoint&) override {}
  void record(const StatsSnapshot&) override {}
  void show(const StatsSnapshot& snapshot) override {
    const MutexLock lock(mutex_);
    if (!first_ && snapshot.updates > 0) first_ = moment(snapshot);
    if (first_ && !last_ && snapshot.elapsed_seconds > first_->snapshot.elapsed_seconds + seconds_)
      last_ = moment(snapshot);
    changed_.notify_all();
  }
  std::pair<Moment, Moment> wait() {
    const MutexLock lock(mutex_);
    const auto patience = kBenchPatience + std::chrono::duration<double>(seconds_);
    if (!changed_.wait_for(mutex_, patience, [this] { return last_.has_value(); })) give_up("report of a run");
    return {*first_, *last_};
  }

 private:
  Moment moment(const StatsSnapshot& snapshot) {
    double microseconds = 0;
    for (const auto& [kind, figures] : board_->figures(ActorBoard::Clock::now()))
      if (kind == "stats" || kind == "recorder") microseconds += static_cast<double>(figures.busy_us);
    return {snapshot, processor_seconds(), 1e-6 * microseconds};
  }

  double seconds_;
  std::shared_ptr<ActorBoard> board_;
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::optional<Moment> first_, last_;
};

// Trains CartPole with all actors of a run, for so many seconds.
std::pair<TwoReports::Moment, TwoReports::Moment> train(double seconds) {
  RunConfig config = bench_config(kRowsOfGroup);
  config.rollout.length = 32;
  config.trainer.super_batch = 2048;
  config.trainer.epochs = config.trainer.minibatches = 4;
  const std::shared_ptr<RunContext> context = learning_context(config);
  context->board = std::make_shared<ActorBoard>();
  const auto sink = std::make_shared<TwoReports>(seconds, context->board);
  OwnedSystem system({.scheduler = SchedulerKind::threads, .threads = 2, .network = false, .network_config = {}},
                     register_messages);
  SupervisorActor root =
      system.get().spawn(supervisor, RunContextPtr(context),
                         RunDependencies{learner_of(*context), ReplayStart{}, sink, [](const RunOutcome&) {}});
  auto moments = sink->wait();
  caf::anon_send(caf::actor_cast<caf::typed_actor<caf::reacts_to<Stop>>>(root), Stop{"interrupted"});
  root = nullptr;
  system.await_actors(kBenchPatience);
  return moments;
}

}  // namespace

BenchReport bench_stats(double seconds) {
  open_log(nullptr, {.to_stderr = false});
  const EventCosts costs = event_costs(seconds / 4);
  const auto [first, last] = train(seconds / 2);
  close_log();
  const double steps = static_cast<double>(last.snapshot.env_steps - first.snapshot.env_steps);
  const double processor = last.processor_seconds - first.processor_seconds;
  const double events = 1e-9 * costs.of_step() * steps / static_cast<double>(kRowsOfGroup);
  const double stats = last.stats_seconds - first.stats_seconds;
  const double share = events / processor, share_of_actors = stats / processor;
  std::vector<double> texts;
  for (const auto start = BenchClock::now(); seconds_since(start) < seconds / 4 || texts.empty();)
    texts.push_back(seconds_of([&] { to_json(last.snapshot); }));
  const double to_text = 1e9 * median(texts);
  BenchReport report;
  report.failed = share > kMostCost;
  report.json = ordered_json{{"histogram_ns", costs.histogram},          {"handler_ns", costs.handler},
                             {"step_us", 1e6 * processor / steps},       {"share_of_events", share},
                             {"share_of_stats_actors", share_of_actors}, {"snapshot_json_us", 1e-3 * to_text}}
                    .dump();
  report.lines = {"a time in a histogram      " + format_number(costs.histogram, 1) + " ns",
                  "a handler on the board     " + format_number(costs.handler, 1) + " ns",
                  "an environment step        " + format_number(1e6 * processor / steps, 2) +
                      " us of processor time, of all actors",
                  "recorded events            " + format_number(100 * share, 3) + " % of it" +
                      (report.failed ? ", MORE than 0.5 %" : ""),
                  "stats and recorder         " + format_number(100 * share_of_actors, 2) + " % of it",
                  "a snapshot as JSON         " + format_number(1e-3 * to_text, 0) + " us"};
  return report;
}

}  // namespace troupe
