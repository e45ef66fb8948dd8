#include "models/decoder/parallel_for.h"

#include <atomic>
#include <stdexcept>
#include <vector>

#include "tests/support/test.h"

using namespace troupe;

TEST_CASE("parallel_for: every task is called once, in loops of any size") {
  ParallelFor parallel(3);
  CHECK(parallel.threads() == 3);
  for (const int64_t tasks : {0, 1, 2, 3, 100}) {
    std::vector<std::atomic<int>> calls(static_cast<size_t>(tasks));
    for (int repeat = 1; repeat <= 50; ++repeat)
      parallel.run(tasks, [&](int64_t i) { ++calls[static_cast<size_t>(i)]; });
    for (const std::atomic<int>& count : calls) CHECK(count == 50);
  }
}

TEST_CASE("parallel_for: an exception of a task reaches the caller, and the next loop runs") {
  ParallelFor parallel(2);
  CHECK_THROWS_WITH_AS(parallel.run(20,
                                    [](int64_t i) {
                                      if (i == 7) throw std::runtime_error("seven");
                                    }),
                       "seven", std::runtime_error);
  std::atomic<int64_t> sum = 0;
  parallel.run(5, [&](int64_t i) { sum += i; });
  CHECK(sum == 10);
}
