#include "sim/fake_learner.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "sim/kinds.h"

namespace troupe::sim {

namespace {

struct FakeStaged final : StagedBatch {
  SuperBatch batch;
};

class FakeStager final : public Stager {
 public:
  explicit FakeStager(World& world) : world_(world) {}
  std::unique_ptr<StagedBatch> stage(const SuperBatch& batch) const override {
    if (world_.fault(world_.scenario.learner_throws / 2)) throw std::runtime_error("staging failed on purpose");
    auto staged = std::make_unique<FakeStaged>();
    staged->index = batch.index;
    staged->samples = batch.samples;
    staged->batch = batch;
    return staged;
  }

 private:
  World& world_;
};

}  // namespace

FakeLearner::FakeLearner(World& world, uint32_t epoch, bool leads)
    : world_(world), epoch_(epoch), leads_(leads), signature_(fake_signature()), held_{0, shards()} {}

WeightsPtr FakeLearner::snapshot(PolicyVersion version) const {
  if (!leads_) return fake_weights({epoch_, updates_}, {epoch_, updates_}, origin_);  // only compared, not published
  if (version.number != updates_)
    world_.violate("weights after " + std::to_string(updates_) + " updates have version " + version.text());
  return fake_weights(version, version, origin_);
}

WeightsPtr FakeLearner::reference(PolicyVersion version) const {
  return world_.scenario.config.reference.used() ? reference_weights(version, origin_) : nullptr;
}

std::shared_ptr<const Stager> FakeLearner::stager() const { return std::make_shared<const FakeStager>(world_); }

void FakeLearner::begin(std::span<StagedBatch* const> shards, double) {
  if (world_.fault(world_.scenario.learner_throws)) throw std::runtime_error("an update failed on purpose");
  if (world_.scenario.config.warmup.steps > 0 && !warmed_up_) world_.violate("an update before the end of the warm-up");
  if (batches_ > 0) world_.violate("an update begins during another one");
  const std::string what = "update " + std::to_string(updates_);
  if (changed_ || (abandoned_ && !shards.empty() && shards.front()->index < updates_))
    world_.violate("an attempt at " + what + " begins with the state that another one has left");
  if (shards.size() != held_.count)
    world_.violate(what + " has the samples of " + std::to_string(shards.size()) + " shards");
  batches_ = shards.size();
  RankWork& work = world_.work[version()][this] = {};
  const auto before = std::exchange(abandoned_, std::nullopt);
  const bool forgets = leads_ && before && world_.scenario.mutation == Mutation::shards_forgotten;
  for (size_t i = 0; i < shards.size(); ++i) {
    if (shards[i]->index != updates_) world_.violate(what + " uses batch " + std::to_string(shards[i]->index));
    const size_t shard = held_.first + i;
    if (!forgets || (shard >= before->first && shard < before->end()))
      work.begun[shard] = static_cast<FakeStaged&>(*shards[i]).batch;
  }
  if (leads_)
    skipped_ = world_.skipped.try_emplace(version(), world_.fault(world_.scenario.update_skipped)).first->second;
  round_ = open_ = 0;
  rounds_ = held_.count == this->shards() ? 0 : 1 + updates_ % 2;
}

uint64_t FakeLearner::use_batches() {
  const SimulatedKind& kind = simulated_kind(world_);
  world_.epoch = epoch_;
  std::map<size_t, SuperBatch> batches;
  for (const auto& [learner, work] : world_.work[version()]) batches.insert(work.begun.begin(), work.begun.end());
  if (batches.size() != shards())
    world_.violate("update " + std::to_string(updates_) + " is complete with the samples of " +
                   std::to_string(batches.size()) + " shards");
  for (const auto& [shard, batch] : batches) kind.check_use(world_, batch);
  uint64_t first_time = 0;
  for (const auto& [shard, batch] : batches)
    for (const RolloutUnits& part : batch.parts)
      for (bool* trained : kind.trained(world_, part, batch.index))
        if (!skipped_ && !std::exchange(*trained, true)) ++first_time;
  return first_time;
}

ShardNumbers FakeLearner::numbers_of(size_t shard) const {
  return {static_cast<double>(shard), static_cast<double>(updates_), static_cast<double>(round_)};
}

Array FakeLearner::gradients_of(ShardRange shards) const {
  float sum = 0;
  for (size_t shard = shards.first; shard < shards.end(); ++shard) sum += static_cast<float>(shard + 1);
  const auto count = static_cast<float>(shards.count);
  return Array::of<float>({3}, {sum, count * static_cast<float>(updates_), count * static_cast<float>(round_)});
}

Advance FakeLearner::advance() {
  if (round_ == rounds_) return Advance::done;
  if (open_ == 0) say_round();
  return Advance::waits;
}

void FakeLearner::say_round() {
  if (has_gradients()) {
    RankPart part{held_, {}, {}};
    for (const ShardRange& branch : branches_of(held_, shards()))
      part.branches.push_back({branch, gradients_of(branch)});
    say_({round_, open_++}, std::move(part));
  }
  if (!has_numbers()) return;
  RankPart part{held_, {}, {}};
  for (size_t shard = held_.first; shard < held_.end(); ++shard) part.numbers.push_back(numbers_of(shard));
  if (leads_) part.numbers.front().push_back(skipped_ ? 1 : 0);
  say_({round_, open_++}, std::move(part));
}

void FakeLearner::deliver(const RoundPiece& piece, RoundResult all) {
  const std::string what = "round " + std::to_string(round_) + " of update " + std::to_string(updates_);
  if (open_ == 0 || piece.round != round_) world_.violate(what + " has a piece of another round");
  const bool of_gradients = has_gradients() && piece.piece == 0;
  std::vector<ShardNumbers> numbers;
  if (!of_gradients)
    for (size_t shard = 0; shard < shards(); ++shard) numbers.push_back(numbers_of(shard));
  if (!all.numbers.empty() && all.numbers.front().size() == 4) {
    skipped_ = all.numbers.front().back() != 0;
    all.numbers.front().pop_back();
  }
  const Array expected = of_gradients ? gradients_of({0, shards()}) : Array();
  const auto got = all.gradients.view<float>(), wanted = expected.view<float>();
  if (!got.empty() && !wanted.empty() && got[0] != wanted[0])
    world_.violate(what + " does not have the gradients of each shard once");
  else if (all.numbers != numbers || !std::ranges::equal(got, wanted))
    world_.violate(what + " has the result of another one");
  changed_ |= of_gradients;
  if (--open_ == 0) ++round_;
}

// Of the updates that are made again. Those before may be complete and not published yet.
void FakeLearner::forget_work() {
  for (auto it = world_.work.lower_bound(version()); it != world_.work.end(); ++it)
    leads_ ? it->second.clear() : static_cast<void>(it->second.erase(this));
}

void FakeLearner::abandon() {
  reset();
  abandoned_ = held_;
}

UpdateReport FakeLearner::finish() {
  UpdateReport report;
  const bool empty = !skipped_ && updates_ % 5 == 3;  // nothing to train on
  if (!empty) (skipped_ ? report.skipped : report.steps) = 1;
  if (leads_ && !world_.update_samples_trained.contains(updates_))
    world_.update_samples_trained[updates_] = use_batches();
  world_.work[version()][this].finished = true;
  reset();
  changed_ = false;
  ++updates_;
  return report;
}

double FakeLearner::imitate(StagedBatch&, double) {
  if (warmed_up_ || updates_ > 0) world_.violate("a warm-up step after the end of the warm-up");
  if (world_.fault(world_.scenario.learner_throws)) throw std::runtime_error("a warm-up step failed on purpose");
  ++imitated_;
  ++world_.steps_of_warmup;
  return 1;
}

void FakeLearner::end_warmup() {
  if (imitated_ == 0) world_.violate("a warm-up ends without a step");
  warmed_up_ = true;
}

LearnerState FakeLearner::save() const {
  LearnerState state = save_without_moments();
  state.optimizer["m"] = Array::of<int64_t>({1}, {static_cast<int64_t>(updates_)});
  return state;
}

AdamMoments FakeLearner::moments() const {
  const Array updates = Array::of<float>({1}, {static_cast<float>(updates_)});
  return {{0, 1}, updates, updates};
}

LearnerState FakeLearner::save_without_moments() const {
  LearnerState state;
  state.scalars["imitated"] = static_cast<double>(imitated_);
  state.model["a"] = Array::of<int64_t>({1}, {static_cast<int64_t>(updates_)});
  state.model[kOrigin] = Array::of<int64_t>({1}, {origin_});
  state.scalars["updates"] = static_cast<double>(updates_);
  return state;
}

void FakeLearner::begin_from(const std::map<std::string, Array>& model) {
  origin_ = model.at(kOrigin).view<int64_t>()[0];
}

void FakeLearner::load(const LearnerState& without_moments, const AdamMoments& slice) {
  LearnerState state = without_moments;
  state.optimizer["m"] = Array::of<int64_t>({1}, {static_cast<int64_t>(slice.first.view<float>()[0])});
  load(state);
}

void FakeLearner::load(const LearnerState& state) {
  if (leads_ && abandoned_ && world_.scenario.mutation == Mutation::changed_state_kept) return;
  changed_ = false;
  const auto model = state.model.at("a").view<int64_t>()[0], optimizer = state.optimizer.at("m").view<int64_t>()[0];
  if (model != optimizer || static_cast<double>(model) != state.scalars.at("updates"))
    world_.violate("a checkpoint contains parts of several updates");
  updates_ = static_cast<uint64_t>(model);
  forget_work();
  imitated_ = static_cast<uint64_t>(state.scalars.at("imitated"));
  warmed_up_ = !state.scalars.contains("warmup.checked");
  if (leads_ && imitated_ > 0 && state.scalars.contains("warmup.steps") &&
      state.scalars.at("warmup.steps") != state.scalars.at("imitated"))
    world_.violate("a checkpoint counts other warm-up steps than its weights have had");
  origin_ = state.model.at(kOrigin).view<int64_t>()[0];
}

}  // namespace troupe::sim
