// Scores by functions in Python (tests/tasks/verifiers.py): of a worker's answers, at the start of a run, and in
// evaluations.
#include "actors/experience/answers/python_grader.h"

#include <array>
#include <fstream>
#include <string>
#include <vector>

#include "actors/experience/answers/answer_words.h"
#include "actors/experience/common/request_retry.h"
#include "actors/experience/kinds.h"
#include "actors/run_context.h"
#include "runtime/base/rng.h"
#include "tests/support/config_error.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"
#include "tests/support/token_config.h"
#include "text/char_tokenizer.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr uint64_t kSeed = 5;
constexpr int64_t kPrompts = 70;  // more than are scored together

RunConfig config_with(const std::string& function) {
  RunConfig config = token_config();
  config.task.verifier = "py:tests/tasks/verifiers.py:" + function;
  return config;
}

// Every answer is one character.
class OneCharacter final : public Generator {
 public:
  std::shared_ptr<const Signature> signature() const override { return nullptr; }
  void load(const WeightSnapshot&) override {}
  int64_t prompt_slots() const override { return 4; }
  int64_t answer_slots() const override { return 4; }
  std::vector<DrawnToken> compute(std::span<const GeneratorPart> parts) override {
    std::vector<DrawnToken> drawn;
    for (const GeneratorPart& part : parts)
      for (const TokenDraw& draw : part.draws)
        drawn.push_back({draw.index == 0 ? CharTokenizer::kFirstCharacter : CharTokenizer::kEos, -0.5f});
    return drawn;
  }
};

RunContextPtr context_with(const std::string& function) {
  auto context = std::make_shared<RunContext>();
  context->config = config_with(function);
  context->tokens = make_token_run(context->config);
  context->make_generator = [](double) { return std::make_unique<OneCharacter>(); };
  return context;
}

EpisodeSummary evaluate(const RunContextPtr& context) {
  const std::unique_ptr<EvaluationPlayer> player = kind_of(*context).make_evaluation(context, context, nullptr);
  player->begin({}, {.seed = kSeed, .episodes = kPrompts});
  while (!player->complete()) player->step();
  return player->summary();
}

// The error at the start of a run with this config.
std::string refusal(const RunConfig& config) {
  return config_error_of([&] { try_verifier(config, *make_token_run(config)->task); });
}

}  // namespace

TEST_CASE("python_grader: answers get scores with parts, and the calls are counted") {
  PythonGrader grader(verifier_target(config_with("with_parts").task));
  CHECK(grader.figures().calls == 0);
  const std::array<std::string, 2> answers{"2", "abc"};
  const std::vector<Score> scores = grader.score({.text = "1+1=", .truth = "2"}, answers);
  REQUIRE(scores.size() == 2);
  CHECK(scores[1].reward == 0.25);
  CHECK(scores[1].right);
  CHECK(scores[1].parts == std::vector<std::pair<std::string, double>>{{"format", 1}, {"length", 3}});
  CHECK(grader.figures().calls == 1);
  CHECK(grader.figures().failed_calls == 0);
  CHECK(grader.figures().restarts == 0);
  CHECK(grader.figures().scored == 2);
  CHECK(grader.figures().busy_us > 0);
}

TEST_CASE("python_grader: answers to different prompts are scored in one call, with the columns of their prompts") {
  PythonGrader grader(verifier_target(config_with("boxed").task));
  const std::array<Prompt, 2> prompts{Prompt{.text = "a", .columns = R"({"ground_truth": "1"})"},
                                      Prompt{.text = "b", .columns = R"({"ground_truth": "2"})"}};
  const std::array<std::string, 2> answers{R"(\boxed{1})", R"(\boxed{1})"};
  const std::vector<Score> scores = grader.score_each(std::array{&prompts[0], &prompts[1]}, answers);
  CHECK(scores.at(0).reward == 1);
  CHECK(scores.at(1).reward == 0);
  CHECK(grader.figures().calls == 1);
}

TEST_CASE("python_grader: answers to other prompts do not fail with those that make a call fail") {
  PythonGrader grader(verifier_target(config_with("raises_at_poison").task));
  ScoreRequests requests;
  for (const auto& answers : std::vector<std::vector<std::string>>{{"2", "3"}, {"poison", "2"}, {"2"}, {"1"}})
    requests.of.push_back({.prompt = {.text = "1+1=", .truth = "2"}, .answers = answers});
  const ScoreReplies replies = score_replies(grader, requests);
  REQUIRE(replies.of.size() == 4);
  std::vector<double> rewards;
  for (const size_t i : {size_t{0}, size_t{2}, size_t{3}})
    for (const Score& score : replies.of[i].scores) rewards.push_back(score.reward);
  CHECK(rewards == std::vector<double>{1, 0, 1, 0});
  REQUIRE(replies.of[1].scores.size() == 2);
  for (const Score& score : replies.of[1].scores) {
    CHECK(score.scored == Scored::failed);
    CHECK(score.problem.starts_with("ValueError: poison"));
  }
  CHECK(grader.figures().calls == 6);  // all, then each request alone, of which one fails twice
  CHECK(grader.figures().scored == 4);
}

TEST_CASE("python_grader: a call that fails is counted, and its answers have failed") {
  PythonGrader grader(verifier_target(config_with("exits").task));
  const std::array<std::string, 2> answers{"2", "3"};
  for (const Score& score : grader.score({.text = "1+1=", .truth = "2"}, answers)) {
    CHECK(score.scored == Scored::failed);
    CHECK(score.problem == "the verifier ended with exit code 7");
  }
  CHECK(grader.figures().calls == 2);
  CHECK(grader.figures().failed_calls == 2);
  CHECK(grader.figures().restarts == 1);
}

TEST_CASE("python_grader: a verifier that cannot be used is refused at the start, in one line") {
  CHECK(refusal(token_config()) == "no error");
  CHECK(refusal(config_with("exact")) == "no error");
  CHECK(
      refusal(config_with("nothing")) ==
      "task.verifier: the verifier tests/tasks/verifiers.py:nothing cannot be loaded: tests/tasks/verifiers.py has no "
      "function nothing");
  const std::string raises = refusal(config_with("raises"));
  CHECK(raises.starts_with("task.verifier: \"py:tests/tasks/verifiers.py:raises\" does not score the right answer \""));
  CHECK(raises.find("\": ValueError: planned (/") != std::string::npos);
  CHECK(raises.find('\n') == std::string::npos);
  CHECK(refusal(config_with("returns_text")).ends_with("\": the score is '1', expected a number"));
  RunConfig named = config_with("names_task");
  CHECK(refusal(named) == "no error");
  named.reward_model.path = "reward";
  CHECK(refusal(named) ==
        "task.verifier: \"py:tests/tasks/verifiers.py:names_task\": the verifier names a part of its score \"task\", "
        "as the run does with a reward model; give it another name");
  RunConfig slow = config_with("hangs");
  slow.task.verifier_timeout = std::chrono::milliseconds(200);
  CHECK(refusal(slow).ends_with("has not answered within task.verifier_timeout_ms (200 ms) and was killed"));
  RunConfig missing = config_with("exact");
  missing.task.python = "no-such-python";
  CHECK(refusal(missing) == "task.python: no-such-python: no program of this name in PATH; task.verifier needs it");
}

TEST_CASE("python_grader: a line without the truth that the verifier needs is refused at the start") {
  const TempFolder folder;
  const std::string path = folder.path() + "/prompts.jsonl";
  std::string lines;
  for (int i = 0; i < 40; ++i) lines += R"({"prompt": "p)" + std::to_string(i) + R"(", "truth": "2"})" + "\n";
  std::ofstream(path) << lines << R"({"prompt": "last", "solution": "2"})";
  RunConfig config = config_with("compute_score");
  config.task.name = "dataset";
  config.task.params = R"({"path": ")" + path + R"("})";
  config.warmup.steps = 0;
  config.generation.max_tokens = 4;
  CHECK(refusal(config) == path +
                               ":41: the verifier requires ground_truth, but the prompt has no "
                               "\"reward_model.ground_truth\", \"ground_truth\" or \"truth\", only \"prompt\" and "
                               "\"solution\"; add it, name the key of the truth in task.params.truth, or give the "
                               "parameter a default");
  config.task.verifier = "py:tests/tasks/verifiers.py:default_truth";
  CHECK(refusal(config) == "no error");
}

TEST_CASE("python_grader: demonstrations that are not right are named") {
  const std::vector<VerifierItem> items = {{"1>", "", "1"}, {"2>", "", "9"}, {"3>", "", "9"}};
  const auto problem = [&](const std::vector<Score>& scores) {
    std::vector<Verdict> verdicts;
    for (const Score& score : scores) verdicts.push_back({score});
    return problem_of_demonstrations(items, verdicts);
  };
  const Score right{.reward = 0.5, .right = true}, wrong{.reward = 0.25};
  CHECK(problem({right, right, {.scored = Scored::failed}}) == "");
  CHECK(problem({right, wrong, {}}) ==
        "the warm-up trains on demonstrations that are not right (2 of 3 that were tried); the first: \"9\" to the "
        "prompt "
        "\"2>\" has the score 0.250, a right answer at least 1, or \"right\": true");
}

TEST_CASE("python_grader: evaluations count only answers that have a score") {
  const RunContextPtr context = context_with("by_digit");
  uint64_t scored = 0;
  const std::vector<Prompt> prompts = context->tokens->task->held_out(derive_key(kSeed, "evaluation"), kPrompts);
  for (const Prompt& prompt : prompts) scored += prompt.text[0] < '4' ? 1 : 0;
  REQUIRE(scored > 0);
  const EpisodeSummary summary = evaluate(context);
  CHECK(summary.episodes == scored);
  CHECK(summary.ended() == prompts.size());
  CHECK(summary.failures() == 0);
  CHECK(summary.success_rate == 1);
  CHECK(summary.return_mean == 1);
  CHECK(summary.length_mean == 2);
  CHECK(summary.last_error == "the score is nan, expected a finite number");
  CHECK(unscored_answers_text(3, 70, "why") ==
        "3 of 70 answers have no score from the verifier and do not count; the last error: why");
}

TEST_CASE("python_grader: an evaluation without any score fails") {
  CHECK_THROWS_WITH_AS(evaluate(context_with("returns_text")),
                       "no answer has a score; the last problem: the score is '1', expected a number", ScoringFailed);
}
