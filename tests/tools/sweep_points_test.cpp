#include "tools/cli/sweep_points.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "runtime/base/errors.h"
#include "tests/support/test.h"
#include "tools/cli/sweep_progress.h"

using namespace troupe;

TEST_CASE("parse_swept: lists are swept, other values are the same in all runs") {
  const SweptSettings swept = parse_swept({"a.b=[1e-4, 0.5]", "seed=3", "c=[[64],[64,64]]", "d=[\"x\"]"}, false);
  CHECK(swept.fixed == Words{"seed=3"});
  REQUIRE(swept.swept.size() == 3);
  CHECK(swept.swept[0].path == "a.b");
  CHECK(swept.swept[0].values == Words{"0.0001", "0.5"});
  CHECK(swept.swept[1].values == Words{"[64]", "[64,64]"});
  CHECK(swept.swept[2].values == Words{"x"});
}

TEST_CASE("parse_swept: refuses lists and ranges that cannot be swept") {
  const auto error_of = [](const Words& settings, bool random) -> std::string {
    try {
      parse_swept(settings, random);
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(error_of({"a=[1,"}, false).starts_with("--set: a=[1,: is not a JSON list"));
  CHECK(error_of({"a=[]"}, false) == "--set: a=[]: has no value");
  CHECK(error_of({"a=[1,1]"}, false) == "--set: a=[1,1]: has a value twice");
  CHECK(error_of({"a=1..2"}, false).starts_with("--set: a=1..2: is a range, which needs --random N"));
  CHECK(error_of({"a=2..2"}, true) == "--set: a=2..2: has no value between its limits");
  CHECK(error_of({"a=[1]", "a=[2]"}, false) == "--set: a=[2]: is given more than once");
  CHECK(error_of({"a=1"}, true).starts_with("--random: nothing is drawn"));
  CHECK(error_of({"a=../file"}, false) == "");
}

TEST_CASE("grid_of: all combinations, and one where nothing is swept") {
  CHECK(grid_of({}) == std::vector<SweepPoint>{{}});
  const std::vector<SweepPoint> points = grid_of({{"a", {"1", "2"}, {}}, {"b", {"x", "y", "z"}, {}}});
  REQUIRE(points.size() == 6);
  CHECK(points[0] == SweepPoint{"1", "x"});
  CHECK(points[1] == SweepPoint{"1", "y"});
  CHECK(points[5] == SweepPoint{"2", "z"});
}

TEST_CASE("random_points: within the limits, log-uniform above 0, whole numbers where the limits are") {
  const std::vector<SweptSetting> swept = {{"rate", {}, SweptRange{1e-5, 1e-1, false}},
                                           {"count", {}, SweptRange{1, 8, true}},
                                           {"low", {}, SweptRange{-2, 2, false}}};
  const std::vector<SweepPoint> points = random_points(swept, 400, 7);
  REQUIRE(points.size() == 400);
  size_t small = 0;
  for (const SweepPoint& point : points) {
    const double rate = std::strtod(point[0].c_str(), nullptr), low = std::strtod(point[2].c_str(), nullptr);
    CHECK(rate >= 1e-5);
    CHECK(rate <= 1e-1);
    small += rate < 1e-3;
    CHECK(point[1].find_first_not_of("12345678") == point[1].npos);
    CHECK(low >= -2);
    CHECK(low <= 2);
  }
  CHECK(small > 140);  // half of the logarithmic range; 1 % of the linear one
  CHECK(small < 260);
}

TEST_CASE("random_points: the same seed gives the same points, and more of them begin with these") {
  const std::vector<SweptSetting> swept = {{"a", {}, SweptRange{0.1, 1, false}}};
  const std::vector<SweepPoint> few = random_points(swept, 3, 1), more = random_points(swept, 5, 1);
  CHECK(std::ranges::equal(few, std::vector<SweepPoint>(more.begin(), more.begin() + 3)));
  CHECK(random_points(swept, 3, 2) != few);
}

TEST_CASE("random_points: no combination twice, so fewer where there are not as many") {
  CHECK(random_points({{"a", {"1", "2"}, {}}}, 10, 0).size() == 2);
}

TEST_CASE("run_name_of: the last parts of the paths, unless two are the same, without characters of other use") {
  CHECK(run_name_of({{"trainer.policy_lr", {}, {}}}, {"0.0001"}, 3) == "policy_lr=0.0001_seed=3");
  CHECK(run_name_of({{"a.lr", {}, {}}, {"b.lr", {}, {}}}, {"1", "2"}, 0) == "a.lr=1_b.lr=2_seed=0");
  CHECK(run_name_of({{"env.id", {}, {}}}, {"my env/../x"}, 1) == "id=my-env-..-x_seed=1");
}

TEST_CASE("sweep_progress_text: what has ended, what trains, and the time for the rest as that of the runs before") {
  const std::vector<SweptRunProgress> running = {{"lr=0.1_seed=3", 4, 0.5}};
  CHECK(sweep_progress_text({.ended = 2, .runs = 6, .jobs = 1, .running = running, .mean_seconds = 10}) ==
        "2 of 6 ended, trains lr=0.1_seed=3 (50 %), ETA 0:35");  // 5 s of this one, and 3 times 10 s
}

TEST_CASE("seconds_left: by the progress of the first run, divided by the jobs, and not known before there is any") {
  std::vector<SweptRunProgress> running = {{"a", 10, 0.5}, {"b", 10, NAN}};
  // 20 s a run: 10 s for each of the two, 20 s for each of the two that wait.
  CHECK(seconds_left({.ended = 0, .runs = 4, .jobs = 2, .running = running}) == 30);
  CHECK(seconds_left({.ended = 2, .runs = 4, .jobs = 2, .running = running}) == 10);
  running[0].progress = 0;
  CHECK(std::isnan(seconds_left({.ended = 0, .runs = 4, .jobs = 2, .running = running})));
  CHECK(sweep_progress_text({.ended = 0, .runs = 4, .jobs = 2, .running = running}) ==
        "0 of 4 ended, trains a (0 %), b");
}
