#include "actors/evaluation_player.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "actors/experience/answers/generation_scheduler.h"
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
      : context_(std::move(context)),
        batch_(context_->config.task.verifier.empty() ? 1 : kScoredTogether),
        scorer_(std::move(scorer)) {}

  void begin(const WeightSnapshot& weights, uint64_t seed, int64_t episodes) override {
    scheduler_.reset();
    prompts_.clear();
    rewards_.clear();
    answers_.clear();
    answered_.clear();
    ids_.clear();
    tokens_ = right_ = without_score_ = 0;
    problem_.clear();
    const TokenRun& run = *context_->tokens;
    if (!generator_) generator_ = context_->make_generator();
    if (!scorer_) scorer_ = kind_of(*context_).make_scorers(*context_).at(0);
    generator_->load(weights);
    scheduler_.emplace(*generator_, run.generation(context_->config));
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
      answered_.push_back(prompts_[static_cast<size_t>(done.ticket)]);
      ids_.push_back(done.answers.front().tokens);
      answers_.push_back(context_->tokens->decode(ids_.back()));
    }
    if (answers_.size() >= batch_ || scheduler_->idle()) score();
  }
  bool complete() const override { return !scheduler_ || scheduler_->idle(); }
  uint64_t planned() const override { return prompts_.size(); }
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
  static constexpr size_t kScoredTogether = 32;

  // Scores the answers that wait.
  void score() {
    const std::vector<Score> scores = scorer_->score_tokens_each(answered_, answers_, ids_);
    for (size_t i = 0; i < scores.size(); ++i) {
      if (scores[i].scored != Scored::yes) {
        ++without_score_;
        if (!scores[i].problem.empty()) problem_ = scores[i].problem;
        continue;
      }
      rewards_.push_back(scores[i].reward);
      right_ += scores[i].right ? 1 : 0;
      tokens_ += ids_[i].size();
    }
    answered_.clear();
    answers_.clear();
    ids_.clear();
    if (complete() && rewards_.empty() && without_score_ > 0)
      throw ScoringFailed("no answer has a score" + (problem_.empty() ? "" : "; the last problem: " + problem_));
  }

  RunContextPtr context_;
  size_t batch_;  // answers that are scored together
  std::unique_ptr<Generator> generator_;
  std::shared_ptr<Scorer> scorer_;
  std::optional<GenerationScheduler> scheduler_;
  std::vector<Prompt> prompts_;
  // Of the answers that wait for a score:
  std::vector<Prompt> answered_;
  std::vector<std::string> answers_;
  std::vector<std::vector<int32_t>> ids_;
  std::vector<double> rewards_;  // of those that have one
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
