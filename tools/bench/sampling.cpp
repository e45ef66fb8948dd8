#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include <caf/io/middleman.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <nlohmann/json.hpp>

#include "actors/config/config.h"
#include "actors/inference.h"
#include "actors/publisher.h"
#include "actors/replay_buffer.h"
#include "actors/worker.h"
#include "runtime/caf/system.h"
#include "runtime/stats/console.h"
#include "tools/bench/bench.h"
#include "tools/bench/child_process.h"
#include "tools/bench/support.h"
#include "tools/cli/launch.h"
#include "tools/cli/learning_context.h"

namespace troupe {
namespace {

constexpr int64_t kSamplingRows = 512;  // per group and batch
constexpr int64_t kGroups = 2;

RunConfig sampling_config() {
  RunConfig config = bench_config(kSamplingRows);
  config.workers.groups = kGroups;
  config.trainer.super_batch = kSamplingRows * kGroups * config.rollout.length;
  config.replay.max_policy_lag = 2;
  return config;
}

// Admits one worker, as the supervisor of a run does.
JoinService::behavior_type bench_server(JoinService::pointer, const Welcome& welcome) {
  return {[welcome](const JoinRequest&) { return welcome; }, [](const ServeRequest&) {}, [](const RankReady&) {},
          [](const Serving&) {}};
}

struct Slice {
  double rows_per_second = 0;
  double cpu_seconds_per_row = 0;  // of this process and the worker's
};

// Worker, inference actor, replay buffer and publisher of a run, with the main thread in the trainer's place: it takes
// super-batches, reports them as trained and publishes the same weights under the next version, so that the worker gets
// credits as in a run. When the main thread takes none, the worker gets no more credits and stops.
class Pipeline {
 public:
  Pipeline(const RunContextPtr& context, WeightsPtr weights, bool own_process)
      : context_(context), system_(own_process), self_(system_.get()), weights_(std::move(weights)) {
    caf::actor_system& system = system_.get();
    const StatsActor stats = system_.stop_at_end(system.spawn(silent_stats));
    publisher_ = system_.stop_at_end(system.spawn(publisher, PublisherDependencies{.context = context}));
    replay_ = system_.stop_at_end(
        system.spawn(replay_buffer, context, ReplayStart{}, stats, caf::typed_actor<caf::reacts_to<SamplingFailed>>{}));
    const auto inference = system_.stop_at_end(spawn_on(system, true, inference_actor, context, Role::sampling,
                                                        InferenceIndex{0}, InferencePeers{publisher_, replay_, stats}));
    self_->send(publisher_, WeightsMessage{weights_});
    if (!own_process) {
      system_.stop_at_end(
          spawn_on(system, true, worker_actor, context, uint64_t{0}, WorkerPeers{inference, replay_, stats}));
      return;
    }
    const JoinService server = system_.stop_at_end(system.spawn(
        bench_server, Welcome{0, to_json(context->config), InferenceService(inference), ReplayService(replay_),
                              StatsService(stats), 0, "bench " + std::to_string(getpid())}));
    const auto port = system.middleman().publish(server, 0, "127.0.0.1", true);
    if (!port) throw std::runtime_error("cannot listen on 127.0.0.1: " + describe(port.error()));
    worker_.emplace(std::vector<std::string>{program_folder() + "/troupe", "worker", "--connect",
                                             "127.0.0.1:" + std::to_string(*port)});
  }

  // Runs for `seconds`, after taking the samples that were waiting before.
  Slice run(double seconds) {
    for (int64_t i = 0; i < context_->config.replay.max_policy_lag + 2; ++i) take();
    const auto start = BenchClock::now();
    const double cpu = cpu_so_far();
    uint64_t rows = 0;
    do rows += take();
    while (seconds_since(start) < seconds);
    const auto count = static_cast<double>(rows);
    return {count / seconds_since(start), (cpu_so_far() - cpu) / count};
  }

 private:
  double cpu_so_far() const {
    return cpu_seconds_of(CLOCK_PROCESS_CPUTIME_ID) + (worker_ ? worker_->cpu_seconds() : 0);
  }

  // Takes the next super-batch and returns its number of rows.
  uint64_t take() {
    uint64_t rows = 0;
    self_->send(replay_, next_atom_v);
    self_->receive([&](const BatchMessage& message) { rows = message.shards.front()->samples; },
                   caf::after(kBenchPatience) >> [] { give_up("batch of the worker's samples"); });
    UpdateMessage done;
    done.index = version_.number++;
    done.version = version_;
    self_->send(replay_, done);
    auto next = std::make_shared<WeightSnapshot>(*weights_);
    next->version = version_;
    self_->send(publisher_, WeightsMessage{next});
    return rows;
  }

  RunContextPtr context_;
  BenchSystem system_;
  caf::scoped_actor self_;
  WeightsPtr weights_;
  PolicyVersion version_;
  PublisherActor publisher_;
  ReplayActor replay_;
  std::optional<BenchProcess> worker_;  // last, so that it ends first
};

// The figures of one way to sample over all turns.
struct Figures {
  std::vector<double> ratios, rows_per_second, cpu;

  void add(const Slice& slice, double bare) {
    ratios.push_back(slice.rows_per_second / bare);
    rows_per_second.push_back(slice.rows_per_second);
    cpu.push_back(slice.cpu_seconds_per_row);
  }
  nlohmann::ordered_json json() const {
    return {{"ratio_to_forward", median(ratios)},
            {"rows_per_second", median(rows_per_second)},
            {"us_per_batch", 1e6 * kSamplingRows / median(rows_per_second)},
            {"cpu_us_per_batch", 1e6 * kSamplingRows * median(cpu)}};
  }
  std::string line(const std::string& name) const {
    return name + format_number(median(ratios), 2) +
           " of the bare policy: " + format_count(static_cast<uint64_t>(median(rows_per_second))) + " rows/s, " +
           format_number(1e6 * kSamplingRows / median(rows_per_second), 0) + " us per batch, " +
           format_number(1e6 * kSamplingRows * median(cpu), 0) + " us of processor time";
  }
};

}  // namespace

BenchReport bench_sampling(double seconds) {
  const auto start = BenchClock::now();
  const std::shared_ptr<RunContext> context = learning_context(sampling_config());
  context->use_threads(1);
  const std::unique_ptr<Policy> policy = context->make_policy();
  const ActInput input = cart_pole_input(kSamplingRows);
  const WeightsPtr weights = learner_of(*context)->snapshot({});
  Pipeline in_process(context, weights, false), loopback(context, weights, true);
  in_process.run(0);
  loopback.run(0);
  time_bare_act(*policy, input, 0.02);

  constexpr double kShortestTurn = 0.15;
  const double turn = std::max(kShortestTurn, seconds / 20);
  std::vector<double> bare;
  Figures inside, across;
  do {
    // The median of act(), not the number of calls: if other programs slow the bare loop down, that must not make the
    // comparison easier.
    bare.push_back(static_cast<double>(kSamplingRows) / median(time_bare_act(*policy, input, turn / 3)));
    inside.add(in_process.run(turn / 3), bare.back());
    across.add(loopback.run(turn / 3), bare.back());
  } while (seconds_since(start) + turn < seconds);

  const double rate = median(bare);
  const nlohmann::ordered_json json{
      {"batch_rows", kSamplingRows},
      {"groups", kGroups},
      {"turns", bare.size()},
      {"forward", {{"rows_per_second", rate}, {"us_per_batch", 1e6 * kSamplingRows / rate}}},
      {"in_process", inside.json()},
      {"loopback", across.json()}};
  return {json.dump(),
          {"CartPole-v1, 2x64 MLP, " + std::to_string(kGroups) + " groups of " + std::to_string(kSamplingRows) +
               " rows; medians of " + std::to_string(bare.size()) + " turns",
           "bare policy  " + format_count(static_cast<uint64_t>(rate)) + " rows/s, " +
               format_number(1e6 * kSamplingRows / rate, 0) + " us per batch, one core",
           inside.line("in process   "), across.line("loopback     ")}};
}

}  // namespace troupe
