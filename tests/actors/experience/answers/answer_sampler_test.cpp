#include "actors/experience/answers/answer_sampler.h"

#include <fstream>
#include <map>

#include "actors/experience/answers/answer_checks.h"
#include "actors/experience/answers/task_grader.h"
#include "actors/experience/kinds.h"
#include "tests/actors/experience/answers/answer_port.h"
#include "tests/actors/experience/answers/answer_worker.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"
#include "tests/support/token_config.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("answer_sampler: one prompt per credit, at most one per group") {
  AnswerWorker worker;
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
  AnswerWorker worker;
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
  AnswerWorker worker;
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

TEST_CASE("answer_sampler: a rollout holds the scored answers, their versions and episodes") {
  AnswerWorker worker;
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

TEST_CASE("answer_sampler: for remax the most likely answer is asked for too, and only its score is kept") {
  for (const bool scored : {true, false}) {
    CAPTURE(scored);
    AnswerWorker worker(2, "remax");
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
    const RunSpec other{AnswerWorker::config_of(2, "grpo"), worker.tokens, {}, {}};
    CHECK(misfit(other, {2, 7}, rollout).has_value());
  }
}

TEST_CASE("answer_sampler: with failure_weighted, prompts that are answered wrong come more often") {
  const TempFolder folder;
  std::ofstream file(folder / "prompts.jsonl");
  for (const std::string prompt : {"12", "34", "56", "78"})
    file << R"({"prompt": ")" << prompt << R"(", "truth": "1"})" << '\n';
  file.close();
  RunConfig config = AnswerWorker::config_of(2, "grpo");
  config.task.name = "dataset";
  config.task.params =
      R"({"path": ")" + folder / "prompts.jsonl" + R"(", "held_out_path": ")" + folder / "held.jsonl" + R"("})";
  config.task.sampling = "failure_weighted";
  std::ofstream(folder / "held.jsonl") << R"({"prompt": "90", "truth": "1"})" << '\n';
  const auto tokens = make_token_run(config);
  AnswerPort port;
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

TEST_CASE("answer_sampler: another worker, and another number, draw other prompts; the same draws the same") {
  const RunConfig config = token_config(/*groups=*/3);
  const auto tokens = make_token_run(config);
  const auto first_of = [&](uint64_t worker) {
    AnswerPort port;
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
  AnswerWorker worker;
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
  AnswerWorker worker;
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
