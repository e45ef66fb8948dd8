#pragma once
// The learner of a simulated run, of one of its ranks. An update of several ranks has one round or two of one piece or
// two, and two more where each rank has a slice of the parameters. It checks what it is told. What an update does to
// the World happens when rank 0 completes it, and once. One thread.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/policy.h"
#include "sim/fake_slices.h"
#include "sim/fakes.h"

namespace troupe::sim {

class FakeLearner final : public Learner {
 public:
  // `leads`: of rank 0.
  FakeLearner(World& world, uint32_t epoch, bool leads = true);
  std::shared_ptr<const Signature> saved_signature() const override { return signature_; }
  std::shared_ptr<const Signature> published_signature() const override { return signature_; }
  WeightsPtr snapshot(PolicyVersion version) const override;
  WeightsPtr reference(PolicyVersion version) const override;
  std::shared_ptr<const Stager> stager() const override;
  void begin(std::span<StagedBatch* const> shards, double progress) override;
  Advance advance() override;
  UpdateReport finish() override;
  void abandon() override;
  void hold_shards(ShardRange shards) override { held_ = shards; }
  void hold_slice(size_t rank, size_t ranks) override { slices_.hold(rank, ranks); }
  void say_to(SayPiece say) override { say_ = std::move(say); }
  void deliver(const RoundPiece& piece, RoundResult all) override;
  double imitate(StagedBatch& demonstrations, double learning_rate) override;
  void end_warmup() override;
  LearnerState save() const override;
  LearnerState save(std::span<const AdamMoments> slices) const override;
  LearnerState save_without_moments() const override;
  size_t trained_elements() const override { return slices_.elements(); }
  AdamMoments moments() const override { return slices_.moments(); }
  void begin_from(const std::map<std::string, Array>& model) override;
  void load(const LearnerState& state) override;
  void load(const LearnerState& without_moments, const AdamMoments& slice) override;
  uint64_t updates() const { return updates_; }
  // Makes it as it is after so many updates.
  void become(uint64_t updates);

 private:
  size_t shards() const { return static_cast<size_t>(world_.scenario.config.trainer.shards); }
  bool has_gradients() const { return round_ + 1 == rounds_; }
  // The rounds of slices come after the others.
  bool of_slices() const { return round_ >= rounds_; }
  ShardNumbers numbers_of(size_t shard) const;
  PolicyVersion version() const { return {epoch_, updates_}; }
  // All ranks have had the samples of their shards. Returns how many were trained for the first time.
  uint64_t use_batches();
  // What this rank has done in attempts that did not end is of no use; rank 0 begins again with all of them.
  void forget_work();
  void reset() { batches_ = rounds_ = round_ = open_ = 0; }
  // The sum of those of these shards, of all parameters. The numbers are small, so it is exact.
  Array gradients_of(ShardRange shards) const;
  void say_round();
  void say_slices();
  void check_round(const RoundPiece& piece, RoundResult all, const std::string& what);
  void check_gradients(const Array& all, const std::string& what);
  // The step of the optimizer, once in each update.
  void step();

  World& world_;
  uint32_t epoch_;
  bool leads_;
  std::shared_ptr<const Signature> signature_;
  uint64_t updates_ = 0;
  uint64_t imitated_ = 0;   // warm-up steps
  bool warmed_up_ = false;  // the warm-up has ended
  int64_t origin_ = 0;      // the weights that it started from, see Scenario::given_weights
  ShardRange held_;
  SayPiece say_;
  std::optional<ShardRange> abandoned_;  // the shards of the attempt before, until the next one begins
  bool changed_ = false;                 // an optimizer step may have been made since the last update has ended
  FakeSlices slices_;
  // Of the update under way:
  size_t batches_ = 0;
  uint64_t round_ = 0, rounds_ = 0;
  uint64_t open_ = 0;  // pieces of the round that have not come; gradients are piece 0, numbers that after them
  bool stepped_ = false;
  bool skipped_ = false;  // rank 0 decides that, and says it in the first round
};

}  // namespace troupe::sim
