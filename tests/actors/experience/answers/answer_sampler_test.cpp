#include "actors/experience/answers/answer_sampler.h"

#include <cmath>
#include <fstream>
#include <map>

#include "actors/experience/answers/answer_checks.h"
#include "actors/experience/answers/task_grader.h"
#include "actors/experience/kinds.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"
#include "tests/support/token_config.h"

using namespace troupe;
using namespace troupe::test;

namespace {

template <class T>
Array array_of(const std::vector<T>& values) {
  return Array::of<T>({static_cast<int64_t>(values.size())}, std::span<const T>(values));
}

struct Port final : SamplerPort {
  std::vector<InferenceRequest> asked;
  std::vector<RolloutPtr> pushed;
  std::vector<ScoreRequest> to_score;
  std::vector<uint32_t> retries;
  void ask(InferenceRequest request) override { asked.push_back(std::move(request)); }
  void push(RolloutPtr rollout) override { pushed.push_back(std::move(rollout)); }
  void score(ScoreRequest request) override { to_score.push_back(std::move(request)); }
  void pause(uint32_t) override {}
  void wake_later(uint32_t group, uint32_t, std::chrono::milliseconds) override { retries.push_back(group); }
  std::chrono::steady_clock::time_point now() const override { return {}; }
};

struct Worker {
  explicit Worker(int64_t answers = 2, const std::string& advantage = "grpo") : config(config_of(answers, advantage)) {}
  static RunConfig config_of(int64_t answers, const std::string& advantage) {
    RunConfig config = token_config(/*groups=*/3);
    config.generation.answers = answers;
    config.algorithm.advantage = advantage;
    return config;
  }
  RunConfig config;
  std::shared_ptr<const TokenRun> tokens = make_token_run(config);
  Port port;
  AnswerSampler core{config, tokens, 4, port};
  TaskGrader grader{tokens};

  ScoreReply scores(size_t request) { return score_reply(grader, port.to_score.at(request)); }
  ScoreReply failed_scores(size_t request) const {
    return {
        .id = port.to_score.at(request).id, .group = port.to_score.at(request).group, .scores = {}, .error = "planned"};
  }
  void answer_all() {
    const std::vector<InferenceRequest> asked = port.asked;
    for (const InferenceRequest& request : asked) core.on_reply(answer(request));
  }
  std::vector<uint32_t> groups_pushed() const {
    std::vector<uint32_t> groups;
    for (const RolloutPtr& rollout : port.pushed) groups.push_back(rollout->group);
    return groups;
  }

  // A right answer with its end token, and wrong ones of a single token.
  InferenceReply answer(const InferenceRequest& request) const {
    const auto prompt = request.answers().prompt.view<int32_t>();
    const std::string text = tokens->decode(prompt);
    std::vector<int32_t> ids = tokens->tokenizer->encode(std::string(text.rbegin() + 1, text.rend()));
    ids.push_back(tokens->end_tokens.front());
    std::vector<int64_t> offsets = {0, static_cast<int64_t>(ids.size())};
    for (int64_t a = 1; a < answers_asked(config); ++a) {
      ids.push_back(tokens->end_tokens.front());
      offsets.push_back(static_cast<int64_t>(ids.size()));
    }
    InferenceReply reply;
    reply.id = request.id;
    reply.group = request.group;
    reply.version = {2, 7};
    AnswerReply& body = reply.body.emplace<AnswerReply>();
    body.tokens = array_of(ids);
    body.offsets = array_of(offsets);
    body.log_probs = array_of(std::vector<float>(ids.size(), -0.5f));
    std::vector<int64_t> version(ids.size(), 7);
    version.front() = 6;
    body.version = array_of(version);
    body.finish = array_of(std::vector<uint8_t>(offsets.size() - 1, 0));
    return reply;
  }
};

}  // namespace

TEST_CASE("answer_sampler: one prompt per credit, at most one per group") {
  Worker worker;
  worker.core.add_credits(2);
  CHECK(worker.port.asked.size() == 2);
  worker.core.add_credits(2);
  CHECK(worker.port.asked.size() == 3);  // the last credit waits for a group
  worker.core.on_reply(worker.answer(worker.port.asked[1]));
  CHECK(worker.port.asked.size() == 3);  // the group is scored first
  worker.core.on_scores(worker.scores(0));
  REQUIRE(worker.port.asked.size() == 4);
  CHECK(worker.port.asked[3].group == worker.port.asked[1].group);
  CHECK_FALSE(worker.port.asked[3].answers().prompt == worker.port.asked[1].answers().prompt);
  worker.core.on_reply(worker.answer(worker.port.asked[3]));
  worker.core.on_scores(worker.scores(1));
  CHECK(worker.port.asked.size() == 4);
}

TEST_CASE("answer_sampler: rollouts are pushed in the order in which their scores were asked for") {
  Worker worker;
  worker.core.add_credits(3);
  worker.answer_all();
  REQUIRE(worker.port.to_score.size() == 3);
  CHECK(worker.core.scores_outstanding() == 3);
  worker.core.on_scores(worker.scores(2));
  worker.core.on_scores(worker.scores(1));
  CHECK(worker.port.pushed.empty());
  CHECK(worker.core.scores_outstanding() == 1);
  worker.core.on_scores(worker.scores(0));
  CHECK(worker.groups_pushed() == std::vector<uint32_t>{0, 1, 2});
  for (size_t i = 0; i < 3; ++i) CHECK(worker.port.pushed[i]->sequence == i);
}

TEST_CASE("answer_sampler: groups are in every stage at once, and each gets its own scores") {
  Worker worker;
  worker.core.add_credits(3);
  worker.core.on_reply(worker.answer(worker.port.asked[2]));
  worker.core.on_reply(worker.answer(worker.port.asked[0]));
  ScoreReply second = worker.scores(1);
  second.scores[1].reward = 0.25;
  worker.core.on_scores(second);  // group 0 is scored, group 2 being scored, group 1 being answered
  CHECK(worker.core.scores_outstanding() == 1);
  worker.core.on_scores(worker.scores(0));
  CHECK(worker.groups_pushed() == std::vector<uint32_t>{2, 0});
  CHECK(worker.port.pushed[0]->answers().rewards == array_of(std::vector<float>{1, 0}));
  CHECK(worker.port.pushed[1]->answers().rewards == array_of(std::vector<float>{1, 0.25f}));
  worker.core.add_credits(1);
  CHECK(worker.port.asked.size() == 4);  // a group without work takes it
}

TEST_CASE("answer_sampler: scores that fail are asked for again, and later groups wait for them") {
  Worker worker;
  worker.core.add_credits(2);
  worker.answer_all();
  worker.core.on_scores(worker.failed_scores(0));
  worker.core.on_scores(worker.scores(1));
  CHECK(worker.port.pushed.empty());
  CHECK(worker.port.retries == std::vector<uint32_t>{0});
  CHECK(worker.core.report().last_error == "scoring failed: planned");
  worker.core.wake(0, 0);
  REQUIRE(worker.port.to_score.size() == 3);
  CHECK(worker.port.to_score[2].id == worker.port.to_score[0].id);
  CHECK(worker.port.to_score[2].answers == worker.port.to_score[0].answers);
  worker.core.on_scores(worker.scores(2));
  CHECK(worker.groups_pushed() == std::vector<uint32_t>{0, 1});
}

TEST_CASE("answer_sampler: scores that fail again and again end the worker with the error") {
  Worker worker;
  worker.core.add_credits(1);
  worker.answer_all();
  for (uint32_t i = 1; i < ScoreOrder::kMostFailures; ++i) {
    worker.core.on_scores(worker.failed_scores(0));
    worker.core.wake(0, 0);
  }
  CHECK_THROWS_WITH_AS(worker.core.on_scores(worker.failed_scores(0)),
                       "scoring failed 10 times in a row on the answers to one prompt, the last time with: planned",
                       ScoringFailed);
}

TEST_CASE("answer_sampler: scores that nobody waits for are ignored") {
  Worker worker;
  worker.core.add_credits(2);
  worker.answer_all();
  ScoreReply of_another_group = worker.scores(0), unknown = worker.scores(0);
  of_another_group.group = 1;
  unknown.id += 100;
  worker.core.on_scores(of_another_group);
  worker.core.on_scores(unknown);
  CHECK(worker.port.pushed.empty());
  const ScoreReply scores = worker.scores(0);
  worker.core.on_scores(scores);
  worker.core.on_scores(scores);
  CHECK(worker.port.pushed.size() == 1);
  worker.core.on_scores(worker.failed_scores(0));
  CHECK(worker.port.retries.empty());
}

TEST_CASE("answer_sampler: a rollout holds the scored answers, their versions and episodes") {
  Worker worker;
  worker.core.add_credits(1);
  CHECK_FALSE(worker.core.on_reply(worker.answer(worker.port.asked[0])).has_value());
  worker.core.on_scores(worker.scores(0));
  REQUIRE(worker.port.pushed.size() == 1);
  const Rollout& rollout = *worker.port.pushed[0];
  CHECK(rollout.worker == 4);
  CHECK(rollout.samples == 2);
  CHECK(rollout.env_steps == 2);
  CHECK(rollout.epoch == 2);
  CHECK(rollout.oldest == 6);
  CHECK(rollout.newest == 7);
  CHECK(rollout.answers().rewards == array_of(std::vector<float>{1, 0}));
  CHECK(rollout.answers().right == array_of(std::vector<uint8_t>{1, 0}));
  CHECK(rollout.episodes.lengths == array_of(std::vector<int32_t>{4, 1}));
  const RunSpec run{worker.config, worker.tokens, {}, {}};
  CHECK_FALSE(misfit(run, {2, 7}, rollout).has_value());
  CHECK(misfit(run, {2, 6}, rollout) == "it comes from a version that does not exist yet");
}

TEST_CASE("answer_sampler: answers without a score leave their group and are counted") {
  Worker worker(3);
  worker.core.add_credits(1);
  worker.answer_all();
  ScoreReply reply = worker.scores(0);
  reply.scores[1] = {.scored = Scored::failed, .problem = "planned"};
  reply.scores[2].parts = {{"form", 0.5}};
  worker.core.on_scores(reply);
  REQUIRE(worker.port.pushed.size() == 1);
  const Rollout& rollout = *worker.port.pushed[0];
  CHECK(rollout.samples == 2);
  CHECK(rollout.verifier_failed == 1);
  CHECK(rollout.unscored == 0);
  CHECK(rollout.env_steps == 3);
  CHECK(rollout.newest == 7);
  const int32_t end = worker.tokens->end_tokens.front();
  CHECK(rollout.answers().sampled.tokens.size() == 5);
  CHECK(rollout.answers().sampled.tokens.view<int32_t>().back() == end);
  CHECK(rollout.answers().sampled.offsets == array_of(std::vector<int64_t>{0, 4, 5}));
  CHECK(rollout.answers().rewards == array_of(std::vector<float>{1, 0}));
  CHECK(rollout.episodes.lengths == array_of(std::vector<int32_t>{4, 1}));
  REQUIRE(rollout.episodes.parts.size() == 1);
  CHECK(rollout.episodes.parts[0].name == "form");
  CHECK(std::isnan(rollout.episodes.parts[0].values.view<float>()[0]));
  CHECK(rollout.episodes.parts[0].values.view<float>()[1] == 0.5f);
  const RunSpec run{worker.config, worker.tokens, {}, {}};
  CHECK_FALSE(misfit(run, {2, 7}, rollout).has_value());
  Rollout wrong = rollout;
  wrong.verifier_failed = 0;
  CHECK(misfit(run, {2, 7}, wrong) == "0 + 0 of 3 answers without a score, expected 1 of 3");
}

TEST_CASE("answer_sampler: for remax the most likely answer is asked for too, and only its score is kept") {
  for (const bool scored : {true, false}) {
    CAPTURE(scored);
    Worker worker(2, "remax");
    worker.core.add_credits(1);
    CHECK(worker.port.asked[0].answers().keys.size() == 3);
    CHECK_FALSE(misfit(worker.config, *worker.tokens, worker.port.asked[0].answers()).has_value());
    worker.answer_all();
    ScoreReply reply = worker.scores(0);
    reply.scores[2].reward = 0.5;
    if (!scored) reply.scores[2].scored = Scored::failed;
    worker.core.on_scores(reply);
    REQUIRE(worker.port.pushed.size() == 1);
    const Rollout& rollout = *worker.port.pushed[0];
    CHECK(rollout.samples == (scored ? 2 : 0));
    CHECK(rollout.baselines == (scored ? 1 : 0));
    CHECK(rollout.verifier_failed == (scored ? 0 : 1));
    CHECK(rollout.unscored == (scored ? 0 : 2));
    CHECK(rollout.env_steps == 3);
    CHECK(rollout.episodes.count() == (scored ? 2 : 0));
    if (scored) CHECK(rollout.answers().baselines == array_of(std::vector<float>{0.5f}));
    const RunSpec run{worker.config, worker.tokens, {}, {}};
    CHECK_FALSE(misfit(run, {2, 7}, rollout).has_value());
    Rollout wrong = rollout;
    wrong.baselines = 2;
    CHECK(misfit(run, {2, 7}, wrong) == "2 baselines, expected 1");
    const RunSpec other{Worker::config_of(2, "grpo"), worker.tokens, {}, {}};
    CHECK(misfit(other, {2, 7}, rollout).has_value());
  }
}

TEST_CASE("answer_sampler: with failure_weighted, prompts that are answered wrong come more often") {
  const TempFolder folder;
  std::ofstream file(folder / "prompts.jsonl");
  for (const std::string prompt : {"12", "34", "56", "78"})
    file << R"({"prompt": ")" << prompt << R"(", "truth": "1"})" << '\n';
  file.close();
  RunConfig config = Worker::config_of(2, "grpo");
  config.task.name = "dataset";
  config.task.params =
      R"({"path": ")" + folder / "prompts.jsonl" + R"(", "held_out_path": ")" + folder / "held.jsonl" + R"("})";
  config.task.sampling = "failure_weighted";
  std::ofstream(folder / "held.jsonl") << R"({"prompt": "90", "truth": "1"})" << '\n';
  const auto tokens = make_token_run(config);
  Port port;
  AnswerSampler core(config, tokens, 4, port);
  std::map<std::string, int> asked;
  const auto serve = [&](int prompts) {
    for (int i = 0; i < prompts; ++i) {
      core.add_credits(1);
      const InferenceRequest request = port.asked.back();
      AnswerReply answers{.tokens = array_of(std::vector<int32_t>(2, tokens->end_tokens.front())),
                          .offsets = array_of(std::vector<int64_t>{0, 1, 2}),
                          .log_probs = array_of(std::vector<float>(2, -1)),
                          .version = array_of(std::vector<int64_t>(2)),
                          .finish = array_of(std::vector<uint8_t>(2))};
      core.on_reply({.id = request.id, .group = request.group, .body = answers});
      const ScoreRequest& to_score = port.to_score.back();
      ++asked[to_score.prompt.text];
      const bool right = to_score.prompt.text != "56";
      core.on_scores({.id = to_score.id,
                      .group = to_score.group,
                      .scores = std::vector<Score>(2, Score{.right = right}),
                      .error = {}});
    }
  };
  serve(200);
  CHECK(asked.at("56") > 100);
  CHECK(asked.size() == 4);
  const PromptFigures figures = core.report().prompts;
  CHECK(figures.asked == 4);
  CHECK(figures.solved == 3);
  CHECK(figures.never_right == 1);
}

TEST_CASE("answer_sampler: the only answer with a score is left out if the estimator compares answers") {
  for (const bool compares : {true, false}) {
    CAPTURE(compares);
    Worker worker(2, compares ? "grpo" : "reinforce_plus_plus");
    worker.core.add_credits(1);
    worker.answer_all();
    ScoreReply reply = worker.scores(0);
    reply.scores[0] = {.scored = Scored::none};
    worker.core.on_scores(reply);
    REQUIRE(worker.port.pushed.size() == 1);
    const Rollout& rollout = *worker.port.pushed[0];
    CHECK(rollout.samples == (compares ? 0 : 1));
    CHECK(rollout.unscored == (compares ? 2 : 1));
    const RunSpec run{worker.config, worker.tokens, {}, {}};
    CHECK_FALSE(misfit(run, {2, 7}, rollout).has_value());
  }
}

TEST_CASE("answer_sampler: a run ends when scoring fails on ten prompts in a row, or gives nothing on a hundred") {
  for (const Scored scored : {Scored::failed, Scored::none}) {
    Worker worker;
    const size_t most = scored == Scored::failed ? 10 : 100;
    const auto score_next = [&](Scored state) {
      worker.core.add_credits(1);
      worker.core.on_reply(worker.answer(worker.port.asked.back()));
      ScoreReply reply = worker.scores(worker.port.to_score.size() - 1);
      for (Score& score : reply.scores) score = {.scored = state, .problem = "planned"};
      worker.core.on_scores(reply);
    };
    for (size_t i = 0; i + 1 < most; ++i) score_next(scored);
    score_next(Scored::yes);
    for (size_t i = 0; i + 1 < most; ++i) score_next(scored);
    CHECK_THROWS_WITH_AS(score_next(scored),
                         scored == Scored::failed
                             ? "scoring failed on the answers to 10 prompts in a row, the last time with: planned"
                             : "the verifier gave no score to any answer to 100 prompts in a row",
                         ScoringFailed);
  }
}

TEST_CASE("answer_sampler: a failed request is asked again, a reply that came twice is ignored") {
  Worker worker;
  worker.core.add_credits(1);
  InferenceReply failed;
  failed.id = worker.port.asked[0].id;
  failed.fault = Fault::forward_failed;
  failed.error = "planned";
  for (uint32_t i = 0; i < RequestRetry::kFailing; ++i) {
    CHECK_FALSE(worker.core.failing().has_value());
    worker.core.on_reply(failed);
    worker.core.wake(0, Sampler::kAskAgain);
  }
  CHECK(worker.core.failing() == "inference failed: planned");
  CHECK(worker.port.retries.size() == RequestRetry::kFailing);
  CHECK(worker.port.asked.back().id == worker.port.asked[0].id);
  const InferenceReply reply = worker.answer(worker.port.asked[0]);
  worker.core.on_reply(reply);
  worker.core.on_reply(reply);
  REQUIRE(worker.port.to_score.size() == 1);
  worker.core.on_scores(worker.scores(0));
  CHECK(worker.port.pushed.size() == 1);
  CHECK_FALSE(worker.core.failing().has_value());
}

TEST_CASE("answer_sampler: inference that fails on one request again and again ends the worker, other errors do not") {
  Worker worker;
  worker.core.add_credits(1);
  InferenceReply failed;
  failed.id = worker.port.asked[0].id;
  failed.error = "planned";
  failed.fault = Fault::shutting_down;
  const auto fail = [&] {
    worker.core.on_reply(failed);
    worker.core.wake(0, Sampler::kAskAgain);
  };
  for (uint32_t i = 0; i < 2 * RequestRetry::kMostFailures; ++i) fail();
  CHECK_FALSE(worker.core.failing().has_value());
  failed.fault = Fault::forward_failed;
  for (uint32_t i = 1; i < RequestRetry::kMostFailures; ++i) fail();
  CHECK_THROWS_WITH_AS(worker.core.on_reply(failed),
                       "inference failed 100 times in a row on the same request, the last time with: planned",
                       InferenceFailed);
}

TEST_CASE("answer_sampler: the errors of several copies of a request are one failure") {
  Worker worker;
  worker.core.add_credits(1);
  worker.core.ask_all_again(Role::sampling);
  InferenceReply failed;
  failed.id = worker.port.asked[0].id;
  failed.fault = Fault::forward_failed;
  for (int copy = 0; copy < 2; ++copy) worker.core.on_reply(failed);
  CHECK(worker.port.retries.size() == 1);
  worker.core.wake(0, Sampler::kAskAgain);
  CHECK(worker.port.asked.size() == 3);
}

TEST_CASE("answer_sampler: a request without an answer is asked again after some beats") {
  Worker worker;
  worker.core.add_credits(1);
  for (uint32_t i = 1; i < AnswerSampler::kPatience; ++i) worker.core.beat();
  CHECK(worker.port.asked.size() == 1);
  worker.core.beat();
  REQUIRE(worker.port.asked.size() == 2);
  CHECK(worker.port.asked[1].id == worker.port.asked[0].id);
  CHECK(worker.core.report().retries == 1);
}

TEST_CASE("answer_sampler: a request in progress is not asked again and not silent, and its answer is taken") {
  Worker worker;
  worker.core.add_credits(1);
  InferenceReply in_progress;
  in_progress.id = worker.port.asked[0].id;
  REQUIRE(in_progress.in_progress());
  for (int round = 0; round < 5; ++round) {
    for (uint32_t i = 1; i < RequestRetry::kSilence; ++i) worker.core.beat();
    CHECK_FALSE(worker.core.on_reply(in_progress).has_value());
    worker.core.beat();
    CHECK(worker.core.beats_without_answer() == 0);
  }
  CHECK(worker.port.asked.size() == 1);
  CHECK(worker.core.report().retries == 0);
  worker.core.on_reply(worker.answer(worker.port.asked[0]));
  CHECK(worker.port.to_score.size() == 1);
}

TEST_CASE("answer_sampler: another worker, and another number, draw other prompts; the same draws the same") {
  const RunConfig config = token_config(/*groups=*/3);
  const auto tokens = make_token_run(config);
  const auto first_of = [&](uint64_t worker) {
    Port port;
    AnswerSampler core(config, tokens, worker, port);
    core.add_credits(2);
    return port.asked;
  };
  CHECK(first_of(1)[0].answers().prompt == first_of(1)[0].answers().prompt);
  CHECK(first_of(1)[0].answers().keys == first_of(1)[0].answers().keys);
  CHECK_FALSE(first_of(1)[0].answers().keys == first_of(2)[0].answers().keys);
  CHECK_FALSE(first_of(1)[0].answers().keys == first_of(1)[1].answers().keys);
}

TEST_CASE("answer_sampler: replies that do not fit are refused with the reason") {
  Worker worker;
  worker.core.add_credits(1);
  const AnswerReply good = worker.answer(worker.port.asked[0]).answers();
  const auto refused = [&](auto change) {
    AnswerReply bad = good;
    change(bad);
    return misfit(*worker.tokens, worker.port.asked[0].answers(), bad).value_or("accepted");
  };
  CHECK(refused([](AnswerReply&) {}) == "accepted");
  CHECK(refused([](AnswerReply& r) { r.tokens = Array(DType::f32, {5}); }) == "tokens are not a list of int32");
  CHECK(refused([](AnswerReply& r) { r.offsets = array_of(std::vector<int64_t>{0, 5}); }) ==
        "offsets is int64[2], expected int64[3]");
  CHECK(refused([](AnswerReply& r) { r.offsets = array_of(std::vector<int64_t>{0, 0, 5}); }) ==
        "offsets: a part is empty or has more than 4 tokens");
  CHECK(refused([](AnswerReply& r) { r.offsets = array_of(std::vector<int64_t>{1, 4, 5}); }) ==
        "offsets do not cover the tokens");
  CHECK(refused([](AnswerReply& r) { r.log_probs = array_of(std::vector<float>{std::nanf(""), 0, 0, 0, 0}); }) ==
        "log_probs are not finite, or above 0");
  CHECK(refused([](AnswerReply& r) { r.log_probs = array_of(std::vector<float>{0.1f, 0, 0, 0, 0}); }) ==
        "log_probs are not finite, or above 0");
  CHECK(refused([](AnswerReply& r) { r.tokens = array_of(std::vector<int32_t>{99, 0, 0, 0, 0}); }) ==
        "tokens: token 99, expected 0 to 12");
  CHECK(refused([](AnswerReply& r) { r.version = array_of(std::vector<int64_t>{-1, 0, 0, 0, 0}); }) ==
        "a version is negative");
  CHECK(refused([](AnswerReply& r) { r.finish = array_of(std::vector<uint8_t>{0, 3}); }) == "finish is above 2");
}

TEST_CASE("answer_sampler: the limits of a reply and a rollout are those of the longest answers") {
  Worker worker;
  const RunSpec run{worker.config, worker.tokens, {}, {}};
  const int64_t answers = worker.config.generation.answers, tokens = answers * worker.tokens->answer_tokens;
  AnswerReply longest;
  longest.offsets = Array(DType::i64, {answers});  // and one more
  AnswerReply::per_token(longest, [&](const char*, Array& array, DType dtype) { array = Array(dtype, {tokens}); });
  AnswerReply::per_answer(longest, [&](const char*, Array& array, DType dtype) { array = Array(dtype, {answers}); });
  size_t bytes = 0;
  for (const Array& array : AnswerReply::fields(longest, [](auto&... each) { return std::vector<Array>{each...}; })) {
    CHECK_FALSE(array.empty());
    bytes += array.bytes();
  }
  CHECK(bytes + kNamesBytes == most_bytes_of_answer_reply(run));
  CHECK(most_bytes_of_answers(run) > most_bytes_of_answer_reply(run) + most_bytes_of_answer_request(run));
}
