#include "sim/fake_scores.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <utility>

#include "runtime/base/rng.h"
#include "sim/fakes.h"

namespace troupe::sim {

namespace {

uint64_t hash_of(uint64_t what, std::string_view prompt) { return derive_key(what, prompt); }
uint64_t hash_of(uint64_t what, std::string_view prompt, std::string_view answer) {
  return derive_key(derive_key(what, prompt), answer);
}

double number(uint64_t hash) { return static_cast<double>(hash >> 11) / static_cast<double>(uint64_t{1} << 52) - 1; }

std::string whole_text(const std::vector<Turn>& earlier, const std::string& answer) {
  std::string text;
  for (const Turn& turn : earlier) text += turn.answer + turn.message;
  return text + answer;
}

class FakeVerifier final : public Grader {
 public:
  explicit FakeVerifier(World& world) : world_(world) {}

  std::vector<Score> score(const Prompt& /*prompt*/, std::span<const std::string> answers) override {
    world_.violate("answers are scored without their tokens");
    return std::vector<Score>(answers.size());
  }
  std::vector<Score> score_detailed(const Prompt& prompt, std::span<const std::string> answers,
                                    DetailsOfEach details) override {
    return score_detailed_each(std::vector<const Prompt*>(answers.size(), &prompt), answers, details);
  }
  std::vector<Score> score_detailed_each(PromptOfEach prompts, std::span<const std::string> answers,
                                         DetailsOfEach details) override {
    if (abandoned_) return failed(answers.size(), "the verifier was abandoned");
    for (size_t i = 0; i < answers.size(); ++i)
      if (text_of(details[i].tokens) != whole_text(details[i].earlier, answers[i]))
        world_.violate("an answer is scored with the tokens of another one");
    if (world_.running_kind == "grader") return training_call(prompts, answers);
    std::vector<Score> scores;
    for (size_t i = 0; i < answers.size(); ++i) scores.push_back(score_of(prompts[i]->text, answers[i]));
    return scores;
  }
  std::vector<Reply> reply(PromptOfEach prompts, std::span<const std::string> answers, DetailsOfEach details) override {
    if (world_.running_kind == "grader" && world_.fault(world_.scenario.score_fails))
      throw std::runtime_error("a reply failed on purpose");
    std::vector<Reply> replies;
    for (size_t i = 0; i < answers.size(); ++i) {
      std::vector<Turn> turns = details[i].earlier;
      turns.push_back({answers[i]});
      replies.push_back({.message = message_after(prompts[i]->text, turns)});
    }
    return replies;
  }
  size_t answers_per_call(ScoreKind /*kind*/) const override {
    return static_cast<size_t>(world_.scenario.config.task.verifier_batch);
  }
  void abandon() override { abandoned_ = true; }

 private:
  static std::vector<Score> failed(size_t count, const std::string& problem) {
    return std::vector<Score>(count, Score{.scored = Scored::failed, .problem = problem});
  }

  std::vector<Score> training_call(PromptOfEach prompts, std::span<const std::string> answers) {
    const auto group = static_cast<size_t>(answers_asked(world_.scenario.config));
    const size_t most = answers_per_call(ScoreKind::scores);
    if (answers.size() % group != 0 || answers.size() > std::max(group, most))
      world_.violate("a verifier is called with " + std::to_string(answers.size()) + " answers, in groups of " +
                     std::to_string(group) + ", at most " + std::to_string(most));
    if (answers.size() > group) ++world_.scores.shared_calls;
    if (world_.fault(world_.scenario.score_slow)) world_.seconds_to_pass += world_.rng.uniform_double() * 3;
    std::vector<Score> scores;
    for (size_t begin = 0; begin + group <= answers.size(); begin += group)
      std::ranges::move(score_group(*prompts[begin], answers.subspan(begin, group)), std::back_inserter(scores));
    if (world_.fault(world_.scenario.score_fails)) fail(scores);
    return scores;
  }

  std::vector<Score> score_group(const Prompt& prompt, std::span<const std::string> answers) {
    if (world_.fault(world_.scenario.verifier_dies)) {
      world_.scores.lost.insert(group_key(prompt.text, answers));
      return failed(answers.size(), "the verifier died on purpose");
    }
    std::vector<Score> scores;
    for (const std::string& answer : answers) scores.push_back(training_score(world_.scenario, prompt.text, answer));
    return scores;
  }

  // The call fails in one of the ways in which one can.
  void fail(std::vector<Score>& scores) {
    const uint64_t way = world_.rng.below(3);
    if (way == 0) throw std::runtime_error("a call failed on purpose");
    if (way == 1) return scores.pop_back();
    scores.back() = {.reward = std::numeric_limits<double>::quiet_NaN()};
  }

  World& world_;
  bool abandoned_ = false;
};

}  // namespace

uint64_t group_key(std::string_view prompt, std::span<const std::string> answers) {
  uint64_t key = derive_key(0, prompt);
  for (const std::string& answer : answers) key = derive_key(key, answer);
  return key;
}

bool may_lack_scores(const Scenario& scenario) { return scenario.unscored || scenario.verifier_dies > 0; }

Score score_of(std::string_view prompt, std::string_view answer) {
  Score score;
  // All answers to one of three prompts have the same reward, so that some groups are without spread.
  const bool same = hash_of(1, prompt) % 3 == 0;
  score.reward = number(same ? hash_of(2, prompt) : hash_of(2, prompt, answer));
  score.right = hash_of(3, prompt, answer) % 2 == 0;
  score.parts = {{"form", number(hash_of(4, prompt, answer))}};
  const uint64_t more = hash_of(5, prompt, answer);
  if (more % 3 == 0) score.parts.emplace_back("length", number(more));
  return score;
}

Score training_score(const Scenario& scenario, std::string_view prompt, std::string_view answer) {
  if (!scenario.unscored) return score_of(prompt, answer);
  if (hash_of(6, prompt, answer) % 5 == 0) return {.scored = Scored::failed, .problem = "failed on purpose"};
  if (hash_of(7, prompt, answer) % 5 == 0) return {.scored = Scored::none};
  return score_of(prompt, answer);
}

std::vector<std::shared_ptr<Grader>> fake_verifiers(World& world) {
  std::vector<std::shared_ptr<Grader>> verifiers;
  for (int64_t i = 0; i < world.scenario.config.task.verifier_processes; ++i)
    verifiers.push_back(std::make_shared<FakeVerifier>(world));
  return verifiers;
}

}  // namespace troupe::sim
