#include "actors/experience/answers/answer_sampler.h"

#include <cmath>

#include "actors/experience/answers/answer_checks.h"
#include "actors/experience/answers/task_grader.h"
#include "actors/experience/kinds.h"
#include "tests/actors/experience/answers/answer_port.h"
#include "tests/actors/experience/answers/answer_worker.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("answer_sampler: scores that fail are asked for again, and later groups wait for them") {
  AnswerWorker worker;
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
  AnswerWorker worker;
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
  AnswerWorker worker;
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

TEST_CASE("answer_sampler: answers without a score leave their group and are counted") {
  AnswerWorker worker(3);
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

TEST_CASE("answer_sampler: the only answer with a score is left out if the estimator compares answers") {
  for (const bool compares : {true, false}) {
    CAPTURE(compares);
    AnswerWorker worker(2, compares ? "grpo" : "reinforce_plus_plus");
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
    AnswerWorker worker;
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
