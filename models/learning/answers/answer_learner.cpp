#include "models/learning/answers/answer_learner.h"

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "models/learning/answers/answer_targets.h"
#include "models/learning/objective.h"
#include "models/learning/update_learner.h"

namespace troupe {
namespace {

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
        trainer_(model, config.trainer, choice_, with_coefficient(options, config.algorithm)) {}

  const AlgorithmChoice& choice() const override { return choice_; }
  void require_weights() override {}  // there from the beginning
  const WeightBlock& weights() const override { return trainer_.weights(); }
  void load_weights(const std::map<std::string, Array>& model) override { trainer_.load_weights(model); }
  OptimizerState& optimizer() override { return trainer_.optimizer(); }
  std::shared_ptr<const Stager> stager() const override { return std::make_shared<const AnswerStager>(); }
  std::span<const float> log_std() const override { return {}; }
  bool has_critic() const override { return trainer_.has_critic(); }
  void end_warmup() override {
    trainer_.optimizer().reset();
    trainer_.begin_critic();
  }
  StepReport imitate(StagedBatch& demonstrations, double learning_rate) override {
    return trainer_.imitate(dynamic_cast<AnswerBatch&>(demonstrations), learning_rate);
  }
  void save(std::map<std::string, Array>& /*state*/) const override {}
  std::function<void()> read(std::map<std::string, Array>& /*state*/) override {
    return [] {};
  }

  EpochInput begin(StagedBatch& staged) override;
  size_t begin_epoch(uint64_t key) override;
  std::optional<size_t> begin_step(size_t minibatch, const UpdateSettings& settings) override;
  void backward(size_t part) override { trainer_.backward(part); }
  StepReport apply() override { return trainer_.apply(); }
  void merge_kl_over_ranks(LossReport& /*epoch*/) override {}  // there is one
  void end(double /*progress*/) override { batch_ = nullptr; }

 private:
  static AnswerTrainerOptions with_coefficient(AnswerTrainerOptions options, const AlgorithmConfig& algorithm) {
    options.value_coef = algorithm.value_coef;
    return options;
  }

  AlgorithmConfig algorithm_;
  int64_t minibatches_;
  AlgorithmChoice choice_;
  AnswerTrainer trainer_;
  // Of the update under way.
  const AnswerBatch* batch_ = nullptr;
  AnswerTargets targets_;
  std::vector<std::vector<int64_t>> of_minibatches_;  // groups
};

EpochInput AnswerObjective::begin(StagedBatch& staged) {
  batch_ = &dynamic_cast<AnswerBatch&>(staged);
  AnswerStart start = trainer_.start(*batch_, needs_of(choice_, algorithm_, has_critic()));
  targets_ = answer_targets(choice_, algorithm_, *batch_, std::move(start));
  return {static_cast<double>(batch_->answers()), targets_.figures};
}

size_t AnswerObjective::begin_epoch(uint64_t key) {
  of_minibatches_ = group_minibatches(*batch_, minibatches_, key);
  return of_minibatches_.size();
}

std::optional<size_t> AnswerObjective::begin_step(size_t minibatch, const UpdateSettings& settings) {
  if (of_minibatches_[minibatch].empty()) return std::nullopt;
  return trainer_.begin_step(*batch_, targets_, of_minibatches_[minibatch], settings);
}

}  // namespace

std::unique_ptr<Learner> make_answer_learner(const LearnerConfig& config, const LmModel& model,
                                             const AnswerTrainerOptions& options) {
  return make_update_learner(config, std::make_unique<AnswerObjective>(config, model, options));
}

}  // namespace troupe
