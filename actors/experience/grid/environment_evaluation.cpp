#include "actors/experience/grid/environment_evaluation.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "actors/experience/grid/episode_player.h"
#include "envs/make/make_env.h"
#include "runtime/base/rng.h"

namespace troupe {
namespace {

class EnvironmentEvaluation final : public EvaluationPlayer {
 public:
  EnvironmentEvaluation(std::shared_ptr<const RunSpec> run, std::shared_ptr<const RunFactories> factories)
      : run_(std::move(run)), factories_(std::move(factories)) {}

  void begin(const WeightSnapshot& weights, const EvaluationPlan& plan) override {
    player_.reset();
    episodes_ = static_cast<uint64_t>(plan.episodes);
    if (!policy_)
      policy_ = factories_->make_evaluation_policy ? factories_->make_evaluation_policy() : factories_->make_policy();
    policy_->load(weights);
    const RunConfig& config = run_->config;
    player_.emplace(factories_->make_evaluation_env(std::min(config.evaluation.rows, plan.episodes)),
                    derive_key(plan.seed, "evaluation"), plan.episodes, run_->recurrence.state_size,
                    rows_per_world(config.env, config.evaluation.env_params));
  }
  void step() override { player_->step(*policy_); }
  bool complete() const override { return !player_ || player_->complete(); }
  uint64_t planned() const override { return episodes_; }
  EpisodeSummary summary() const override { return player_ ? player_->summary() : EpisodeSummary(); }

 private:
  std::shared_ptr<const RunSpec> run_;
  std::shared_ptr<const RunFactories> factories_;
  std::unique_ptr<Policy> policy_;
  std::optional<EpisodePlayer> player_;
  uint64_t episodes_ = 0;
};

}  // namespace

std::unique_ptr<EvaluationPlayer> make_environment_evaluation(std::shared_ptr<const RunSpec> run,
                                                              std::shared_ptr<const RunFactories> factories,
                                                              std::shared_ptr<Grader> /*grader*/) {
  return std::make_unique<EnvironmentEvaluation>(std::move(run), std::move(factories));
}

}  // namespace troupe
