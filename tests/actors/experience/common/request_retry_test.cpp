#include "actors/experience/common/request_retry.h"

#include "tests/support/test.h"

using namespace troupe;
using std::chrono::milliseconds;

TEST_CASE("request_retry: waits longer after each error, at most a second, and briefly again after an answer") {
  RequestRetry retry;
  for (const int64_t expected : {10, 20, 40, 80, 160, 320, 640, 1000, 1000, 1000})
    CHECK(retry.failed(Fault::shutting_down, "") == milliseconds(expected));
  retry.answered();
  CHECK(retry.failed(Fault::shutting_down, "") == milliseconds(10));
}

TEST_CASE("request_retry: only forwards that fail count as failing, and too many of them end it") {
  RequestRetry retry;
  for (uint32_t i = 0; i < 2 * RequestRetry::kMostFailures; ++i) retry.failed(Fault::bad_message, "damaged");
  CHECK_FALSE(retry.is_failing());
  for (uint32_t i = 1; i < RequestRetry::kMostFailures; ++i) {
    retry.failed(Fault::forward_failed, "planned");
    CHECK(retry.is_failing() == (i >= RequestRetry::kFailing));
  }
  CHECK_THROWS_AS(retry.failed(Fault::forward_failed, "planned"), InferenceFailed);
}

TEST_CASE("request_retry: asks again after kPatience beats, and counts beats without any answer") {
  RequestRetry retry;
  for (int round = 1; round <= 2; ++round) {
    retry.asked();
    for (uint32_t i = 1; i < RequestRetry::kPatience; ++i) CHECK_FALSE(retry.beat());
    CHECK(retry.beat());
    CHECK(retry.silent_beats() == static_cast<uint32_t>(round) * RequestRetry::kPatience);
  }
  retry.failed(Fault::forward_failed, "planned");
  CHECK(retry.silent_beats() == 0);
}

TEST_CASE("request_retry: a request in progress is not asked again, and its failures still count") {
  RequestRetry retry;
  for (uint32_t i = 0; i < RequestRetry::kFailing; ++i) retry.failed(Fault::forward_failed, "planned");
  retry.asked();
  for (int round = 0; round < 10; ++round) {
    for (uint32_t i = 1; i < RequestRetry::kPatience; ++i) CHECK_FALSE(retry.beat());
    retry.in_progress();
    CHECK(retry.silent_beats() == 0);
  }
  CHECK(retry.is_failing());
}
