#include "actors/experience/grid/request_batcher.h"

#include "runtime/base/errors.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace std::chrono_literals;

namespace {

struct Fixture {
  explicit Fixture(int64_t batch_size = 64, int64_t max_batch = 128) {
    config.batch_size = batch_size;
    config.max_batch = max_batch;
    config.timeout = 2000us;
    batcher.emplace(config);
  }
  void add(uint64_t worker, uint32_t group, int64_t rows, std::chrono::microseconds at = 0us) {
    batcher->add({{worker, group}, ++ticket, rows, start + at});
  }
  std::optional<LeaveReason> ready(std::chrono::microseconds at = 0us) { return batcher->ready(start + at); }

  InferenceConfig config;
  std::optional<RequestBatcher> batcher;
  RequestBatcher::Clock::time_point start{};
  uint64_t ticket = 0;
};

}  // namespace

TEST_CASE("request_batcher: without pending requests there is no batch and no deadline") {
  Fixture f;
  CHECK_FALSE(f.ready(1h));
  CHECK_FALSE(f.batcher->deadline());
}

TEST_CASE("request_batcher: a batch is ready when it is full") {
  Fixture f;
  for (uint64_t worker : {1, 2, 3}) f.add(worker, 0, 32);
  CHECK(f.ready() == LeaveReason::full);
  CHECK(f.batcher->take().size() == 3);
}

TEST_CASE("request_batcher: the timeout counts from the oldest pending request, not from the last batch") {
  Fixture f;
  for (uint64_t worker : {1, 2}) f.add(worker, 0, 8);
  f.batcher->take();
  f.add(1, 0, 8, 10ms);
  CHECK_FALSE(f.ready(10ms));
  CHECK_FALSE(f.ready(11999us));
  CHECK(f.ready(12ms) == LeaveReason::timeout);
}

TEST_CASE("request_batcher: a batch is ready when every client that is not paused is waiting") {
  Fixture f;
  f.add(1, 0, 8);
  f.add(1, 1, 8);
  f.batcher->take();
  f.add(1, 0, 8);
  CHECK_FALSE(f.ready());
  f.batcher->pause({1, 1});
  CHECK(f.ready() == LeaveReason::all_waiting);
}

TEST_CASE("request_batcher: a batch has at most max_batch rows, and the other requests stay pending") {
  Fixture f(64, 100);
  for (uint64_t worker : {1, 2, 3}) f.add(worker, 0, 40);
  CHECK(f.batcher->take().size() == 2);
  CHECK(f.batcher->pending_rows() == 40);
}

TEST_CASE("request_batcher: a client whose request is removed may ask again") {
  Fixture f;
  f.add(1, 0, 8);
  f.batcher->remove(1);
  CHECK(f.batcher->pending_rows() == 0);
  f.batcher->remove(1);
  f.add(1, 0, 8);
  CHECK(f.batcher->pending() == 1);
  CHECK(f.batcher->pending_rows() == 8);
}

TEST_CASE("request_batcher: a second request of a client, and one of too many rows, are errors of the caller") {
  Fixture f(64, 100);
  f.add(1, 0, 8);
  CHECK_THROWS_AS(f.add(1, 0, 8), InvariantError);
  CHECK_THROWS_AS(f.add(2, 0, 101), InvariantError);
  CHECK(f.batcher->pending() == 1);
}

TEST_CASE("request_batcher: forgetting a worker removes its requests and clients") {
  Fixture f;
  f.add(1, 0, 8);
  f.add(1, 1, 8);
  f.add(2, 0, 8);
  CHECK(f.batcher->forget(1) == std::vector<uint64_t>{1, 2});
  CHECK(f.batcher->pending_rows() == 8);
  CHECK(f.ready() == LeaveReason::all_waiting);
}

TEST_CASE("request_batcher: without a configured size the batch size is half of the active rows") {
  Fixture f(0);
  f.add(1, 0, 32);
  f.add(1, 1, 32);
  CHECK(f.batcher->target() == 32);
}
