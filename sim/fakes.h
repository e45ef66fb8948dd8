#pragma once
// The environments and policies of one simulated run: cheap stand-ins with fully predictable results. Every
// observation has a unique number, and a policy's answers are a known function of its version and that number, so that
// rows, versions or weights in the wrong place are detected. One thread.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "actors/config/run_config.h"
#include "envs/env.h"
#include "models/policy.h"
#include "runtime/base/errors.h"
#include "runtime/base/rng.h"
#include "sim/fake_scores.h"
#include "sim/fake_tokens.h"
#include "sim/fake_weights.h"
#include "sim/scenario.h"

namespace troupe::sim {

// What happened after one observation that an action was computed for.
struct Transition {
  int64_t next = 0;       // the observation that the next action is computed for
  int64_t real_next = 0;  // the observation the step led to: `next`, or the final one of a finished episode
  float reward = 0;
  int32_t action = 0;
  bool stepped = false;
  bool failed = false;
  bool terminated = false;
  bool truncated = false;
  bool arrived = false;      // in a rollout that replay received
  bool trained = false;      // in an update that succeeded
  int64_t before = 0;        // the previous observation of the same episode; 0 = this is the first one
  int64_t depth = 0;         // number of earlier observations of the episode
  uint32_t uses = 0;         // number of updates that used it
  uint64_t server = 0;       // id of the inference actor that computed its action last
  bool asked_again = false;  // others have computed it as well
};

// The value that a policy of this version gives an observation.
float value_of(PolicyVersion version, int64_t observation);
float log_prob_of(PolicyVersion version, int64_t observation);
int32_t action_of(PolicyVersion version, int64_t observation);
// One of the kActions parameters of its action distribution.
float parameter_of(PolicyVersion version, int64_t observation, size_t index);
constexpr int32_t kActions = 8;

EnvSpec fake_spec();

// What a rank has done in an attempt at an update.
struct RankWork {
  std::map<size_t, SuperBatch> begun;  // by shard
  bool finished = false;
};

class World {
 public:
  explicit World(const Scenario& scenario)
      : scenario(scenario), rng(derive_key(scenario.seed, "world")), transitions(1) {}

  // Records a violated invariant; only the first is kept.
  void violate(const std::string& what) {
    if (!violation) violation = what;
  }
  // True with this probability, once faults are on.
  bool fault(double probability) { return faults_on && rng.uniform_double() < probability; }
  // A forward pass takes long or fails, as the scenario has it.
  void trouble_forward();
  int64_t new_observation();
  Transition* find(int64_t observation);
  // For a recurrent model: `state` must be the state that belongs before this observation, two numbers, unless the
  // observation begins an episode.
  void check_state(int64_t observation, std::span<const float> state, const std::string& who);
  // A rollout arrives at replay: checks every number against what really happened.
  void check_rollout(const Rollout& rollout, const std::map<uint64_t, bool>& published);
  // Whether each shard of the update that begins with this version has been computed to its end.
  bool is_computed(PolicyVersion version) const;
  // Whether the action for the second of these observations may be that of older weights than the one for the first.
  bool may_be_behind(int64_t before, int64_t observation);
  // An update is about to use this batch.
  void check_use(const SuperBatch& batch);

  Scenario scenario;
  Rng rng;
  bool faults_on = true;
  std::optional<std::string> violation;
  TokenWorld tokens;                    // of a token run
  ScoreWorld scores;                    // the same
  std::vector<Transition> transitions;  // by observation number
  std::vector<uint64_t> reset_seeds;    // of every Env::reset()
  uint64_t produced = 0;                // valid steps of all workers' environments, or answers that workers have pushed
  std::map<int64_t, int64_t> expected_next;              // (environment, row) -> first observation of its next rollout
  std::map<int64_t, std::pair<int64_t, int64_t>> place;  // first observation of an environment -> (environment, row)
  uint32_t environments = 0;
  uint32_t epoch = 0;  // of the current learner
  std::optional<PolicyVersion> last_evaluated;
  std::map<uint64_t, uint64_t> update_samples_trained;  // by update of this process: samples trained for the first time
  // Of updates under way, by the version that they begin with: what each rank has done, by its learner.
  std::map<PolicyVersion, std::map<const void*, RankWork>> work;
  std::vector<uint64_t> lost_ranks;       // in this process: for each, the number of updates when a fault ended it
  uint64_t steps_of_warmup = 0;           // made by all processes
  std::map<PolicyVersion, bool> skipped;  // updates that are not finite, however often they are tried
  double seconds_to_pass = 0;             // slow forwards: time that passes before the next message
  std::string running_kind;               // kind of the actor that is running
  uint64_t running = 0;                   // its id
  uint64_t transfers = 0, damaged_transfers = 0, broken_transfers = 0;  // of weights to other processes
};

class FakeEnv final : public Env {
 public:
  FakeEnv(World& world, int64_t rows);
  const EnvSpec& spec() const override { return spec_; }
  int64_t rows() const override { return static_cast<int64_t>(current_.size()); }
  void reset(uint64_t seed, uint64_t first_row, EnvStep& out) override;
  void step(const Array& actions, EnvStep& out) override;
  void observe(EnvStep& out) override;
  void set_active(int64_t row, bool active) override;
  std::string render(int64_t) const override { return {}; }
  bool save(std::string&) const override { return false; }
  bool load(const std::string&) override { return false; }

 private:
  void write(Arrays& arrays, int64_t row, int64_t observation) const;
  void step_row(size_t row, int32_t action, EnvStep& out);

  World& world_;
  EnvSpec spec_;
  bool counts_;  // belongs to a worker, not to the evaluator
  std::vector<int64_t> current_;
  std::vector<bool> active_, broken_;
  std::vector<int64_t> failures_;  // consecutive failures
};

std::unique_ptr<Policy> fake_policy(World& world);

// A learner whose update is one piece. Its functions must be called in their order.
class WholeUpdateLearner : public Learner {
 public:
  void begin(std::span<StagedBatch* const> shards, double progress) final {
    TROUPE_CHECK(shards_.empty() && !report_ && !shards.empty(), progress, shards.size());
    shards_.assign(shards.begin(), shards.end());
    progress_ = progress;
  }
  Advance advance() final {
    if (!shards_.empty()) report_ = update_with(std::exchange(shards_, {}), progress_);
    return Advance::done;
  }
  UpdateReport finish() final {
    TROUPE_CHECK(report_.has_value(), progress_);
    return *std::exchange(report_, std::nullopt);
  }
  void hold_shards(ShardRange shards) final { TROUPE_CHECK(shards.first == 0, shards.first); }

 protected:
  virtual UpdateReport update_with(const std::vector<StagedBatch*>& shards, double progress) = 0;

 private:
  std::vector<StagedBatch*> shards_;
  double progress_ = 0;
  std::optional<UpdateReport> report_;
};

}  // namespace troupe::sim
