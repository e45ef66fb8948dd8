// Admission of rollouts under random schedules. With any valid capacity, super-batch, lag cap and number of workers, a
// run neither stalls nor trains on the same samples forever, and stays within its limits.

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "actors/replay_store.h"
#include "runtime/base/errors.h"
#include "runtime/base/rng.h"
#include "tests/actors/rollouts.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

struct Draw {
  explicit Draw(uint64_t seed) : rng(derive_key(seed, "admission")) {}
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(rng.below(static_cast<uint64_t>(high - low + 1)));
  }
  bool chance(double p) { return rng.uniform_double() < p; }
  Rng rng;
};

// A random config that validate() accepts.
RunConfig draw_config(Draw& draw) {
  for (;;) {
    RunConfig c;
    c.rollout.length = draw.between(1, 8);
    c.env.rows = draw.between(1, 4);
    c.workers.count = draw.between(1, 6);
    c.workers.groups = draw.between(1, 3);
    c.trainer.super_batch = draw.between(2, 64);
    c.trainer.minibatches = 1;
    c.replay.mode = draw.chance(0.7) ? "reuse" : "consume_once";
    const bool reuse = c.replay.mode == "reuse";
    c.replay.max_policy_lag = draw.chance(0.3) ? 1'000'000 : draw.between(0, 12);
    if (reuse) c.replay.max_reuse = draw.chance(0.3) ? 1'000'000 : draw.between(1, 12);
    if (!reuse && draw.chance(0.5)) c.replay.late = "wait";
    c.replay.draw = draw.chance(0.5) ? "sample" : "column";
    const int64_t rollout = c.rollout.length * c.env.rows;
    if (draw.chance(0.7)) {
      const int64_t least = (reuse ? 1 : c.replay.max_policy_lag + 1) * c.trainer.super_batch;
      c.replay.capacity = draw.chance(0.4) ? least : draw.between(least, least + 4 * (c.trainer.super_batch + rollout));
    }
    try {
      validate(c);
      return c;
    } catch (const ConfigError&) {
    }
  }
}

std::string text_of(const RunConfig& c) {
  return c.replay.mode + " late " + c.replay.late + " draws " + c.replay.draw + "s T " +
         std::to_string(c.rollout.length) + " rows " + std::to_string(c.env.rows) + " workers " +
         std::to_string(c.workers.count) + " groups " + std::to_string(c.workers.groups) + " super_batch " +
         std::to_string(c.trainer.super_batch) + " capacity " + std::to_string(c.replay.capacity) + " lag " +
         std::to_string(c.replay.max_policy_lag) + " reuse " + std::to_string(c.replay.max_reuse);
}

// A model of a run: workers, two inference actors, a prefetcher with one staged batch, and a trainer. A random schedule
// decides which of them makes the next step.
class Run {
 public:
  Run(const RunConfig& config, uint64_t seed, double failing_rows)
      : config_(config), draw_(seed), failing_rows_(failing_rows), store_(replay_rules(config), {}, seed) {
    for (int64_t w = 0; w < config.workers.count; ++w) join();
    for (uint64_t r = 0; r < 2; ++r) {
      applied_.push_back(0);
      store_.applied(r, {});
    }
    settle();
  }

  ReplayStore& store() { return store_; }
  uint64_t updates() const { return updates_; }
  uint64_t largest_waiting() const { return largest_waiting_; }
  // Weights of the schedule: the relative frequency of steps of workers and of the trainer.
  void favour(int64_t workers, int64_t trainer) { worker_share_ = workers, trainer_share_ = trainer; }
  void mix_up_workers() { workers_come_and_go_ = true; }
  void fail_updates(double share) { failing_updates_ = share; }

  // Makes one step of a random participant. False if none can make a step.
  bool step() {
    std::vector<std::function<void()>> choices;
    const auto add = [&](int64_t share, const std::function<void()>& action) {
      for (int64_t i = 0; i < share; ++i) choices.push_back(action);
    };
    for (auto& [id, worker] : workers_) {
      if (worker.credits > 0 && static_cast<int64_t>(worker.running.size()) < config_.workers.groups)
        add(worker_share_, [this, id = id] { begin_rollout(id); });
      if (!worker.running.empty()) add(worker_share_, [this, id = id] { end_rollout(id); });
    }
    for (size_t r = 0; r < applied_.size(); ++r)
      if (applied_[r] < updates_) add(trainer_share_, [this, r] { store_.applied(r, {0, ++applied_[r]}); });
    if (training_) add(trainer_share_, [this] { end_update(); });
    if (choices.empty()) return false;
    if (workers_come_and_go_ && draw_.chance(0.01))
      replace_a_worker();
    else
      choices[static_cast<size_t>(draw_.between(0, static_cast<int64_t>(choices.size()) - 1))]();
    settle();
    return true;
  }

 private:
  struct Worker {
    uint32_t credits = 0;
    std::vector<uint64_t> running;  // the versions with which the unfinished rollouts began
    uint64_t sequence = 0;
  };

  void join() {
    const uint64_t id = next_worker_++;
    workers_[id] = {};
    store_.join(id, static_cast<uint32_t>(config_.workers.groups),
                static_cast<uint64_t>(config_.rollout.length * config_.env.rows));
  }
  void replace_a_worker() {
    const uint64_t gone = workers_.begin()->first;
    workers_.erase(gone);
    store_.leave(gone);
    join();
  }
  void begin_rollout(uint64_t id) {
    Worker& worker = workers_.at(id);
    --worker.credits;
    worker.running.push_back(*std::ranges::min_element(applied_));
  }
  void end_rollout(uint64_t id) {
    Worker& worker = workers_.at(id);
    test::RolloutRecipe recipe{.worker = id,
                               .sequence = worker.sequence++,
                               .steps = config_.rollout.length,
                               .columns = config_.env.rows,
                               .version = {0, worker.running.front()}};
    worker.running.erase(worker.running.begin());
    for (int64_t t = 0; t < recipe.steps; ++t)
      for (int64_t n = 0; n < recipe.columns; ++n)
        if (draw_.chance(failing_rows_)) recipe.invalid.emplace_back(t, n);
    store_.push(make_rollout(recipe));
  }
  void end_update() {
    if (draw_.chance(failing_updates_)) {
      store_.failed(training_->index);
    } else {
      store_.trained(training_->index);
      applied_samples_ += training_->samples;
    }
    ++updates_;
    training_ = std::exchange(staged_, std::nullopt);
  }
  // What the actors do immediately after every message.
  void settle() {
    if (!staged_) staged_ = store_.sample();
    if (staged_) check(*staged_);
    if (!training_) training_ = std::exchange(staged_, std::nullopt);
    for (const CreditGrant& grant : store_.grant()) workers_.at(grant.worker).credits += grant.count;
    const Ledger ledger = store_.ledger();
    REQUIRE(ledger.balances());
    REQUIRE(ledger.waiting == store_.count_waiting());
    largest_waiting_ = std::max(largest_waiting_, ledger.waiting);
    if (ledger.trained == 0) {
      REQUIRE(std::isnan(store_.mean_reuse()));
    } else {
      const auto reuse = static_cast<double>(applied_samples_) / static_cast<double>(ledger.trained);
      REQUIRE(store_.mean_reuse() == doctest::Approx(reuse));
    }
  }
  void check(const SuperBatch& batch) {
    REQUIRE(batch.samples >= static_cast<uint64_t>(config_.trainer.super_batch));
    if (config_.replay.draw == "sample") REQUIRE(batch.samples == static_cast<uint64_t>(config_.trainer.super_batch));
    if (batch.index == last_checked_) return;
    last_checked_ = batch.index;
    for (const RolloutUnits& part : batch.parts) {
      REQUIRE(batch.index - part.rollout->oldest <= static_cast<uint64_t>(config_.replay.max_policy_lag));
      for (const int64_t step : steps_of(part)) {
        if (part.rollout->grid().valid.view<uint8_t>()[static_cast<size_t>(step)] == 0) {
          REQUIRE(config_.replay.draw == "column");  // only columns may contain masked steps
          continue;
        }
        REQUIRE(++uses_[{part.rollout->worker, part.rollout->sequence, step}] <=
                (config_.replay.mode == "reuse" ? config_.replay.max_reuse : 1));
      }
    }
  }

  RunConfig config_;
  Draw draw_;
  double failing_rows_;
  ReplayStore store_;
  std::map<uint64_t, Worker> workers_;
  std::vector<uint64_t> applied_;
  std::optional<SuperBatch> staged_, training_;
  std::map<std::tuple<uint64_t, uint64_t, int64_t>, int64_t> uses_;  // by worker, sequence and step
  uint64_t next_worker_ = 1, updates_ = 0, largest_waiting_ = 0, applied_samples_ = 0;
  uint64_t last_checked_ = std::numeric_limits<uint64_t>::max();
  int64_t worker_share_ = 1, trainer_share_ = 1;
  bool workers_come_and_go_ = false;
  double failing_updates_ = 0;
};

}  // namespace

TEST_CASE("replay_admission: no configuration stalls or trains on the same samples forever") {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Draw draw(seed);
    const RunConfig config = draw_config(draw);
    CAPTURE(seed);
    CAPTURE(text_of(config));
    Run run(config, seed, draw.chance(0.5) ? 0.1 : 0.0);
    run.favour(draw.between(1, 4), draw.between(1, 4));
    if (draw.chance(0.3)) run.mix_up_workers();
    if (draw.chance(0.3)) run.fail_updates(0.05);
    const auto rollout = static_cast<uint64_t>(config.rollout.length * config.env.rows);
    const auto batch = static_cast<uint64_t>(config.trainer.super_batch);
    // A full buffer waits for at most 64 * rollout / batch updates before it admits one more rollout; this many
    // times 16.
    const uint64_t updates = 16 * (64 * rollout / batch + 1);
    uint64_t steps = 0;
    while (run.updates() < updates) {
      REQUIRE(run.step());
      REQUIRE(++steps < 4000 * updates);
    }
    CHECK(run.store().env_steps() >= 4 * rollout + batch);
    const uint64_t most = run.store().capacity() + 3 * (batch + static_cast<uint64_t>(config.rollout.length)) + rollout;
    CHECK(run.largest_waiting() <= most);
  }
}

TEST_CASE("replay_admission: where updates wait for late samples, none is dropped as stale") {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Draw draw(seed);
    RunConfig config = draw_config(draw);
    // A rollout that is larger than all updates that may use it is dropped in part.
    if (config.replay.mode != "consume_once" ||
        config.rollout.length * config.env.rows > config.replay.max_policy_lag * config.trainer.super_batch)
      continue;
    config.replay.late = "wait";
    CAPTURE(seed);
    CAPTURE(text_of(config));
    Run run(config, seed, 0.0);
    run.favour(draw.between(1, 4), draw.between(1, 4));
    while (run.updates() < 64) REQUIRE(run.step());
    CHECK(run.store().ledger().dropped_stale == 0);
  }
}

TEST_CASE("replay_admission: a full buffer admits new samples as fast as updates use up the old ones") {
  for (const int64_t max_reuse : {1, 2, 4, 8, 16}) {
    for (const int64_t capacity : {64, 100, 256, 1024}) {
      for (const int64_t trainer_share : {1, 8}) {
        RunConfig config;
        config.rollout.length = 4;
        config.env.rows = 4;
        config.workers.count = 3;
        config.trainer.super_batch = 64;
        config.trainer.minibatches = 1;
        config.replay = {.mode = "reuse", .capacity = capacity, .max_policy_lag = 1'000'000, .max_reuse = max_reuse};
        validate(config);
        CAPTURE(max_reuse);
        CAPTURE(capacity);
        CAPTURE(trainer_share);
        Run run(config, 7, 0.0);
        run.favour(4, trainer_share);
        while (run.updates() < 1500) REQUIRE(run.step());
        CHECK(run.store().mean_reuse() <= static_cast<double>(max_reuse));
        CHECK(run.store().mean_reuse() >= 0.7 * static_cast<double>(max_reuse));
      }
    }
  }
}

TEST_CASE("replay_admission: a small buffer is renewed even if max_reuse and the lag cap are never reached") {
  RunConfig config;
  config.rollout.length = 4;
  config.env.rows = 4;
  config.trainer.super_batch = 64;
  config.trainer.minibatches = 1;
  config.replay = {.mode = "reuse", .capacity = 64, .max_policy_lag = 1'000'000, .max_reuse = 1'000'000};
  validate(config);
  Run run(config, 1, 0.0);
  while (run.updates() < 640) REQUIRE(run.step());
  CHECK(run.store().env_steps() >= 64 + 9 * 64);  // at least 64 new samples per 64 updates
  CHECK(run.store().ledger().dropped_full == 0);  // every evicted sample had been trained on
}

TEST_CASE("replay_admission: with a lag cap that is never reached, waiting samples grow slowly to at most 16 batches") {
  for (const char* mode : {"consume_once", "reuse"}) {
    CAPTURE(mode);
    ReplayConfig config;
    config.mode = mode;
    config.max_policy_lag = 1'000'000;
    ReplayStore store(rules_of(config, 16), {}, 1);
    store.join(1, 64, 8);
    store.applied(0, {});
    uint64_t sequence = 0;
    // A worker that makes every admitted rollout immediately.
    const auto make_all = [&] {
      for (auto grants = store.grant(); !grants.empty(); grants = store.grant())
        for (uint32_t i = 0; i < grants[0].count; ++i)
          store.push(make_rollout({.sequence = sequence++, .version = {0, *store.applied_number()}}));
    };
    for (uint64_t update = 0; update < 200; ++update) {
      make_all();
      CHECK(store.count_waiting() <= std::min<uint64_t>(2 + update / 4, 16) * 16);
      REQUIRE(store.sample());
      store.trained(update);
      store.applied(0, {0, update + 1});
    }
  }
}

TEST_CASE("replay_admission: near stop.env_steps only rollouts that the last super-batch needs are admitted") {
  for (const char* mode : {"consume_once", "reuse"}) {
    CAPTURE(mode);
    ReplayConfig config;
    config.mode = mode;
    config.max_policy_lag = 8;
    ReplayStore store(rules_of(config, 16), {}, 1);
    store.stop_at(100, 2);  // samples of one or two steps
    store.join(1, 64, 8);
    store.applied(0, {});
    uint64_t sequence = 0, updates = 0;
    while (store.env_steps() < 100) {
      for (const CreditGrant& grant : store.grant())
        for (uint32_t i = 0; i < grant.count; ++i) {
          auto rollout = std::make_shared<Rollout>(
              *make_rollout({.sequence = sequence++, .version = {0, *store.applied_number()}}));
          rollout->env_steps = rollout->samples + rollout->sequence % 9;
          store.push(rollout);
        }
      if (store.env_steps() >= 100) break;
      REQUIRE(store.sample());
      store.trained(updates);
      store.applied(0, {0, ++updates});
    }
    CHECK(store.env_steps() < 100 + 16);
    CHECK(store.sample());  // so that the trainer gets a batch after the limit is reached
    CHECK(store.grant().empty());
  }
}
