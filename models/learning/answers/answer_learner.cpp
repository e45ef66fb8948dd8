#include "models/learning/answers/answer_learner.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "models/learning/answers/answer_targets.h"
#include "models/learning/answers/policy_filtration.h"
#include "models/learning/answers/started_answers.h"
#include "models/learning/objective.h"
#include "models/learning/update_learner.h"
#include "models/shards/shard_sum.h"
#include "models/weights/initial_weights.h"
#include "runtime/base/errors.h"
#include "runtime/config/setting.h"

namespace troupe {
namespace {

// In the saved state.
const std::string kReference = "reference.";
constexpr const char* kReferenceCoef = "reference_kl_coef";

class AnswerStager final : public Stager {
 public:
  std::unique_ptr<StagedBatch> stage(const SuperBatch& batch) const override { return gather_answers(batch); }
};

class AnswerObjective final : public Objective {
 public:
  AnswerObjective(const LearnerConfig& config, const LmModel& model, const AnswerTrainerOptions& options)
      : algorithm_(config.algorithm),
        minibatches_(config.trainer.minibatches),
        choice_(choose_algorithm(config.algorithm)),
        filtration_(policy_filtration(config.algorithm)),
        seed_(config.seed),
        shards_(static_cast<size_t>(config.trainer.shards)),
        mine_{0, shards_},
        reference_(config.reference),
        penalty_{reference_kl(reference_), reference_.kl_coef, reference_.in_reward()},
        turn_tokens_(options.turn_tokens),
        trainer_(model, config.trainer, choice_, completed(options, config)) {}

  const AlgorithmChoice& choice() const override { return choice_; }
  void require_weights() override {}  // there from the beginning
  const WeightBlock& weights() const override { return trainer_.weights(); }
  WeightsPtr snapshot(PolicyVersion version) const override { return weights().share(version); }
  std::map<std::string, Array> saved_weights() const override { return weights().views(); }
  void load_weights(const std::map<std::string, Array>& model) override {
    trainer_.load_weights(model);
    trainer_.hold_reference();
  }
  OptimizerState& optimizer() override { return trainer_.optimizer(); }
  std::shared_ptr<const Stager> stager() const override { return std::make_shared<const AnswerStager>(); }
  std::span<const float> log_std() const override { return {}; }
  bool has_critic() const override { return trainer_.has_critic(); }
  WeightsPtr reference(PolicyVersion version) const override {
    return trainer_.reference() ? trainer_.reference()->share(version) : nullptr;
  }
  void end_warmup() override {
    trainer_.optimizer().reset();
    trainer_.begin_critic();
    trainer_.hold_reference();
  }
  StepReport imitate(StagedBatch& demonstrations, double learning_rate) override {
    return trainer_.imitate(dynamic_cast<AnswerBatch&>(demonstrations), learning_rate);
  }
  // Of a reference: its weights, which resuming cannot make again, and the coefficient.
  void save(std::map<std::string, Array>& state) const override;
  std::function<void()> read(std::map<std::string, Array>& state) override;

  void hold_shards(ShardRange shards) override;
  void hold_slice(ElementRange elements) override {
    Objective::hold_slice(elements);
    trainer_.hold_slice(elements);
  }
  RankPart begin(std::span<StagedBatch* const> shards) override;
  EpochInput make_targets(const RoundResult& all) override;
  std::vector<ShardNumbers> begin_epoch(uint64_t key) override;
  size_t use_epoch(std::span<const ShardNumbers> /*all*/) override { return of_minibatches_.size(); }
  std::optional<std::vector<size_t>> begin_step(size_t minibatch, const UpdateSettings& settings) override;
  void backward(size_t part, StageClock& clock) override { trainer_.backward(part, &clock); }
  void say_gradients_to(SayGradients say) override { trainer_.say_gradients_to(std::move(say)); }
  void end_backward() override { trainer_.end_backward(); }
  RankPart say_losses() override { return trainer_.say_losses(); }
  void set_gradients(ElementRange elements, const Array& sum) override { trainer_.set_gradients(elements, sum); }
  void end_micro_batch(const RoundResult& losses) override { trainer_.end_micro_batch(losses); }
  GradientSquares squares(ElementRange elements) override { return trainer_.squares(elements); }
  StepReport apply(std::span<const ShardNumbers> all, const GradientSquares* squares) override {
    return trainer_.apply(all, squares);
  }
  Array parameters(ElementRange elements) override { return trainer_.parameters(elements); }
  void set_parameters(ElementRange elements, const Array& values) override {
    trainer_.set_parameters(elements, values);
  }
  void use_parameters() override { trainer_.use_parameters(); }
  std::optional<BalanceFigures> balance() const override { return trainer_.balance(); }
  std::optional<LagFigures> lag_figures() const override { return trainer_.lag_figures(); }
  void end(double progress) override;

 private:
  static AnswerTrainerOptions completed(AnswerTrainerOptions options, const LearnerConfig& config) {
    options.value_coef = config.algorithm.value_coef;
    options.reference = config.reference.used();
    options.reference_kl = reference_kl(config.reference);
    return options;
  }

  bool holds_all() const { return mine_.count == shards_; }
  AnswerStart join(const RoundResult& all);
  AnswerStart join(std::span<const AnswerBatch* const> batches, std::span<const AnswerStart* const> starts);
  void filter_answers();

  AlgorithmConfig algorithm_;
  int64_t minibatches_;
  AlgorithmChoice choice_;
  std::optional<PolicyFiltration> filtration_;
  uint64_t seed_;
  size_t shards_;
  ShardRange mine_;  // those that are computed here
  ReferenceConfig reference_;
  ReferencePenalty penalty_;  // with the coefficient in use
  int64_t turn_tokens_;       // the largest number of a turn
  AnswerTrainer trainer_;
  // Of the update under way.
  std::vector<AnswerBatch*> own_;      // of the shards that are computed here
  std::vector<AnswerStart> starts_;    // likewise, until make_targets()
  std::optional<AnswerBatch> joined_;  // of all shards, if there are several
  std::vector<int64_t> shard_groups_;  // [S + 1] where the groups of each begin
  AnswerBatch* batch_ = nullptr;       // that the epochs train on
  std::optional<AnswerBatch> drawn_;   // it, with policy filtration
  int64_t answers_ = 0;                // of the super-batch
  AnswerTargets targets_;
  bool trains_policy_ = false;
  std::vector<std::vector<int64_t>> of_minibatches_;  // groups
};

void AnswerObjective::hold_shards(ShardRange shards) {
  trainer_.hold_shards(shards);
  mine_ = shards;
}

// The passes of the model, of the shards that are computed here.
RankPart AnswerObjective::begin(std::span<StagedBatch* const> shards) {
  own_.clear();
  for (StagedBatch* shard : shards) own_.push_back(&dynamic_cast<AnswerBatch&>(*shard));
  const bool reference = reference_.used() && !reference_.by_scorers();
  starts_ = trainer_.start(std::vector<const AnswerBatch*>(own_.begin(), own_.end()),
                           needs_of(choice_, algorithm_, has_critic(), reference));
  RankPart result = {mine_, {}, {}};
  for (size_t i = 0; i < own_.size() && !holds_all(); ++i) result.data.push_back(bytes_of(*own_[i], starts_[i]));
  return result;
}

// Of the answers of all shards, wherever these are computed.
EpochInput AnswerObjective::make_targets(const RoundResult& all) {
  AnswerStart start = join(all);
  AnswerBatch& batch = *batch_;
  if (algorithm_.mask_cut_answers) mask_cut_answers(batch);
  trainer_.begin_update(batch, start.log_probs);
  if (reference_.by_scorers()) {
    TROUPE_CHECK(batch.reference.size() == batch.tokens.size(), batch.reference.size(), batch.tokens.size());
    start.reference = batch.reference;
  }
  targets_ = answer_targets(choice_, algorithm_, penalty_, batch, std::move(start), turn_tokens_);
  trains_policy_ = false;
  answers_ = batch.answers();
  const bool nothing = !batch.kept.empty() && std::ranges::none_of(batch.kept, [](uint8_t flag) { return flag != 0; });
  if (filtration_ && !nothing) filter_answers();
  return {nothing ? 0.0 : static_cast<double>(answers_), targets_.figures};
}

// Makes batch_ of all shards.
AnswerStart AnswerObjective::join(const RoundResult& all) {
  std::vector<StartedAnswers> told;
  std::vector<const AnswerBatch*> batches(own_.begin(), own_.end());
  std::vector<const AnswerStart*> starts;
  for (const AnswerStart& start : starts_) starts.push_back(&start);
  if (!holds_all()) {
    batches.clear(), starts.clear();
    for (const Array& bytes : all.data) told.push_back(started_answers(bytes));
    for (const StartedAnswers& shard : told) batches.push_back(&shard.batch), starts.push_back(&shard.start);
  }
  TROUPE_CHECK(batches.size() == shards_, batches.size(), shards_);
  AnswerStart result = join(batches, starts);
  starts_.clear();
  return result;
}

AnswerStart AnswerObjective::join(std::span<const AnswerBatch* const> batches,
                                  std::span<const AnswerStart* const> starts) {
  shard_groups_ = {0};
  for (const AnswerBatch* batch : batches) shard_groups_.push_back(shard_groups_.back() + batch->groups());
  batch_ = shards_ == 1 ? own_.front() : &joined_.emplace(joined_answers(batches));
  return joined_starts(starts);
}

void AnswerObjective::filter_answers() {
  const std::vector<int64_t> answers = draw_answers(*batch_, targets_.scores, *filtration_, seed_);
  targets_ = targets_of(targets_, *batch_, answers);
  std::vector<int64_t> different;
  std::ranges::unique_copy(answers, std::back_inserter(different));
  targets_.figures.drawn = static_cast<double>(different.size()) / static_cast<double>(answers_);
  drawn_ = batch_of(*batch_, answers);
  batch_ = &*drawn_;
  shard_groups_ = {0, batch_->groups()};  // there is one
}

// The new coefficient counts from the next update on.
void AnswerObjective::end(double /*progress*/) {
  batch_ = nullptr;
  own_.clear();
  drawn_.reset();
  joined_.reset();
  if (!reference_.used() || reference_.kl_controller != "adaptive" || !trains_policy_) return;
  const double kl = targets_.figures.reference->kl;
  if (!std::isfinite(kl)) return;  // an update without a step
  AdaptiveKl controller(penalty_.coef, reference_.kl_target, reference_.kl_horizon);
  controller.update(kl, static_cast<double>(answers_));
  penalty_.coef = controller.value();
}

void AnswerObjective::save(std::map<std::string, Array>& state) const {
  if (!trainer_.reference()) return;
  for (auto& [name, tensor] : trainer_.reference()->views()) state[kReference + name] = std::move(tensor);
  state[kReferenceCoef] = Array::of<double>({1}, std::vector<double>{penalty_.coef});
}

std::function<void()> AnswerObjective::read(std::map<std::string, Array>& state) {
  if (!trainer_.reference()) return [] {};
  std::map<std::string, Array> weights;
  const auto take = [&](const std::string& name, const Shape& shape, DType dtype) {
    check_tensor(state, name, shape, dtype, "optimizer");
    Array result = std::move(state.at(name));
    state.erase(name);
    return result;
  };
  for (const TensorSpec& spec : trainer_.reference()->signature()->tensors)
    weights[spec.name] = take(kReference + spec.name, spec.shape, spec.dtype);
  check_initial_weights(*trainer_.reference()->signature(), weights);
  const double coef = take(kReferenceCoef, {1}, DType::f64).view<double>()[0];
  if (!(std::isfinite(coef) && coef >= 0))
    throw ConfigError(std::string("learner state: ") + kReferenceCoef + " is " + number_text(coef) +
                      ", expected a number >= 0");
  return [this, weights = std::move(weights), coef] {
    trainer_.load_reference(weights);
    if (reference_.kl_controller == "adaptive") penalty_.coef = coef;
  };
}

std::vector<ShardNumbers> AnswerObjective::begin_epoch(uint64_t key) {
  of_minibatches_.assign(static_cast<size_t>(minibatches_), {});
  for (size_t shard = 0; shard + 1 < shard_groups_.size(); ++shard) {
    const auto groups = std::pair(shard_groups_[shard], shard_groups_[shard + 1]);
    const auto parts = answer_minibatches(*batch_, groups, minibatches_, shard_key(key, shard));
    for (size_t i = 0; i < parts.size(); ++i)
      of_minibatches_[i].insert(of_minibatches_[i].end(), parts[i].begin(), parts[i].end());
  }
  return {};
}

std::optional<std::vector<size_t>> AnswerObjective::begin_step(size_t minibatch, const UpdateSettings& settings) {
  const auto tokens = [&](int64_t g) { return counts_of(*batch_, batch_->kept, g).tokens; };
  if (std::ranges::none_of(of_minibatches_[minibatch], tokens)) return std::nullopt;
  trains_policy_ |= settings.loss.train_policy;
  return trainer_.begin_step(*batch_, targets_, of_minibatches_[minibatch], settings);
}

}  // namespace

std::map<std::string, Array> saved_reference(const std::map<std::string, Array>& optimizer) {
  std::map<std::string, Array> weights;
  for (const auto& [name, tensor] : optimizer)
    if (name.starts_with(kReference)) weights[name.substr(kReference.size())] = tensor;
  return weights;
}

std::unique_ptr<Learner> make_answer_learner(const LearnerConfig& config, const LmModel& model,
                                             const AnswerTrainerOptions& options) {
  return make_update_learner(config, std::make_unique<AnswerObjective>(config, model, options));
}

}  // namespace troupe
