#include "runtime/base/task_sampler.h"

#include <cmath>
#include <vector>

#include "runtime/base/errors.h"
#include "tests/support/test.h"

using namespace troupe;

TEST_CASE("task_weights: the worked example for failure counts 3, 0, 1") {
  const std::vector<double> got = task_weights(std::vector<double>{3, 0, 1});
  CHECK(got[0] == doctest::Approx(.571428571));
  CHECK(got[1] == doctest::Approx(.142857143));
  CHECK(got[2] == doctest::Approx(.285714286));
}

TEST_CASE("task_weights: without tasks there are no weights, and a negative count or NaN is refused") {
  CHECK(task_weights({}).empty());
  CHECK_THROWS_AS(task_weights(std::vector<double>{-1}), InvariantError);
  CHECK_THROWS_AS(task_weights(std::vector<double>{std::nan("")}), InvariantError);
}

TEST_CASE("task_sampler: starts uniform") { CHECK(TaskSampler(4).weights() == std::vector<double>(4, .25)); }

TEST_CASE("task_sampler: counts failures, fractional ones too, within the window only") {
  TaskSampler sampler(2, 3);
  for (int i = 0; i < 10; ++i) sampler.record(0, 0);
  sampler.record(1, .5);
  CHECK(sampler.weights()[0] == doctest::Approx(4 / 5.5));
  for (int i = 0; i < 3; ++i) sampler.record(0, 1);
  CHECK(sampler.weights()[0] == doctest::Approx(1 / 2.5));
}

TEST_CASE("task_sampler: draws tasks in proportion to their weights") {
  TaskSampler sampler(3);
  for (int i = 0; i < 3; ++i) sampler.record(0, 0);
  sampler.record(2, 0);
  Rng rng(5);
  std::vector<double> share(3);
  for (int i = 0; i < 20000; ++i) share[static_cast<std::size_t>(sampler.sample(rng))] += 1.0 / 20000;
  const std::vector<double> want = sampler.weights();
  for (std::size_t i = 0; i < 3; ++i) CHECK(std::abs(share[i] - want[i]) < .015);  // four standard deviations
}

TEST_CASE("task_sampler: a single task is always drawn") {
  Rng rng(6);
  CHECK(TaskSampler(1).sample(rng) == 0);
}

TEST_CASE("task_sampler: a restored sampler continues like the saved one") {
  TaskSampler saved(3, 4), restored(3, 4);
  for (int i = 0; i < 6; ++i) saved.record(i % 3, i % 2);
  REQUIRE(restored.restore(saved.save()));
  saved.record(1, 0);
  restored.record(1, 0);
  CHECK(restored.weights() == saved.weights());
  CHECK(restored.save() == saved.save());
}

TEST_CASE("task_sampler: bytes that are changed, truncated or from another sampler are refused and change nothing") {
  TaskSampler sampler(3, 4);
  sampler.record(0, 0);
  const std::string bytes = sampler.save();
  for (std::size_t size = 0; size < bytes.size(); ++size) CHECK_FALSE(sampler.restore(bytes.substr(0, size)));
  CHECK_FALSE(sampler.restore(bytes + "x"));
  CHECK_FALSE(sampler.restore(TaskSampler(2, 4).save()));
  CHECK_FALSE(sampler.restore(TaskSampler(3, 5).save()));
  std::string altered = bytes;
  altered[24 + 7] = '\x7f';  // the top byte of the first outcome
  CHECK_FALSE(sampler.restore(altered));
  CHECK(sampler.save() == bytes);
}

TEST_CASE("task_sampler: tasks and outcomes out of range are refused") {
  TaskSampler sampler(2);
  CHECK_THROWS_AS(sampler.record(2, 1), InvariantError);
  CHECK_THROWS_AS(sampler.record(-1, 1), InvariantError);
  CHECK_THROWS_AS(sampler.record(0, 1.5), InvariantError);
  CHECK_THROWS_AS(sampler.record(0, std::nan("")), InvariantError);
  CHECK_THROWS_AS(TaskSampler(0), InvariantError);
  CHECK_THROWS_AS(TaskSampler(1, 0), InvariantError);
}
