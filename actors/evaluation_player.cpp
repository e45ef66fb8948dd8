#include "actors/evaluation_player.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "actors/experience/answers/generation_scheduler.h"
#include "envs/make/make_env.h"
#include "runtime/base/rng.h"

namespace troupe {

namespace {

class EnvironmentEvaluation final : public EvaluationPlayer {
 public:
  explicit EnvironmentEvaluation(RunContextPtr context) : context_(std::move(context)) {}

  void begin(const WeightSnapshot& weights, uint64_t seed, int64_t episodes) override {
    player_.reset();
    episodes_ = static_cast<uint64_t>(episodes);
    if (!policy_)
      policy_ = context_->make_evaluation_policy ? context_->make_evaluation_policy() : context_->make_policy();
    policy_->load(weights);
    const RunConfig& config = context_->config;
    player_.emplace(context_->make_evaluation_env(std::min(config.evaluation.rows, episodes)),
                    derive_key(seed, "evaluation"), episodes, context_->recurrence.state_size,
                    rows_per_world(config.env, config.evaluation.env_params));
  }
  void step() override { player_->step(*policy_); }
  bool complete() const override { return player_->complete(); }
  uint64_t planned() const override { return episodes_; }
  EpisodeSummary summary() const override { return player_ ? player_->summary() : EpisodeSummary(); }

 private:
  RunContextPtr context_;
  std::unique_ptr<Policy> policy_;
  std::optional<EpisodePlayer> player_;
  uint64_t episodes_ = 0;
};

// The most likely answers to held-out prompts.
class AnswerEvaluation final : public EvaluationPlayer {
 public:
  explicit AnswerEvaluation(RunContextPtr context) : context_(std::move(context)) {}

  void begin(const WeightSnapshot& weights, uint64_t seed, int64_t episodes) override {
    const TokenRun& run = *context_->tokens;
    if (!generator_) generator_ = context_->make_generator();
    generator_->load(weights);
    scheduler_.emplace(*generator_, run.generation(context_->config));
    rewards_.clear();
    tokens_ = right_ = 0;
    prompts_ = run.task->held_out(derive_key(seed, "evaluation"), episodes);
    for (size_t i = 0; i < prompts_.size(); ++i)
      scheduler_->add({.ticket = i,
                       .prompt = run.encode(prompts_[i]),
                       .max_tokens = run.answer_tokens,
                       .keys = {0},
                       .greedy = true});
  }
  void step() override {
    for (const Generation& done : scheduler_->step(*generator_, 0)) {
      const std::vector<int32_t>& answer = done.answers.front().tokens;
      const Score score =
          context_->tokens->task->score(prompts_[static_cast<size_t>(done.ticket)], context_->tokens->decode(answer));
      rewards_.push_back(score.reward);
      right_ += score.right ? 1 : 0;
      tokens_ += answer.size();
    }
  }
  bool complete() const override { return scheduler_->idle(); }
  uint64_t planned() const override { return prompts_.size(); }
  EpisodeSummary summary() const override {
    EpisodeSummary result;
    result.episodes = result.played = rewards_.size();
    if (rewards_.empty()) return result;
    const auto count = static_cast<double>(rewards_.size());
    double sum = 0, squares = 0;
    for (const double reward : rewards_) sum += reward;
    result.return_mean = sum / count;
    for (const double reward : rewards_) squares += (reward - result.return_mean) * (reward - result.return_mean);
    result.return_std = std::sqrt(squares / count);
    result.return_min = std::ranges::min(rewards_);
    result.return_max = std::ranges::max(rewards_);
    result.length_mean = static_cast<double>(tokens_) / count;
    result.success_rate = static_cast<double>(right_) / count;
    return result;
  }

 private:
  RunContextPtr context_;
  std::unique_ptr<Generator> generator_;
  std::optional<GenerationScheduler> scheduler_;
  std::vector<Prompt> prompts_;
  std::vector<double> rewards_;  // of the answers that have ended
  uint64_t tokens_ = 0, right_ = 0;
};

}  // namespace

std::unique_ptr<EvaluationPlayer> make_evaluation_player(RunContextPtr context) {
  if (is_token_run(context->config)) return std::make_unique<AnswerEvaluation>(std::move(context));
  return std::make_unique<EnvironmentEvaluation>(std::move(context));
}

}  // namespace troupe
