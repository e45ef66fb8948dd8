// AnswerSampler in runs whose scorers compute with frozen models.
#include <algorithm>
#include <cmath>

#include "actors/experience/answers/answer_checks.h"
#include "actors/experience/answers/answer_sampler.h"
#include "actors/experience/answers/task_grader.h"
#include "tests/actors/experience/answers/answer_port.h"
#include "tests/support/test.h"
#include "tests/support/token_config.h"

using namespace troupe;
using namespace troupe::test;

namespace {

RunConfig config_of(const std::string& advantage, bool reward_model) {
  RunConfig config = token_config(/*groups=*/2);
  config.generation.answers = 2;
  config.algorithm.advantage = advantage;
  config.reference.model = "start";
  config.reference.computed_by = "scorers";
  if (reward_model) {
    config.reward_model = {.path = "none", .weight = 0.5, .computed_by = "scorers"};
    config.task.weight = 2;
  }
  return config;
}

struct Worker {
  explicit Worker(const std::string& advantage = "grpo", bool reward_model = false)
      : config(config_of(advantage, reward_model)) {}
  RunConfig config;
  std::shared_ptr<const TokenRun> tokens = make_token_run(config);
  AnswerPort port;
  AnswerSampler core{config, tokens, 4, port};
  TaskGrader grader{tokens};

  // Answers of one token, the end token, and of two.
  InferenceReply answer(const InferenceRequest& request) const {
    std::vector<int32_t> ids;
    std::vector<int64_t> offsets{0};
    for (int64_t a = 0; a < answers_asked(config); ++a) {
      if (a % 2 == 1) ids.push_back(tokens->tokenizer->encode("1").front());
      ids.push_back(tokens->end_tokens.front());
      offsets.push_back(static_cast<int64_t>(ids.size()));
    }
    InferenceReply reply;
    reply.id = request.id;
    reply.group = request.group;
    reply.version = {2, 7};
    reply.body = AnswerReply{.tokens = Array::of(ids),
                             .offsets = Array::of(offsets),
                             .log_probs = Array::of(std::vector<float>(ids.size(), -0.5f)),
                             .version = Array::of(std::vector<int64_t>(ids.size(), 7)),
                             .finish = Array::of(std::vector<uint8_t>(offsets.size() - 1, 0))};
    return reply;
  }
  // The log-probabilities -1, -2, ... and the scores 10, 20, ...
  InferenceReply by_scorer(const InferenceRequest& request) const {
    const auto& body = std::get<ScoringRequest>(request.body);
    std::vector<float> log_probs, scores;
    for (int64_t t = 0; t < body.tokens.size(); ++t) log_probs.push_back(-static_cast<float>(t + 1));
    for (int64_t a = 0; a < body.count() && config.reward_model.by_scorers(); ++a)
      scores.push_back(10 * static_cast<float>(a + 1));
    InferenceReply reply;
    reply.id = request.id;
    reply.group = request.group;
    reply.body = ScoringReply{Array::of(log_probs), Array::of(scores)};
    return reply;
  }
  ScoreReply by_task(size_t request) { return score_reply(grader, port.to_score.at(request)); }
  void begin() {
    core.begin(2);
    core.add_credits(1);
    REQUIRE(port.asked.size() == 1);
    core.on_reply(answer(port.asked[0]));
    REQUIRE(port.to_scorers.size() == 1);
    REQUIRE(port.to_score.size() == 1);
  }
  const Answers& answers() const { return port.pushed.at(0)->answers(); }
};

}  // namespace

TEST_CASE("scored_sampler: a rollout is pushed once the task and the scorers have answered, in either order") {
  for (const bool task_first : {false, true}) {
    CAPTURE(task_first);
    Worker worker;
    worker.begin();
    const InferenceRequest& asked = worker.port.to_scorers[0];
    CHECK(asked.group == worker.core.groups() + worker.port.asked[0].group);
    CHECK(std::get<ScoringRequest>(asked.body).prompt == worker.port.asked[0].answers().prompt);
    CHECK_FALSE(misfit(worker.config, *worker.tokens, std::get<ScoringRequest>(asked.body)).has_value());
    if (task_first) worker.core.on_scores(worker.by_task(0));
    if (!task_first) worker.core.on_reply(worker.by_scorer(asked));
    CHECK(worker.port.pushed.empty());
    CHECK(worker.core.scores_outstanding() == (task_first ? 0 : 1));
    if (!task_first) worker.core.on_scores(worker.by_task(0));
    if (task_first) worker.core.on_reply(worker.by_scorer(asked));
    REQUIRE(worker.port.pushed.size() == 1);
    CHECK(worker.answers().reference == Array::of(std::vector<float>{-1, -2, -3}));
    RunSpec run{worker.config, worker.tokens, {}, {}};
    CHECK(answers_misfit(run, *worker.port.pushed[0]).value_or("fits") == "fits");
  }
}

TEST_CASE("scored_sampler: only the answers that are kept bring log-probabilities of the reference") {
  Worker worker("rloo");
  worker.begin();
  ScoreReply scores = worker.by_task(0);
  scores.scores[0].scored = Scored::none;
  worker.core.on_reply(worker.by_scorer(worker.port.to_scorers[0]));
  worker.core.on_scores(scores);
  REQUIRE(worker.port.pushed.size() == 1);
  CHECK(worker.answers().count() == 0);  // one answer cannot be compared
  CHECK(worker.answers().reference.empty());
  Worker greedy("remax");
  greedy.begin();
  ScoreReply all = greedy.by_task(0);
  all.scores[0].scored = Scored::none;
  greedy.core.on_scores(all);
  greedy.core.on_reply(greedy.by_scorer(greedy.port.to_scorers[0]));
  REQUIRE(greedy.port.pushed.size() == 1);
  CHECK(greedy.answers().count() == 1);
  CHECK(greedy.answers().reference == Array::of(std::vector<float>{-2, -3}));  // of the second; not of the greedy one
}

TEST_CASE("scored_sampler: the score of a reward model is added by weight, and one that is no number fails") {
  Worker worker("grpo", /*reward_model=*/true);
  worker.begin();
  worker.core.on_reply(worker.by_scorer(worker.port.to_scorers[0]));
  ScoreReply scores = worker.by_task(0);
  scores.scores[0].reward = 3;
  worker.core.on_scores(scores);
  REQUIRE(worker.port.pushed.size() == 1);
  CHECK(worker.answers().rewards == Array::of(std::vector<float>{2 * 3 + 0.5f * 10, 0.5f * 20}));
  CHECK(worker.port.pushed[0]->episodes.parts.size() == 2);
  Worker broken("remax", /*reward_model=*/true);
  broken.begin();
  InferenceReply reply = broken.by_scorer(broken.port.to_scorers[0]);
  std::get<ScoringReply>(reply.body).scores = Array::of(std::vector<float>{std::nanf(""), 1, 1});
  broken.core.on_scores(broken.by_task(0));
  broken.core.on_reply(reply);
  REQUIRE(broken.port.pushed.size() == 1);
  CHECK(broken.port.pushed[0]->verifier_failed == 1);
  CHECK(broken.answers().count() == 1);
}

TEST_CASE("scored_sampler: a scorer that fails, misfits or is replaced is asked again, and inference is not") {
  Worker worker;
  worker.begin();
  const InferenceRequest asked = worker.port.to_scorers[0];
  InferenceReply failed;
  failed.id = asked.id;
  failed.group = asked.group;
  failed.fault = Fault::forward_failed;
  failed.error = "planned";
  worker.core.on_reply(failed);
  CHECK(worker.port.retries == std::vector<uint32_t>{asked.group});
  CHECK(worker.core.report().last_error == "scoring failed: planned");
  worker.core.wake(asked.group, Sampler::kAskAgain);
  CHECK(worker.port.to_scorers.size() == 2);
  InferenceReply strange = worker.by_scorer(asked);
  std::get<ScoringReply>(strange.body).reference = Array::of(std::vector<float>{-1});
  CHECK(worker.core.on_reply(strange).has_value());
  worker.core.ask_all_again(Role::scoring);
  CHECK(worker.port.to_scorers.size() == 3);
  CHECK(worker.port.to_scorers[2].id == asked.id);
  worker.core.ask_all_again(Role::sampling);
  CHECK(worker.port.asked.size() == 1);
  worker.core.on_reply(worker.by_scorer(asked));
  worker.core.on_scores(worker.by_task(0));
  CHECK(worker.port.pushed.size() == 1);
  worker.core.on_reply(worker.by_scorer(asked));  // again: it has been answered
  CHECK(worker.port.pushed.size() == 1);
}

TEST_CASE("scored_sampler: a worker fails while the scorers fail on all that it has") {
  Worker worker;
  worker.begin();
  worker.core.on_scores(worker.by_task(0));
  CHECK(worker.core.waits_for_scorer());
  const InferenceRequest asked = worker.port.to_scorers[0];
  InferenceReply failed;
  failed.id = asked.id;
  failed.group = asked.group;
  failed.fault = Fault::forward_failed;
  failed.error = "planned";
  for (uint32_t i = 0; i < RequestRetry::kFailing; ++i) {
    CHECK_FALSE(worker.core.failing().has_value());
    worker.core.on_reply(failed);
    worker.core.wake(asked.group, Sampler::kAskAgain);
  }
  CHECK(worker.core.failing() == "scoring failed: planned");
  worker.core.on_reply(worker.by_scorer(asked));
  CHECK_FALSE(worker.core.failing().has_value());
  CHECK_FALSE(worker.core.waits_for_scorer());
}
