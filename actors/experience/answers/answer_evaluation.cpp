#include "actors/experience/answers/answer_evaluation.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "actors/experience/answers/answer_graders.h"
#include "actors/experience/answers/answer_player.h"
#include "actors/experience/answers/pass_at.h"
#include "actors/experience/common/request_retry.h"
#include "runtime/base/rng.h"

namespace troupe {
namespace {

class AnswerEvaluation final : public EvaluationPlayer {
 public:
  AnswerEvaluation(std::shared_ptr<const RunSpec> run, std::shared_ptr<const RunFactories> factories,
                   std::shared_ptr<Grader> grader)
      : run_(std::move(run)), factories_(std::move(factories)), grader_(std::move(grader)) {}

  void begin(const WeightSnapshot& weights, const EvaluationPlan& plan) override {
    release();
    planned_ = 0;
    rewards_.clear();
    tokens_ = right_ = cut_ = without_score_ = 0;
    pass_at_ = PassAt(static_cast<uint64_t>(plan.answers));
    problem_.clear();
    lines_.clear();
    version_ = weights.version;
    const TokenRun& tokens = *run_->tokens;
    const double temperature = plan.temperature > 0 ? plan.temperature : run_->config.generation.temperature;
    generator_ = factories_->make_generator(temperature);
    if (plan.reference) {
      reference_ = factories_->make_reference(temperature, run_->config.inference.threads);
      reference_->load(*plan.reference);
    }
    if (!grader_) grader_ = make_answer_graders(*run_).at(0);
    generator_->load(weights);
    player_.emplace(run_->config, tokens, *generator_, grader_.get());
    for (const Prompt& prompt : tokens.task->held_out(derive_key(plan.seed, "evaluation"), plan.episodes)) {
      std::vector<uint64_t> keys;
      for (int64_t a = 0; a < plan.answers; ++a)
        keys.push_back(derive_key(plan.seed, "evaluation answer", planned_ + static_cast<uint64_t>(a)));
      planned_ += keys.size();
      player_->ask(prompt, tokens.encode(prompt), std::move(keys), /*greedy=*/plan.temperature == 0);
    }
  }
  void step() override {
    std::vector<PlayedPrompt> all = player_->step();
    if (reference_ && !all.empty()) add_kl(all);
    for (const PlayedPrompt& played : all) count(played);
    if (complete()) release();
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
    result.cut_fraction = static_cast<double>(cut_) / count;
    result.success_rate = static_cast<double>(right_) / count;
    result.pass_at = pass_at_.result();
    return result;
  }
  std::string take_answers() override { return std::exchange(lines_, {}); }

 private:
  // What another evaluation makes again: weights, keys and values.
  void release() {
    player_.reset();
    generator_.reset();
    reference_.reset();
  }
  // Of each answer: the mean over its tokens of log p - log q.
  void add_kl(std::vector<PlayedPrompt>& all) {
    struct Ids {
      std::vector<int32_t> prompt, tokens, messages, message_lengths;
      std::vector<int64_t> offsets{0};
    };
    std::vector<Ids> ids;
    for (const PlayedPrompt& played : all) {
      Ids& of = ids.emplace_back();
      of.prompt = run_->tokens->encode(played.prompt);
      for (const PlayedAnswer& answer : played.answers) {
        of.tokens.insert(of.tokens.end(), answer.tokens.begin(), answer.tokens.end());
        of.messages.insert(of.messages.end(), answer.messages.begin(), answer.messages.end());
        of.message_lengths.insert(of.message_lengths.end(), answer.message_lengths.begin(),
                                  answer.message_lengths.end());
        of.offsets.push_back(static_cast<int64_t>(of.tokens.size()));
      }
    }
    std::vector<PromptAnswers> asked;
    for (const Ids& of : ids) asked.push_back({of.prompt, of.tokens, of.offsets, of.messages, of.message_lengths});
    const std::vector<float> reference = reference_->log_probs(asked);
    auto log_q = reference.begin();
    for (PlayedPrompt& played : all)
      for (PlayedAnswer& answer : played.answers) {
        double sum = 0;
        for (const float log_p : answer.log_probs) sum += static_cast<double>(log_p) - *log_q++;
        answer.kl = sum / static_cast<double>(answer.log_probs.size());
      }
  }
  void count(const PlayedPrompt& played) {
    uint64_t scored = 0, right = 0;
    for (const PlayedAnswer& answer : played.answers) {
      lines_ += answer_line(version_, played.prompt, answer);
      const Score& score = answer.score;
      if (score.scored != Scored::yes) {
        ++without_score_;
        if (!score.problem.empty()) problem_ = score.problem;
        continue;
      }
      ++scored;
      right += score.right ? 1 : 0;
      rewards_.push_back(score.reward);
      tokens_ += answer.tokens.size();
      cut_ += answer.finish == Finish::length ? 1 : 0;
    }
    right_ += right;
    pass_at_.add(scored, right);
  }

  std::shared_ptr<const RunSpec> run_;
  std::shared_ptr<const RunFactories> factories_;
  std::unique_ptr<Generator> generator_;
  std::unique_ptr<ReferenceModel> reference_;  // null without one
  std::shared_ptr<Grader> grader_;
  std::optional<AnswerPlayer> player_;
  uint64_t planned_ = 0;
  std::vector<double> rewards_;  // of the answers that have a score
  uint64_t tokens_ = 0, right_ = 0, cut_ = 0, without_score_ = 0;
  PassAt pass_at_;
  std::string problem_;  // of the last that failed
  PolicyVersion version_;
  std::string lines_;  // about answers, not taken yet
};

}  // namespace

std::unique_ptr<EvaluationPlayer> make_answer_evaluation(std::shared_ptr<const RunSpec> run,
                                                         std::shared_ptr<const RunFactories> factories,
                                                         std::shared_ptr<Grader> grader) {
  return std::make_unique<AnswerEvaluation>(std::move(run), std::move(factories), std::move(grader));
}

}  // namespace troupe
