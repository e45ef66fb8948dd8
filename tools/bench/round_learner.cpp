#include "tools/bench/round_learner.h"

#include <algorithm>
#include <chrono>
#include <utility>

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

void RoundLearner::begin(std::span<StagedBatch* const>, double) {
  round_ = held_.count == options_.shards ? options_.rounds : 0;
  said_ = false;
}

// The gradients are one piece.
Advance RoundLearner::advance() {
  if (round_ == options_.rounds) return Advance::done;
  if (std::exchange(said_, true)) return Advance::waits;
  RankPart part{held_, {}, {}};
  for (const ShardRange& branch : branches_of(held_, options_.shards)) part.branches.push_back({branch, gradients_});
  say_({round_, 0}, std::move(part));
  return Advance::waits;
}

void RoundLearner::deliver(const RoundPiece& piece, RoundResult all) {
  TROUPE_CHECK(piece.round == round_ && all.gradients.size() == options_.floats, piece.round, round_,
               all.gradients.size());
  const auto sum = all.gradients.view<float>();
  TROUPE_CHECK(sum.front() == static_cast<float>(options_.shards), sum.front());
  const double at = steady_seconds();
  if (seconds_ != nullptr && round_ > 0) seconds_->push_back(at - delivered_);
  delivered_ = at;
  ++round_;
  said_ = false;
}

double RoundLearner::imitate(StagedBatch&, double) { throw InvariantError("nothing to imitate"); }

}  // namespace troupe
