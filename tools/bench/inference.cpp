#include <caf/scoped_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <nlohmann/json.hpp>

#include "actors/inference.h"
#include "actors/publisher.h"
#include "runtime/caf/system.h"
#include "runtime/stats/console.h"
#include "tools/bench/bench.h"
#include "tools/bench/support.h"
#include "tools/cli/learning_context.h"

namespace troupe {
namespace {

constexpr int64_t kRows = 64;
constexpr std::chrono::microseconds kDeadline{2000};

// An inference actor whose client is the main thread.
class BenchInference {
 public:
  // A batch runs when it has `batch_size` rows, or after kDeadline.
  explicit BenchInference(int64_t batch_size) : system_(false), self_(system_.get()), input_(cart_pole_input(kRows)) {
    RunConfig config = bench_config(kRows);
    config.inference.batch_size = batch_size;
    config.inference.timeout = kDeadline;
    const std::shared_ptr<RunContext> context = learning_context(config);
    caf::actor_system& system = system_.get();
    const auto weights = system_.stop_at_end(system.spawn(publisher, PublisherDependencies{.context = context}));
    const InferencePeers peers{weights, system_.stop_at_end(system.spawn(silent_replay)),
                               system_.stop_at_end(system.spawn(silent_stats))};
    inference_ = system_.stop_at_end(
        spawn_on(system, true, inference_actor, RunContextPtr(context), Role::sampling, InferenceIndex{0}, peers));
    self_->send(weights, WeightsMessage{learner_of(*context)->snapshot({})});
    ask(0);
  }

  // Seconds from a request of one client to its reply.
  double ask(uint32_t group) {
    InferenceRequest request;
    request.id = ++asked_;
    request.group = group;
    StepRequest& steps = request.steps();
    steps.rows = kRows;
    steps.observations = input_.observations;
    steps.seeds = input_.seeds;
    std::string error;
    const auto begun = BenchClock::now();
    self_->send(inference_, std::move(request));
    self_->receive([&](const InferenceReply& reply) { error = reply.error; },
                   caf::after(kBenchPatience) >> [] { give_up("answer of the inference actor"); });
    const double seconds = seconds_since(begun);
    if (!error.empty()) throw std::runtime_error("the inference actor answered: " + error);
    return seconds;
  }

 private:
  BenchSystem system_;
  caf::scoped_actor self_;
  ActInput input_;
  InferenceActor inference_;
  uint64_t asked_ = 0;
};

std::vector<double> asks(BenchInference& server, uint32_t group, double seconds) {
  std::vector<double> times;
  for (const auto start = BenchClock::now(); times.empty() || seconds_since(start) < seconds;)
    times.push_back(server.ask(group));
  return times;
}

void append(std::vector<double>& all, const std::vector<double>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

}  // namespace

BenchReport bench_inference(double seconds) {
  const auto start = BenchClock::now();
  const std::shared_ptr<RunContext> context = learning_context(bench_config(kRows));
  context->use_threads(1);
  const std::unique_ptr<Policy> policy = context->make_policy();
  const ActInput input = cart_pole_input(kRows);
  // A second client of at_deadline has sent one request and sends no more, so that no batch is ever full or complete.
  BenchInference at_once(kRows), at_deadline(2 * kRows);
  at_deadline.ask(1);
  time_bare_act(*policy, input, 0.02);
  asks(at_once, 0, 0.02);

  constexpr double kShortestTurn = 0.1;
  const double turn = std::max(kShortestTurn, seconds / 20);
  std::vector<double> forward, round_trip, waited;
  do {
    append(forward, time_bare_act(*policy, input, turn / 5));
    append(round_trip, asks(at_once, 0, turn / 5));
    append(waited, asks(at_deadline, 0, 3 * turn / 5));
  } while (seconds_since(start) + turn < seconds);

  const double forward_us = 1e6 * median(forward), round_trip_us = 1e6 * median(round_trip);
  const double deadline_us = static_cast<double>(kDeadline.count()), p99_us = 1e6 * percentile(waited, 0.99);
  const nlohmann::ordered_json json{{"rows", kRows},
                                    {"forward_p50_us", forward_us},
                                    {"round_trip_p50_us", round_trip_us},
                                    {"round_trip_p99_us", 1e6 * percentile(round_trip, 0.99)},
                                    {"overhead_p50_us", round_trip_us - forward_us},
                                    {"deadline_us", deadline_us},
                                    {"at_deadline_p50_us", 1e6 * median(waited)},
                                    {"at_deadline_p99_us", p99_us},
                                    {"round_trips", round_trip.size()},
                                    {"deadlines", waited.size()}};
  const auto us = [](double x) { return format_number(x, 1) + " us"; };
  return {json.dump(),
          {std::to_string(kRows) + " rows, CartPole-v1, 2x64 MLP", "bare forward  p50 " + us(forward_us),
           "round trip    p50 " + us(round_trip_us) + ", p99 " + us(1e6 * percentile(round_trip, 0.99)) +
               "; p50 over the forward " + us(round_trip_us - forward_us),
           "at a deadline of " + format_number(deadline_us / 1000, 0) + " ms: p50 " + us(1e6 * median(waited)) +
               ", p99 " + us(p99_us) + "; p99 without the forward " + us(p99_us - forward_us)}};
}

}  // namespace troupe
