#pragma once
// The two interfaces between actors and learning code. They use arrays, never tensors, so that there can be
// implementations without LibTorch. Objects are used by one thread at a time, unless a function says otherwise.

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "models/experience/rollout.h"
#include "models/shards/adam_moments.h"
#include "models/shards/rank_round.h"
#include "runtime/base/array.h"
#include "runtime/stats/stage_seconds.h"
#include "runtime/weights/weights.h"

namespace troupe {

struct ActInput {
  Arrays observations;  // each [B, ...]
  Array action_mask;    // [B, M] uint8, or empty
  Array seeds;  // [B] int64: row i draws its action from the random stream of this key alone, whatever the batch
  Array deterministic;  // [B] uint8: 1 = the most likely action
  // With a recurrent model: the state that the row's last reply gave, and where an episode begins with this
  // observation, before which the state counts as zero. Empty otherwise. For a row's first observation the state is all
  // zeros.
  Array state;                   // [B, S] float32
  Array starts;                  // [B] uint8
  bool with_parameters = false;  // also return the parameters of the distributions of the actions
};

struct ActOutput {
  Array actions;            // [B, K, A] int32 or float32 (continuous: not clipped to the bounds)
  Array log_probs;          // [B, D] float32 per decision; of the action taken, also when deterministic
  Array values;             // [B] float32, in reward units
  Array state;              // [B, S] float32 after this observation; empty without recurrent state
  Array policy_parameters;  // [B, P] float32: logits, or means and log standard deviations; empty unless asked for
};

// A policy replica: it acts, computes values and takes new weights.
class Policy {
 public:
  virtual ~Policy() = default;

  virtual std::shared_ptr<const Signature> signature() const = 0;
  // Swaps in all tensors of the snapshot, or throws and keeps the old ones.
  virtual void load(const WeightSnapshot& weights) = 0;
  // Throws on non-finite outputs, naming the first row that has any by its index in the batch.
  virtual ActOutput act(const ActInput& input) = 0;
  // [B] float32 values in reward units. `state` [B, S] is the one before the observations, none of which begins an
  // episode; empty without recurrent state.
  virtual Array values(const Arrays& observations, const Array& state) = 0;
  Array values(const Arrays& observations) { return values(observations, {}); }
};

// A super-batch as the learner's update needs it: encoded, and on the device of the update. With a learner on a GPU,
// observations and actions are on the GPU; only numbers from which those of other samples are computed (rewards,
// values) are in host memory.
class StagedBatch {
 public:
  virtual ~StagedBatch() = default;
  uint64_t index = 0;
  uint64_t samples = 0;
  UpdateStages stages;  // those before the update
};

struct UpdateReport {
  // Every optimizer step was skipped. Without any step, applied or skipped, there was nothing to train on.
  bool failed() const { return steps == 0 && skipped > 0; }
  bool empty() const { return steps == 0 && skipped == 0; }

  uint64_t steps = 0;                     // optimizer steps applied
  uint64_t skipped = 0;                   // optimizer steps skipped because a loss or a gradient was not finite
  uint64_t epochs = 0;                    // passes over the super-batch, fewer when the target KL stopped them
  std::map<std::string, double> metrics;  // names as in docs/metrics.md
  UpdateStages stages = {};
};

// Everything that a learner needs to continue as if it had never stopped.
struct LearnerState {
  std::map<std::string, Array> model;      // by the names of saved_signature()
  std::map<std::string, Array> optimizer;  // moments and step counts
  std::map<std::string, double> scalars;   // counters of schedules
};

// Prepares super-batches for a learner's updates. It shares nothing that changes with the learner, so that another
// thread may use it during an update.
class Stager {
 public:
  virtual ~Stager() = default;
  // Encodes and collates a super-batch, and starts to copy it to the learner's device.
  virtual std::unique_ptr<StagedBatch> stage(const SuperBatch& batch) const = 0;
};

// What an update has after a piece of it: more pieces, what the other ranks say is needed first, or no more pieces.
enum class Advance : uint8_t { more = 0, waits = 1, done = 2 };

// A trainable policy with its optimizer.
class Learner {
 public:
  virtual ~Learner() = default;

  // Of all its tensors, which save() saves, and of those that a snapshot has.
  virtual std::shared_ptr<const Signature> saved_signature() const = 0;
  virtual std::shared_ptr<const Signature> published_signature() const = 0;
  // The published parameters and normaliser state as they are now, stamped with `version`.
  virtual WeightsPtr snapshot(PolicyVersion version) const = 0;
  // The weights of the frozen policy that it is kept close to; null if there is none.
  virtual WeightsPtr reference(PolicyVersion /*version*/) const { return nullptr; }
  // Of the batches that update() takes. It may outlive the learner.
  virtual std::shared_ptr<const Stager> stager() const = 0;
  // One update: normaliser statistics, advantages, all epochs and minibatches. It is computed in pieces, so that a
  // caller can do something else between them: begin(), advance() until it is done, and finish(). Until then nothing
  // else of the learner may be called but its signatures and stager(); after an exception of any of them, nothing at
  // all. `shards` has the staged batch of each shard of the super-batch (trainer.shards) that is computed here, in
  // order; they must live until finish(). `progress` in [0, 1] drives the schedules.
  virtual void begin(std::span<StagedBatch* const> shards, double progress) = 0;
  // Of a learner with one shard.
  void begin(StagedBatch& batch, double progress) { begin(std::array{&batch}, progress); }
  virtual Advance advance() = 0;
  virtual UpdateReport finish() = 0;
  // Ends the update under way without a result. load() must follow.
  virtual void abandon() { throw InvariantError("this learner has one rank"); }
  // Of a learner that computes some shards of each update, those of its rank; at first all. Not during an update.
  virtual void hold_shards(ShardRange /*shards*/) { throw InvariantError("this learner has one rank"); }
  // Where ranks train a slice of the parameters each (ParameterSlices): which one, from the next update on; at first
  // all are its own. Not during an update; after hold_shards().
  virtual void hold_slice(size_t /*rank*/, size_t ranks) { TROUPE_CHECK(ranks == 1, ranks); }
  // What it keeps of its slice, in memory of its own or until the next update.
  virtual AdamMoments moments() const { throw InvariantError("this learner has one rank"); }
  // As save(), with the moments of all slices; and without any.
  virtual LearnerState save(std::span<const AdamMoments> /*slices*/) const {
    throw InvariantError("this learner has one rank");
  }
  virtual LearnerState save_without_moments() const { throw InvariantError("this learner has one rank"); }
  // What these two have returned. Throws as load(), and InvariantError when the moments are not those of its slice.
  virtual void load(const LearnerState& /*without_moments*/, const AdamMoments& /*slice*/) {
    throw InvariantError("this learner has one rank");
  }
  // How many parameters are trained, padding included.
  virtual size_t trained_elements() const { throw InvariantError("this learner has one rank"); }
  // Where begin() and advance() take what this rank says, piece after piece; set before the first update with some
  // shards. What all have said comes back by deliver(), in any order, but never before begin() or advance() has
  // returned. advance() says that it waits until all pieces of the round have come.
  using SayPiece = std::function<void(const RoundPiece&, RankPart)>;
  // NOLINTNEXTLINE(performance-unnecessary-value-param): others keep it
  virtual void say_to(SayPiece /*say*/) { throw InvariantError("this learner has one rank"); }
  // NOLINTNEXTLINE(performance-unnecessary-value-param): others keep it
  virtual void deliver(const RoundPiece& /*piece*/, RoundResult /*all*/) {
    throw InvariantError("this learner has one rank");
  }
  // The whole update, of a learner that computes all shards.
  UpdateReport update(std::span<StagedBatch* const> shards, double progress) {
    begin(shards, progress);
    while (advance() == Advance::more) {
    }
    return finish();
  }
  UpdateReport update(StagedBatch& batch, double progress) { return update(std::array{&batch}, progress); }
  // A warm-up step, before the first update: one optimizer step on demonstrations, which lowers their negative
  // log-likelihood with this learning rate. It is no update: schedules do not move. Returns the mean over tokens before
  // the step. Throws NotFinite when it or its gradient is not finite, and then changes nothing; InvariantError when the
  // model cannot learn from demonstrations.
  virtual double imitate(StagedBatch& demonstrations, double learning_rate) = 0;
  // The warm-up is over: moments and step counts of the optimizer become zero.
  virtual void end_warmup() {}
  // Not of one that has a slice.
  virtual LearnerState save() const = 0;
  // Before the first update: replaces its parameters and normaliser statistics by these, by the names of what it saves.
  // A critic of a language model that is not among them begins as that of a new run. Throws ConfigError naming the
  // first tensor that does not fit, and then changes nothing.
  virtual void begin_from(const std::map<std::string, Array>& model) = 0;
  // Throws ConfigError naming the first tensor that does not fit, and then changes nothing.
  virtual void load(const LearnerState& state) = 0;
};

}  // namespace troupe
