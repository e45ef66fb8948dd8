#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/stats/console.h"
#include "tools/bench/bench.h"
#include "tools/bench/rank_context.h"
#include "tools/bench/rank_process.h"
#include "tools/bench/timing.h"
#include "tools/bench/training.h"

namespace troupe {
namespace {

constexpr double kMegabyte = 1e6;
constexpr size_t kRankBatches = 2;  // different super-batches, used in turns

std::string megabytes(double bytes) { return format_number(bytes / kMegabyte, 2) + " MB"; }

std::vector<BenchTraining::Batch> batches_of(const RunContext& context, int64_t observations) {
  const std::unique_ptr<Policy> policy = context.make_policy();
  const int64_t rows = kBenchSteps * context.config.env.rows;
  std::vector<BenchTraining::Batch> batches(kRankBatches);
  uint64_t index = 0;
  for (BenchTraining::Batch& batch : batches)
    for (int64_t shard = 0; shard < context.config.trainer.shards; ++shard, ++index)
      batch.push_back(made_rollout(*policy, normal_input(rows, observations, index), kBenchSteps, index));
  return batches;
}

// Of the parameters that are trained, and so of their gradients.
uint64_t gradient_bytes(const Signature& signature) {
  uint64_t bytes = 0;
  for (const TensorSpec& tensor : signature.tensors)
    if (tensor.group <= TensorGroup::critic) bytes += sizeof(float) * static_cast<uint64_t>(tensor.shape.elements());
  return bytes;
}

// The medians of the turns of one way to train.
class Way {
 public:
  Way(const RunContextPtr& context, const std::vector<BenchTraining::Batch>& batches, const BenchRanks& ranks = {})
      : training_(context, context->make_learner(), batches, ranks) {}

  void measure(double seconds) {
    const BenchTraining::Slice slice = training_.run(seconds);
    std::vector<double> computing;
    for (size_t i = 0; i < slice.update_seconds.size(); ++i)
      computing.push_back(slice.update_seconds[i] - slice.exchange_seconds[i]);
    update_.push_back(median(slice.update_seconds));
    exchange_.push_back(median(slice.exchange_seconds));
    computing_.push_back(median(computing));
    updates_ += slice.update_seconds.size();
    bytes_ += slice.bytes;
  }

  // Of the last turn.
  double last_update() const { return update_.back(); }
  double last_computing() const { return computing_.back(); }
  double update() const { return median(update_); }
  double exchange() const { return median(exchange_); }
  // Of rank 0.
  double computing() const { return median(computing_); }
  // Of an update, through the connections of all ranks together.
  double up() const { return static_cast<double>(bytes_.up) / static_cast<double>(updates_); }
  double down() const { return static_cast<double>(bytes_.down) / static_cast<double>(updates_); }
  nlohmann::ordered_json json() const { return {{"update_ms", 1e3 * update()}, {"exchange_ms", 1e3 * exchange()}}; }

 private:
  BenchTraining training_;
  std::vector<double> update_, exchange_, computing_;
  uint64_t updates_ = 0;
  LinkBytes bytes_;
};

// What the limited connections cost, see bench.h.
struct Link {
  double megabytes_per_second = 0;
  double up = 0, down = 0;  // bytes of an update, through the connection of one rank
  double ranks = 0, compute = 0, exchange = 0;
  double added = 0;  // ranks - compute, as a median over turns

  double seconds(double bytes) const { return bytes / (kMegabyte * megabytes_per_second); }
  double hidden_of(double transfers) const { return 1 - added / transfers; }
  double hidden_of_both() const { return hidden_of(seconds(up + down)); }
  double hidden_of_longer() const { return hidden_of(seconds(std::max(up, down))); }

  nlohmann::ordered_json json() const {
    return {{"megabytes_per_second", megabytes_per_second},
            {"update_ms", 1e3 * ranks},
            {"exchange_ms", 1e3 * exchange},
            {"computing_ms", 1e3 * compute},
            {"added_ms", 1e3 * added},
            {"up_bytes", up},
            {"down_bytes", down},
            {"up_ms", 1e3 * seconds(up)},
            {"down_ms", 1e3 * seconds(down)},
            {"hidden_of_both_directions", hidden_of_both()},
            {"hidden_of_longer_direction", hidden_of_longer()}};
  }
  std::string line(const std::string& name) const {
    const auto ms = [](double value) { return format_number(1e3 * value, 1) + " ms"; };
    const auto direction = [&](double bytes) { return ms(seconds(bytes)) + " (" + megabytes(bytes) + ")"; };
    return name + ms(ranks) + " per update, " + ms(exchange) + " of it exchange; " + ms(added) +
           " more than the computation, which takes " + ms(compute) + "; transfers up " + direction(up) + " and down " +
           direction(down) + "; hidden: " + format_number(100 * hidden_of_both(), 1) + " % of both, " +
           format_number(100 * hidden_of_longer(), 1) + " % of the longer one";
  }
};

Link link_of(const TrainerBenchOptions& options, const Way& direct, const Way& limited,
             const std::vector<double>& added) {
  const auto others = static_cast<double>(options.ranks - 1);
  return {options.link,       limited.up() / others, limited.down() / others, limited.update(), direct.computing(),
          limited.exchange(), median(added)};
}

std::string padded(std::string text) {
  constexpr size_t kColumn = 18;
  text.resize(std::max(kColumn, text.size() + 2), ' ');
  return text;
}

}  // namespace

BenchReport bench_trainer_ranks(const TrainerBenchOptions& options, double seconds) {
  const auto start = BenchClock::now();
  BenchRun run{.shards = options.ranks, .ranks = 1, .hidden = options.hidden.sizes, .minibatch = options.minibatch};
  const RunContextPtr alone = bench_run_context(bench_run_config(run), options.observations);
  run.ranks = options.ranks;
  const RunContextPtr together = bench_run_context(bench_run_config(run), options.observations);
  alone->use_threads(1);
  const std::vector<BenchTraining::Batch> batches = batches_of(*alone, options.observations);
  const std::vector<std::string> command = bench_rank_command_of(options.observations);
  Way one(alone, batches), ranks(together, batches, {.command = command});
  std::optional<Way> limited;
  if (options.link > 0)
    limited.emplace(together, batches,
                    BenchRanks{.command = command, .link_bytes_per_second = kMegabyte * options.link});

  const double turn = seconds / 20;
  std::vector<double> ratios, added;
  auto begun = BenchClock::now();
  double longest = 0;
  do {
    begun = BenchClock::now();
    one.measure(turn / 3);
    ranks.measure(turn / 3);
    if (limited) {
      limited->measure(turn / 3);
      added.push_back(limited->last_update() - ranks.last_computing());
    }
    ratios.push_back(one.last_update() / ranks.last_update());
    longest = std::max(longest, seconds_since(begun));
  } while (seconds_since(start) + longest < seconds);

  const TrainerConfig& trainer = together->config.trainer;
  const int64_t minibatch = trainer.super_batch / kBenchMinibatches;
  const uint64_t gradients = gradient_bytes(*together->signature);
  const std::string of_ranks = std::to_string(options.ranks) + " ranks";
  nlohmann::ordered_json json{{"ranks", options.ranks},
                              {"shards", trainer.shards},
                              {"hidden", options.hidden.sizes},
                              {"observations", options.observations},
                              {"minibatch", minibatch},
                              {"steps_per_update", kBenchMinibatches},
                              {"gradient_bytes", gradients},
                              {"turns", ratios.size()},
                              {"one_rank", one.json()},
                              {"several_ranks", ranks.json()},
                              {"ratio_of_one_to_several", median(ratios)}};
  std::vector<std::string> lines{"updates of " + std::to_string(kBenchMinibatches) + " steps of " +
                                     format_count(static_cast<uint64_t>(minibatch)) + " samples; gradients of " +
                                     megabytes(static_cast<double>(gradients)) + "; medians of " +
                                     format_counted(ratios.size(), "turn"),
                                 padded("1 rank") + format_number(1e3 * one.update(), 1) + " ms per update",
                                 padded(of_ranks) + format_number(1e3 * ranks.update(), 1) + " ms per update, " +
                                     format_number(1e3 * ranks.exchange(), 1) + " ms of it exchange; " +
                                     format_number(median(ratios), 2) + " times as fast as 1 rank"};
  if (limited) {
    const Link link = link_of(options, ranks, *limited, added);
    json["link"] = link.json();
    lines.push_back(link.line(padded(of_ranks + ", " + format_number(options.link, 0) + " MB/s")));
  }
  return {json.dump(), lines};
}

}  // namespace troupe
