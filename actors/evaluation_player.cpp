#include "actors/evaluation_player.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "actors/experience/answers/answer_player.h"
#include "actors/experience/common/request_retry.h"
#include "actors/experience/kinds.h"
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
  bool complete() const override { return !player_ || player_->complete(); }
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
  AnswerEvaluation(RunContextPtr context, std::shared_ptr<Scorer> scorer)
      : context_(std::move(context)), scorer_(std::move(scorer)) {}

  void begin(const WeightSnapshot& weights, uint64_t seed, int64_t episodes) override {
    player_.reset();
    planned_ = 0;
    rewards_.clear();
    tokens_ = right_ = without_score_ = 0;
    problem_.clear();
    const TokenRun& run = *context_->tokens;
    if (!generator_) generator_ = context_->make_generator();
    if (!scorer_) scorer_ = kind_of(*context_).make_scorers(*context_).at(0);
    generator_->load(weights);
    player_.emplace(context_->config, run, *generator_, scorer_.get());
    for (const Prompt& prompt : run.task->held_out(derive_key(seed, "evaluation"), episodes)) {
      player_->ask(prompt, run.encode(prompt), {0}, /*greedy=*/true);
      ++planned_;
    }
  }
  void step() override {
    for (const PlayedPrompt& played : player_->step())
      for (const PlayedAnswer& answer : played.answers) count(answer);
    if (complete() && rewards_.empty() && without_score_ > 0)
      throw ScoringFailed("no answer has a score" + (problem_.empty() ? "" : "; the last problem: " + problem_));
  }
  bool complete() const override { return !player_ || player_->complete(); }
  uint64_t planned() const override { return planned_; }
  EpisodeSummary summary() const override {
    EpisodeSummary result;
    result.episodes = result.played = rewards_.size();
    result.failed = without_score_;
    result.last_error = problem_;
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
  void count(const PlayedAnswer& answer) {
    const Score& score = answer.score;
    if (score.scored != Scored::yes) {
      ++without_score_;
      if (!score.problem.empty()) problem_ = score.problem;
      return;
    }
    rewards_.push_back(score.reward);
    right_ += score.right ? 1 : 0;
    tokens_ += answer.tokens;
  }

  RunContextPtr context_;
  std::unique_ptr<Generator> generator_;
  std::shared_ptr<Scorer> scorer_;
  std::optional<AnswerPlayer> player_;
  uint64_t planned_ = 0;
  std::vector<double> rewards_;  // of the answers that have a score
  uint64_t tokens_ = 0, right_ = 0, without_score_ = 0;
  std::string problem_;  // of the last that failed
};

using PlayerPtr = std::unique_ptr<EvaluationPlayer>;

PlayerPtr play_episodes(RunContextPtr context, std::shared_ptr<Scorer> /*scorer*/) {
  return std::make_unique<EnvironmentEvaluation>(std::move(context));
}

PlayerPtr answer_prompts(RunContextPtr context, std::shared_ptr<Scorer> scorer) {
  return std::make_unique<AnswerEvaluation>(std::move(context), std::move(scorer));
}

// In the order of Experience.
constexpr PlayerPtr (*kPlayers[])(RunContextPtr, std::shared_ptr<Scorer>) = {play_episodes, answer_prompts};

}  // namespace

std::unique_ptr<EvaluationPlayer> make_evaluation_player(RunContextPtr context, std::shared_ptr<Scorer> scorer) {
  return entry_of(kPlayers, experience_of(context->config))(context, std::move(scorer));
}

}  // namespace troupe
