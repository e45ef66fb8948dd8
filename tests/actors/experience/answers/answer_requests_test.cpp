#include "actors/experience/answers/answer_sampler.h"

#include "actors/experience/answers/task_grader.h"
#include "tests/actors/experience/answers/answer_worker.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("answer_sampler: a failed request is asked again, a reply that came twice is ignored") {
  AnswerWorker worker;
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
  AnswerWorker worker;
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
  AnswerWorker worker;
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
  AnswerWorker worker;
  worker.core.add_credits(1);
  for (uint32_t i = 1; i < AnswerSampler::kPatience; ++i) worker.core.beat();
  CHECK(worker.port.asked.size() == 1);
  worker.core.beat();
  REQUIRE(worker.port.asked.size() == 2);
  CHECK(worker.port.asked[1].id == worker.port.asked[0].id);
  CHECK(worker.core.report().retries == 1);
}

TEST_CASE("answer_sampler: a request in progress is not asked again and not silent, and its answer is taken") {
  AnswerWorker worker;
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

TEST_CASE("answer_sampler: the time from a request to its answers is told once, with the next report") {
  AnswerWorker worker;
  worker.core.add_credits(1);
  worker.port.time += std::chrono::milliseconds(1500);
  worker.core.on_reply(worker.answer(worker.port.asked[0]));
  const HistogramCounts seconds = worker.core.take_times().answer_seconds;
  CHECK(seconds.sum == 1.5);
  CHECK(seconds.buckets.size() == 1);
  CHECK(worker.core.take_times().answer_seconds.buckets.empty());
}
