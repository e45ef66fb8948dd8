#include "models/learning/update_learner.h"

#include <array>
#include <optional>
#include <utility>

#include "algorithms/losses/kl.h"
#include "models/heads/heads.h"
#include "models/learning/slice_rounds.h"
#include "models/learning/update_under_way.h"
#include "models/weights/initial_weights.h"
#include "runtime/base/errors.h"
#include "runtime/base/rng.h"

namespace troupe {

namespace {

class UpdateLearner final : public Learner {
 public:
  UpdateLearner(const LearnerConfig& config, std::unique_ptr<Objective> objective)
      : config_(config),
        objective_(std::move(objective)),
        kl_coef_(config.algorithm.kl_coef),
        mine_{0, static_cast<size_t>(config.trainer.shards)},
        slices_(*objective_, piece_elements(config.trainer)) {
    objective_->say_gradients_to([this](size_t piece, std::vector<GradientBranch> branches) {
      say_({update_->round, piece}, {mine_, {}, std::move(branches)});
    });
  }

  std::shared_ptr<const Signature> saved_signature() const override { return objective_->weights().signature(); }
  std::shared_ptr<const Signature> published_signature() const override { return objective_->weights().published(); }
  WeightsPtr snapshot(PolicyVersion version) const override {
    between_updates();
    return objective_->snapshot(version);
  }
  WeightsPtr reference(PolicyVersion version) const override { return objective_->reference(version); }
  std::shared_ptr<const Stager> stager() const override { return objective_->stager(); }
  void begin(std::span<StagedBatch* const> shards, double progress) override;
  Advance advance() override;
  UpdateReport finish() override;
  void abandon() override { update_.reset(); }
  void hold_shards(ShardRange shards) override;
  void hold_slice(size_t rank, size_t ranks) override;
  size_t trained_elements() const override { return objective_->weights().trained().size(); }
  void say_to(SayPiece say) override { say_ = std::move(say); }
  void deliver(const RoundPiece& piece, RoundResult all) override;
  double imitate(StagedBatch& demonstrations, double learning_rate) override;
  void end_warmup() override;
  AdamMoments moments() const override {
    between_updates();
    return objective_->optimizer().moments();
  }
  LearnerState save(std::span<const AdamMoments> slices) const override;
  LearnerState save() const override { return save(std::array{moments()}); }
  LearnerState save_without_moments() const override;
  void begin_from(const std::map<std::string, Array>& model) override;
  void load(const LearnerState& state) override { load(state, nullptr); }
  void load(const LearnerState& state, const AdamMoments& slice) override { load(state, &slice); }

 private:
  // No update may be under way. Draws the first weights if they are needed.
  void between_updates() const {
    TROUPE_CHECK(!update_, updates_);
    objective_->require_weights();
  }

  void load(const LearnerState& state, const AdamMoments* slice);
  bool holds_all() const { return static_cast<int64_t>(mine_.count) == config_.trainer.shards; }
  void say_and_wait(RankPart part, UpdateUnderWay::Next next);
  void make_targets();
  void begin_epoch();
  void begin_step();
  void backward();
  void end_backward();
  void begin_micro_batch(size_t micro_batch);
  void end_micro_batch();
  SliceRounds::Say say_own();
  void apply();
  void end_epoch();
  void adapt_kl(const UpdateUnderWay& update);

  LearnerConfig config_;
  std::unique_ptr<Objective> objective_;
  double kl_coef_;
  ShardRange mine_;
  SliceRounds slices_;
  SayPiece say_;
  uint64_t updates_ = 0;
  std::optional<UpdateUnderWay> update_;
};

void UpdateLearner::begin(std::span<StagedBatch* const> shards, double progress) {
  between_updates();
  TROUPE_CHECK(shards.size() == mine_.count, shards.size(), mine_.count);
  UpdateUnderWay& update = update_.emplace();
  update.clock = StageClock(shards.front()->stages);
  update.clock.begin();
  update.progress = progress;
  update.settings = update_settings(config_, updates_, kl_coef_, progress);
  update.of_step = update.settings;
  say_and_wait(objective_->begin(shards), UpdateUnderWay::Next::targets);
  update.clock.mark(&UpdateStages::prepare);
}

Advance UpdateLearner::advance() {
  TROUPE_CHECK(update_.has_value(), updates_);
  UpdateUnderWay& update = *update_;
  if (update.phase == UpdateUnderWay::Phase::trained) return Advance::done;
  if (update.open > 0) return Advance::waits;
  update.clock.begin();
  double UpdateStages::* stage = &UpdateStages::prepare;
  switch (update.next) {
    case UpdateUnderWay::Next::targets: make_targets(); break;
    case UpdateUnderWay::Next::epoch:
      update.minibatches = objective_->use_epoch(update.heard.numbers);
      update.next = UpdateUnderWay::Next::step;
      break;
    case UpdateUnderWay::Next::step: update.minibatch < update.minibatches ? begin_step() : end_epoch(); break;
    case UpdateUnderWay::Next::backward:
      backward();
      stage = &UpdateStages::backward;
      break;
    case UpdateUnderWay::Next::gradients:
      end_micro_batch();
      stage = &UpdateStages::optimizer;
      break;
    case UpdateUnderWay::Next::squares:
      apply();
      stage = &UpdateStages::optimizer;
      break;
    case UpdateUnderWay::Next::parameters:
      objective_->use_parameters();
      update.next = UpdateUnderWay::Next::step;
      stage = &UpdateStages::optimizer;
      break;
  }
  update.clock.mark(stage);
  if (update.phase == UpdateUnderWay::Phase::trained) return Advance::done;
  for (auto& [piece, all] : std::exchange(update.early, {})) deliver(piece, std::move(all));
  return update.open > 0 ? Advance::waits : Advance::more;
}

void UpdateLearner::hold_shards(ShardRange shards) {
  TROUPE_CHECK(!update_, updates_);
  objective_->hold_shards(shards);
  mine_ = shards;
}

void UpdateLearner::hold_slice(size_t rank, size_t ranks) {
  TROUPE_CHECK(!update_, updates_);
  slices_.hold(rank, ranks);
}

// Of what this rank alone says in the round under way.
SliceRounds::Say UpdateLearner::say_own() {
  return [this](size_t piece, Array own) { say_({update_->round, piece}, {mine_, {}, {}, {}, std::move(own)}); };
}

// With several ranks, `next` comes after what all of them say, if they have something to say.
void UpdateLearner::say_and_wait(RankPart part, UpdateUnderWay::Next next) {
  UpdateUnderWay& update = *update_;
  update.next = next;
  if (holds_all() || part.empty()) {
    update.heard = {std::move(part.numbers)};
    return;
  }
  update.open = 1;
  say_({update.round, 0}, std::move(part));
}

void UpdateLearner::deliver(const RoundPiece& piece, RoundResult all) {
  TROUPE_CHECK(update_ && update_->open > 0, updates_, piece.round);
  UpdateUnderWay& update = *update_;
  // Gradients may take longer than what another rank, which has them already, says next.
  if (all.own && piece.round == update.round + 1) return update.put_off(piece, std::move(all));
  TROUPE_CHECK(piece.round == update.round, updates_, piece.round, update.round);
  if (update.next == UpdateUnderWay::Next::squares)
    slices_.take_squares(piece.piece, all.own.value());
  else if (update.next == UpdateUnderWay::Next::parameters)
    slices_.take_parameters(piece.piece, all.own.value());
  else if (update.next == UpdateUnderWay::Next::gradients && piece.piece < slices_.pieces().count())
    slices_.set_gradients(piece.piece, all.gradients);
  else
    update.heard = std::move(all);
  if (--update.open == 0) ++update.round;
  update.clock.mark(&UpdateStages::exchange);
}

void UpdateLearner::make_targets() {
  UpdateUnderWay& update = *update_;
  update.input = objective_->make_targets(update.heard);
  if (update.input.samples == 0)
    update.phase = UpdateUnderWay::Phase::trained;
  else
    begin_epoch();
}

void UpdateLearner::begin_epoch() {
  UpdateUnderWay& update = *update_;
  update.key = derive_key(derive_key(config_.seed, "shuffle"), "epoch", updates_, update.report.epochs);
  update.epoch = {};
  update.minibatch = 0;
  say_and_wait({mine_, objective_->begin_epoch(update.key), {}}, UpdateUnderWay::Next::epoch);
}

void UpdateLearner::begin_step() {
  UpdateUnderWay& update = *update_;
  update.of_step.loss.key = derive_key(update.key, "minibatch", update.minibatch);
  std::optional<std::vector<size_t>> parts = objective_->begin_step(update.minibatch, update.of_step);
  if (!parts) {
    ++update.minibatch;
    return;
  }
  update.parts = *std::move(parts);
  update.part = 0;
  begin_micro_batch(0);
}

void UpdateLearner::begin_micro_batch(size_t micro_batch) {
  UpdateUnderWay& update = *update_;
  update.micro_batch = micro_batch;
  update.left = update.parts[micro_batch];
  update.next = UpdateUnderWay::Next::backward;
}

// The next part of a micro-batch, if there is one, and then what this rank has of its gradients.
void UpdateLearner::backward() {
  UpdateUnderWay& update = *update_;
  if (update.left > 0) {
    objective_->backward(update.part++, update.clock);
    --update.left;
  }
  if (update.left == 0) end_backward();
}

// Gradients are said in pieces 0, 1, ..., and in the last micro-batch the losses in one after those.
void UpdateLearner::end_backward() {
  UpdateUnderWay& update = *update_;
  update.next = UpdateUnderWay::Next::gradients;
  update.heard = {};
  if (holds_all()) return;
  objective_->end_backward();
  update.open = slices_.pieces().count();
  if (update.micro_batch + 1 < update.parts.size()) return;
  say_({update.round, update.open}, objective_->say_losses());
  ++update.open;
}

void UpdateLearner::end_micro_batch() {
  UpdateUnderWay& update = *update_;
  objective_->end_micro_batch(update.heard);
  if (update.micro_batch + 1 < update.parts.size()) return begin_micro_batch(update.micro_batch + 1);
  if (config_.trainer.shards > 1) {
    update.next = UpdateUnderWay::Next::squares;
    update.open = slices_.say_squares(say_own());
  }
  if (update.open == 0) apply();
}

void UpdateLearner::apply() {
  UpdateUnderWay& update = *update_;
  const GradientSquares squares = slices_.squares();
  const bool one_shard = config_.trainer.shards == 1;
  const StepReport step = objective_->apply(update.heard.numbers, one_shard ? nullptr : &squares);
  update.next = UpdateUnderWay::Next::step;
  ++update.minibatch;
  if (!step.applied()) {
    ++update.epoch.skipped;
    return;
  }
  ++update.epoch.steps;
  update.epoch.grad_norm_sum += step.grad_norm;
  update.epoch.loss.add_step(step.loss);
  if (!slices_.divided()) return objective_->use_parameters();
  update.next = UpdateUnderWay::Next::parameters;
  update.open = slices_.say_parameters(say_own());
}

// Begins the next epoch, unless this one was the last.
void UpdateLearner::end_epoch() {
  UpdateUnderWay& update = *update_;
  update.report.steps += update.epoch.steps;
  update.report.skipped += update.epoch.skipped;
  ++update.report.epochs;
  if (update.phase == UpdateUnderWay::Phase::all) {
    update.reported = update.epoch;
    const double target_kl = config_.algorithm.target_kl;
    if ((target_kl > 0.0 && update.epoch.loss.diagnostics.kl_k3 > target_kl) ||
        update.report.epochs >= static_cast<uint64_t>(config_.trainer.epochs)) {
      update.phase = UpdateUnderWay::Phase::value_alone;
      update.of_step.loss.train_policy = update.of_step.loss.policy_figures = false;
    }
  }
  const auto value_epochs = static_cast<uint64_t>(config_.trainer.value_epochs);
  if (update.phase == UpdateUnderWay::Phase::value_alone && update.report.epochs >= value_epochs)
    update.phase = UpdateUnderWay::Phase::trained;
  else
    begin_epoch();
}

UpdateReport UpdateLearner::finish() {
  TROUPE_CHECK(update_ && update_->phase == UpdateUnderWay::Phase::trained, updates_);
  UpdateUnderWay update = *std::exchange(update_, std::nullopt);
  objective_->end(update.progress);
  ++updates_;
  update.report.stages = update.clock.stages();
  update.report.metrics = metrics_of({.choice = objective_->choice(),
                                      .settings = update.settings,
                                      .epoch = update.reported,
                                      .targets = update.input.figures,
                                      .skipped = update.report.skipped,
                                      .log_std = objective_->log_std(),
                                      .penalizes_kl = config_.algorithm.kl_coef != 0.0,
                                      .critic = objective_->has_critic(),
                                      .balance = objective_->balance(),
                                      .lag = objective_->lag_figures()});
  adapt_kl(update);
  return std::move(update.report);
}

// The new coefficient counts from the next update on.
void UpdateLearner::adapt_kl(const UpdateUnderWay& update) {
  const AlgorithmConfig& algorithm = config_.algorithm;
  if (algorithm.kl_controller != "adaptive" || !update.settings.loss.train_policy || update.reported.steps == 0) return;
  AdaptiveKl controller(kl_coef_, algorithm.kl_target, algorithm.kl_horizon);
  controller.update(update.reported.loss.kl, update.input.samples);
  kl_coef_ = controller.value();
}

double UpdateLearner::imitate(StagedBatch& demonstrations, double learning_rate) {
  between_updates();
  TROUPE_CHECK(updates_ == 0, updates_);
  const StepReport step = objective_->imitate(demonstrations, learning_rate);
  if (!step.applied()) throw NotFinite("the loss or its gradient is not finite");
  return step.loss.loss;
}

void UpdateLearner::end_warmup() {
  between_updates();
  TROUPE_CHECK(updates_ == 0, updates_);
  objective_->end_warmup();
}

LearnerState UpdateLearner::save(std::span<const AdamMoments> slices) const {
  LearnerState state = save_without_moments();
  save_moments(objective_->weights(), moments_of(slices, {0, trained_elements()}), state.optimizer);
  return state;
}

LearnerState UpdateLearner::save_without_moments() const {
  between_updates();
  LearnerState state;
  state.model = objective_->saved_weights();
  objective_->optimizer().save_counts(state.scalars);
  objective_->save(state.optimizer);
  state.scalars["updates"] = static_cast<double>(updates_);
  if (config_.algorithm.kl_controller == "adaptive") state.scalars["kl_coef"] = kl_coef_;
  return state;
}

void UpdateLearner::begin_from(const std::map<std::string, Array>& model) {
  TROUPE_CHECK(updates_ == 0 && !update_, updates_);
  check_given_weights(*saved_signature(), model);
  if (!begins_critic(*saved_signature(), model)) return objective_->load_weights(model);
  std::map<std::string, Array> all = objective_->weights().save();
  for (const auto& [name, tensor] : model) all.insert_or_assign(name, tensor);
  objective_->load_weights(all);
  objective_->end_warmup();  // a separate critic begins with the weights of the policy
}

// `slice`: its moments; null if the state has them.
void UpdateLearner::load(const LearnerState& state, const AdamMoments* slice) {
  TROUPE_CHECK(!update_, updates_);
  check_initial_weights(*saved_signature(), state.model);
  std::map<std::string, Array> moments = state.optimizer;
  const std::function<void()> put_in_place = objective_->read(moments);
  if (slice)
    TROUPE_CHECK(moments.empty(), moments.size());
  else
    check_moments(objective_->weights(), moments, state.scalars);
  const double updates = saved_count(state.scalars, "updates");
  const double kl_coef = saved_kl_coef(state.scalars, config_.algorithm.kl_coef);
  objective_->load_weights(state.model);
  slice ? objective_->optimizer().load(*slice, state.scalars) : objective_->optimizer().load(moments, state.scalars);
  put_in_place();
  updates_ = static_cast<uint64_t>(updates);
  kl_coef_ = kl_coef;
}

}  // namespace

std::unique_ptr<Learner> make_update_learner(const LearnerConfig& config, std::unique_ptr<Objective> objective) {
  return std::make_unique<UpdateLearner>(config, std::move(objective));
}

}  // namespace troupe
