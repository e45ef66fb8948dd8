#pragma once
// RoundLearner: a learner without computation, whose updates are rounds in which its ranks exchange gradients. For the
// benchmark of the exchange. One thread.

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "models/policy.h"

namespace troupe {

struct RoundOptions {
  size_t shards = 2;
  int64_t floats = 0;   // of the gradients
  uint64_t rounds = 0;  // of an update
};

class RoundLearner final : public Learner {
 public:
  // `seconds`, if not null, gets the time of each round of an update but the first: from the result of the round before
  // to its own. It is written during updates alone, and must outlive the learner.
  RoundLearner(const RoundOptions& options, std::vector<double>* seconds);

  std::shared_ptr<const Signature> saved_signature() const override { return signature_; }
  std::shared_ptr<const Signature> published_signature() const override { return signature_; }
  WeightsPtr snapshot(PolicyVersion version) const override;
  std::shared_ptr<const Stager> stager() const override;
  void begin(std::span<StagedBatch* const> shards, double progress) override;
  Advance advance() override;
  UpdateReport finish() override { return {.steps = options_.rounds}; }
  void abandon() override { round_ = options_.rounds; }
  void hold_shards(ShardRange shards) override { held_ = shards; }
  void say_to(SayPiece say) override { say_ = std::move(say); }
  void deliver(const RoundPiece& piece, RoundResult all) override;
  double imitate(StagedBatch& demonstrations, double learning_rate) override;
  LearnerState save() const override { return {}; }
  LearnerState save_without_moments() const override { return {}; }
  size_t trained_elements() const override { return 1; }
  AdamMoments moments() const override { return {{0, 1}, Array::of<float>({1}, {0}), Array::of<float>({1}, {0})}; }
  void begin_from(const std::map<std::string, Array>&) override {}
  void load(const LearnerState&) override {}
  void load(const LearnerState&, const AdamMoments&) override {}

 private:
  RoundOptions options_;
  std::vector<double>* seconds_;
  std::shared_ptr<const Signature> signature_;
  Array gradients_;  // [floats] float32 of each shard
  ShardRange held_;
  SayPiece say_;
  uint64_t round_ = 0;    // of the update under way
  bool said_ = false;     // in that round
  double delivered_ = 0;  // when the round before was; seconds of the steady clock
};

}  // namespace troupe
