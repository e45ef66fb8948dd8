#include "models/learning/answers/lm_learner.h"

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "models/learning/answers/answer_advantages.h"
#include "models/learning/metrics.h"
#include "models/learning/update_settings.h"
#include "models/weights/initial_weights.h"
#include "runtime/base/errors.h"
#include "runtime/base/rng.h"

namespace troupe {
namespace {

class AnswerStager final : public Stager {
 public:
  std::unique_ptr<StagedBatch> stage(const SuperBatch& batch) const override { return gather_answers(batch); }
};

class LmLearner final : public Learner {
 public:
  LmLearner(const LearnerConfig& config, const LmModel& model, const AnswerTrainerOptions& options)
      : config_(config),
        choice_(choose_algorithm(config.algorithm)),
        trainer_(model, config.trainer, choice_, options),
        kl_coef_(config.algorithm.kl_coef) {}

  std::shared_ptr<const Signature> signature() const override { return trainer_.weights().signature(); }
  WeightsPtr snapshot(PolicyVersion version) const override { return trainer_.weights().snapshot(version); }
  std::shared_ptr<const Stager> stager() const override { return std::make_shared<const AnswerStager>(); }
  UpdateReport update(StagedBatch& staged, double progress) override;
  LearnerState save() const override;
  void begin_from(const std::map<std::string, Array>& model) override;
  void load(const LearnerState& state) override;

 private:
  EpochReport run_epoch(const AnswerBatch& batch, std::span<const float> advantages, const UpdateSettings& settings,
                        uint64_t index);
  void adapt_kl(const EpochReport& last, int64_t answers);

  LearnerConfig config_;
  AlgorithmChoice choice_;
  AnswerTrainer trainer_;
  double kl_coef_;
  uint64_t updates_ = 0;
};

UpdateReport LmLearner::update(StagedBatch& staged, double progress) {
  const auto& batch = dynamic_cast<AnswerBatch&>(staged);
  const UpdateSettings settings = update_settings(config_, updates_, kl_coef_, progress);
  UpdateReport report;
  EpochReport last;
  const AnswerAdvantages advantages = answer_advantages(choice_, batch);
  const std::optional<TargetFigures> figures = TargetFigures{.advantages = advantages.before_whitening,
                                                             .returns = advantages.returns,
                                                             .explained_variance = 0,
                                                             .correction = {}};
  for (int64_t epoch = 0; epoch < config_.trainer.epochs; ++epoch) {
    last = run_epoch(batch, advantages.advantages, settings, static_cast<uint64_t>(epoch));
    report.steps += last.steps;
    report.skipped += last.skipped;
    ++report.epochs;
    const double target_kl = config_.algorithm.target_kl;
    if (target_kl > 0.0 && last.loss.diagnostics.kl_k3 > target_kl) break;
  }
  ++updates_;
  report.metrics = metrics_of({.choice = choice_,
                               .settings = settings,
                               .epoch = last,
                               .targets = figures,
                               .skipped = report.skipped,
                               .log_std = {},
                               .penalizes_kl = config_.algorithm.kl_coef != 0.0,
                               .critic = false});
  adapt_kl(last, batch.answers());
  return report;
}

EpochReport LmLearner::run_epoch(const AnswerBatch& batch, std::span<const float> advantages,
                                 const UpdateSettings& settings, uint64_t index) {
  EpochReport report;
  const uint64_t key = derive_key(derive_key(config_.seed, "shuffle"), "epoch", updates_, index);
  const std::vector<std::vector<int64_t>> parts = group_minibatches(batch, config_.trainer.minibatches, key);
  LossSettings own = settings.loss;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].empty()) continue;
    own.key = derive_key(key, "minibatch", i);
    const AnswerTrainer::Step step = trainer_.step(batch, advantages, parts[i], settings.rates, own);
    if (!step.applied) {
      ++report.skipped;
      continue;
    }
    ++report.steps;
    report.grad_norm_sum += step.grad_norm;
    report.loss.add_step(step.loss);
  }
  return report;
}

// The new coefficient counts from the next update on.
void LmLearner::adapt_kl(const EpochReport& last, int64_t answers) {
  const AlgorithmConfig& algorithm = config_.algorithm;
  if (algorithm.kl_controller != "adaptive" || last.steps == 0) return;
  AdaptiveKl controller(kl_coef_, algorithm.kl_target, algorithm.kl_horizon);
  controller.update(last.loss.kl, static_cast<double>(answers));
  kl_coef_ = controller.value();
}

LearnerState LmLearner::save() const {
  LearnerState state;
  state.model = trainer_.weights().save();
  trainer_.optimizer().save(state.optimizer, state.scalars);
  state.scalars["updates"] = static_cast<double>(updates_);
  if (config_.algorithm.kl_controller == "adaptive") state.scalars["kl_coef"] = kl_coef_;
  return state;
}

void LmLearner::begin_from(const std::map<std::string, Array>& model) {
  TROUPE_CHECK(updates_ == 0, updates_);
  check_initial_weights(*signature(), model);
  trainer_.load_weights(model);
}

void LmLearner::load(const LearnerState& state) {
  check_initial_weights(*signature(), state.model);
  check_moments(trainer_.weights(), state.optimizer, state.scalars);
  const double updates = saved_count(state.scalars, "updates");
  const double kl_coef = saved_kl_coef(state.scalars, config_.algorithm.kl_coef);
  trainer_.load_weights(state.model);
  trainer_.optimizer().load(state.optimizer, state.scalars);
  updates_ = static_cast<uint64_t>(updates);
  kl_coef_ = kl_coef;
}

}  // namespace

std::unique_ptr<Learner> make_lm_learner(const LearnerConfig& config, const LmModel& model,
                                         const AnswerTrainerOptions& options) {
  return std::make_unique<LmLearner>(config, model, options);
}

}  // namespace troupe
