#include "tools/bench/round_learner.h"

#include <algorithm>
#include <chrono>

#include "runtime/base/errors.h"
#include "tools/bench/timing.h"

namespace troupe {

namespace {

class EmptyStager final : public Stager {
 public:
  std::unique_ptr<StagedBatch> stage(const SuperBatch& batch) const override {
    auto staged = std::make_unique<StagedBatch>();
    staged->index = batch.index;
    return staged;
  }
};

double steady_seconds() { return std::chrono::duration<double>(BenchClock::now().time_since_epoch()).count(); }

}  // namespace

RoundLearner::RoundLearner(const RoundOptions& options, std::vector<double>* seconds)
    : options_(options),
      seconds_(seconds),
      signature_(std::make_shared<const Signature>(Signature{{{TensorGroup::policy, "w", {1}, DType::f32}}})),
      gradients_(DType::f32, {options.floats}),
      held_{0, options.shards} {
  std::ranges::fill(gradients_.mutable_view<float>(), 1.0f);
}

WeightsPtr RoundLearner::snapshot(PolicyVersion version) const {
  return std::make_shared<const WeightSnapshot>(
      WeightSnapshot{version, signature_, Array(DType::u8, {static_cast<int64_t>(signature_->total_bytes())})});
}

std::shared_ptr<const Stager> RoundLearner::stager() const { return std::make_shared<const EmptyStager>(); }

void RoundLearner::begin(std::span<StagedBatch* const>, double) { round_ = 0; }

RankPart RoundLearner::say() {
  RankPart part{held_, {}, {}};
  for (const ShardRange& branch : branches_of(held_, options_.shards)) part.branches.push_back({branch, gradients_});
  return part;
}

void RoundLearner::deliver(RoundResult all) {
  TROUPE_CHECK(all.gradients.size() == options_.floats, all.gradients.size(), options_.floats);
  const auto sum = all.gradients.view<float>();
  TROUPE_CHECK(sum.front() == static_cast<float>(options_.shards), sum.front());
  const double at = steady_seconds();
  if (seconds_ != nullptr && round_ > 0) seconds_->push_back(at - delivered_);
  delivered_ = at;
  ++round_;
}

double RoundLearner::imitate(StagedBatch&, double) { throw InvariantError("nothing to imitate"); }

}  // namespace troupe
