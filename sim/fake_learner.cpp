#include "sim/fake_learner.h"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "models/learning/trainer_config.h"
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
    if (world_.fault(world_.scenario.learner_throws / 2)) {
      if (world_.running_kind == "rank trainer") world_.lost_ranks.push_back(batch.index);
      throw std::runtime_error("staging failed on purpose");
    }
    auto staged = std::make_unique<FakeStaged>();
    staged->index = batch.index;
    staged->samples = batch.samples;
    staged->batch = batch;
    return staged;
  }

 private:
  World& world_;
};

// Four blocks, or two, which are fewer than three ranks. Not drawn, so that older seeds stay what they were.
size_t elements_of(const Scenario& scenario) { return scenario.seed % 3 == 0 ? 24 : 56; }

}  // namespace

FakeLearner::FakeLearner(World& world, uint32_t epoch, bool leads)
    : world_(world),
      epoch_(epoch),
      leads_(leads),
      signature_(fake_signature()),
      held_{0, shards()},
      slices_(elements_of(world.scenario), piece_elements(world.scenario.config.trainer)) {}

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
  if (world_.fault(world_.scenario.learner_throws)) {
    if (!leads_) world_.lost_ranks.push_back(updates_);
    throw std::runtime_error("an update failed on purpose");
  }
  if (world_.scenario.config.warmup.steps > 0 && !warmed_up_) world_.violate("an update before the end of the warm-up");
  if (batches_ > 0) world_.violate("an update begins during another one");
  const std::string what = "update " + std::to_string(updates_);
  if (changed_ || (abandoned_ && !shards.empty() && shards.front()->index < updates_))
    world_.violate("an attempt at " + what + " begins with the state that another one has left");
  if (shards.size() != held_.count)
    world_.violate(what + " has the samples of " + std::to_string(shards.size()) + " shards");
  if (slices_.moments().elements != slices_.own()) world_.violate(what + " begins without the moments of its slice");
  batches_ = shards.size();
  stepped_ = false;
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
  const auto moment = static_cast<float>(shards.count * (100 * updates_ + round_));
  std::vector<float> gradients;
  for (size_t i = 0; i < slices_.elements(); ++i)
    gradients.push_back(static_cast<float>(i + 1) * (i % 2 == 0 ? sum : moment));
  return Array::of(gradients);
}

Advance FakeLearner::advance() {
  while (round_ < rounds_ + (slices_.divided() ? 2 : 0)) {
    if (open_ == 0) of_slices() ? say_slices() : say_round();
    if (open_ > 0) return Advance::waits;
    ++round_;  // no other rank has anything to say
  }
  return Advance::done;
}

void FakeLearner::say_round() {
  if (has_gradients()) {
    RankPart part{held_, {}, {}};
    for (const ShardRange& branch : branches_of(held_, shards()))
      part.branches.push_back({branch, gradients_of(branch)});
    say_({round_, open_++}, std::move(part));
  }
  if (round_ > 0) return;
  RankPart part{held_, {}, {}};
  for (size_t shard = held_.first; shard < held_.end(); ++shard) part.numbers.push_back(numbers_of(shard));
  if (leads_) part.numbers.front().push_back(skipped_ ? 1 : 0);
  say_({round_, open_++}, std::move(part));
}

void FakeLearner::say_slices() {
  const FakeSlices::Say say = [this](size_t piece, Array own) {
    say_({round_, piece}, {held_, {}, {}, {}, std::move(own)});
  };
  if (round_ == rounds_) {
    open_ = slices_.say_squares(updates_, say);
    return;
  }
  step();
  open_ = slices_.say_parameters(say);
}

void FakeLearner::step() {
  if (std::exchange(stepped_, true)) return;
  slices_.step(updates_);
  changed_ = true;
}

void FakeLearner::deliver(const RoundPiece& piece, RoundResult all) {
  const std::string what = "round " + std::to_string(round_) + " of update " + std::to_string(updates_);
  if (open_ == 0 || piece.round != round_) return world_.violate(what + " has a piece of another round");
  if (of_slices() != all.own.has_value()) {
    world_.violate(what + " has the result of another one");
  } else if (all.own) {
    const std::string wrong = round_ == rounds_ ? slices_.take_squares(updates_, piece.piece, *all.own)
                                                : slices_.take_parameters(updates_, piece.piece, *all.own);
    if (!wrong.empty()) world_.violate(what + ' ' + wrong);
  } else {
    check_round(piece, std::move(all), what);
  }
  if (--open_ == 0) ++round_;
}

void FakeLearner::check_round(const RoundPiece& piece, RoundResult all, const std::string& what) {
  const bool of_gradients = has_gradients() && piece.piece == 0;
  std::vector<ShardNumbers> numbers;
  if (!of_gradients)
    for (size_t shard = 0; shard < shards(); ++shard) numbers.push_back(numbers_of(shard));
  if (!all.numbers.empty() && all.numbers.front().size() == 4) {
    skipped_ = all.numbers.front().back() != 0;
    all.numbers.front().pop_back();
  }
  if (of_gradients) check_gradients(all.gradients, what);
  if (all.numbers != numbers || (!of_gradients && !all.gradients.empty()))
    world_.violate(what + " has the result of another one");
  changed_ |= of_gradients;
}

void FakeLearner::check_gradients(const Array& all, const std::string& what) {
  const ElementRange own = slices_.own();
  const Array expected =
      gradients_of({0, shards()}).slice(static_cast<int64_t>(own.begin), static_cast<int64_t>(own.end));
  const auto got = all.view<float>(), wanted = expected.view<float>();
  if (got.size() != wanted.size()) return world_.violate(what + " has the gradients of another slice");
  for (size_t i = 0; i < got.size(); ++i)
    if (got[i] != wanted[i])
      return world_.violate(
          what + (i % 2 == 0 ? " does not have the gradients of each shard once" : " has the result of another one"));
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
  step();
  if (!same_values(slices_.parameters(), parameters_after(updates_ + 1, slices_.all())))
    world_.violate("update " + std::to_string(updates_) + " leads to other weights than on one rank");
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

void FakeLearner::become(uint64_t updates) {
  updates_ = updates;
  slices_.load(parameters_after(updates, slices_.all()), moments_after(updates, slices_.own()));
}

LearnerState FakeLearner::save() const { return save(std::array{slices_.moments()}); }

LearnerState FakeLearner::save(std::span<const AdamMoments> slices) const {
  for (const AdamMoments& slice : slices)
    if (!are_after(slice, updates_))
      world_.violate("a checkpoint after " + std::to_string(updates_) + " updates has moments of another update");
  const AdamMoments all = moments_of(slices, slices_.all());
  LearnerState state = save_without_moments();
  state.optimizer["m"] = all.first;
  state.optimizer["v"] = all.second;
  return state;
}

LearnerState FakeLearner::save_without_moments() const {
  LearnerState state;
  state.scalars["imitated"] = static_cast<double>(imitated_);
  state.model["a"] = Array::of<int64_t>({1}, {static_cast<int64_t>(updates_)});
  state.model["parameters"] = slices_.parameters();
  state.model[kOrigin] = Array::of<int64_t>({1}, {origin_});
  state.scalars["updates"] = static_cast<double>(updates_);
  return state;
}

void FakeLearner::begin_from(const std::map<std::string, Array>& model) {
  origin_ = model.at(kOrigin).view<int64_t>()[0];
}

void FakeLearner::load(const LearnerState& state) {
  load(state, {slices_.all(), state.optimizer.at("m"), state.optimizer.at("v")});
}

void FakeLearner::load(const LearnerState& without_moments, const AdamMoments& slice) {
  if (leads_ && abandoned_ && world_.scenario.mutation == Mutation::changed_state_kept) return;
  const LearnerState& state = without_moments;
  changed_ = false;
  updates_ = static_cast<uint64_t>(state.model.at("a").view<int64_t>()[0]);
  const Array& parameters = state.model.at("parameters");
  if (!same_values(parameters, parameters_after(updates_, slices_.all())) ||
      static_cast<double>(updates_) != state.scalars.at("updates"))
    world_.violate("a state contains parts of several updates");
  if (!are_after(slice, updates_))
    world_.violate("a state after " + std::to_string(updates_) + " updates has moments of another update");
  slices_.load(parameters, slice);
  forget_work();
  imitated_ = static_cast<uint64_t>(state.scalars.at("imitated"));
  warmed_up_ = !state.scalars.contains("warmup.checked");
  if (leads_ && imitated_ > 0 && state.scalars.contains("warmup.steps") &&
      state.scalars.at("warmup.steps") != state.scalars.at("imitated"))
    world_.violate("a checkpoint counts other warm-up steps than its weights have had");
  origin_ = state.model.at(kOrigin).view<int64_t>()[0];
}

}  // namespace troupe::sim
