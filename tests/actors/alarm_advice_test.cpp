// What the texts of alarms advise, and when two of them end.

#include <cmath>
#include <map>
#include <string>

#include "actors/alarm_watch.h"
#include "tests/actors/watched_alarms.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

std::map<std::string, double> figures_with(const std::string& name, double value) {
  std::map<std::string, double> metrics{{"kl", 0.01}, {"entropy", 0.6}};
  metrics[name] = value;
  return metrics;
}

}  // namespace

TEST_CASE("alarm_watch: an entropy that stays low is not over because half of the run is") {
  WatchedUpdates run;
  run.watch = AlarmWatch(AlarmWatch::Facts{.most_entropy = std::log(2)});
  run.updates(10, figures_with("entropy", 1e-2), false, 200, 0.4);
  REQUIRE(run.raised("entropy_low"));
  run.updates(100, figures_with("entropy", 1e-2), false, 200, 0.6);
  CHECK(run.raised("entropy_low"));
  run.updates(20, figures_with("entropy", 0.3), false, 200, 0.7);
  CHECK_FALSE(run.raised("entropy_low"));
  run.updates(100, figures_with("entropy", 1e-2), false, 200, 0.8);
  CHECK_FALSE(run.raised("entropy_low"));
}

TEST_CASE("alarm_watch: the advice names a checkpoint only if there is one from before") {
  const auto advice = [](uint64_t first_checkpoint, bool keeps_best, const std::string& name) {
    WatchedUpdates run;
    run.watch = AlarmWatch(AlarmWatch::Facts{.first_checkpoint = first_checkpoint, .keeps_best = keeps_best});
    run.updates(50, figures_with("kl", 0.01));
    name == "kl_extreme" ? run.updates(2, figures_with("kl", 25))
                         : run.updates(20, figures_with("kl", 0.01), false, 60);
    REQUIRE(run.raised(name));
    return run.watch.raised().at(name).text;
  };
  CHECK(advice(50, false, "kl_extreme").ends_with("and begin again from a checkpoint of before update 51"));
  CHECK(advice(51, false, "kl_extreme").ends_with("and begin a new run, since no checkpoint is from before"));
  CHECK(
      advice(50, true, "return_collapse").find(": resume from the best checkpoint (checkpoint.keep_best) with lower") !=
      std::string::npos);
  CHECK(advice(50, false, "return_collapse")
            .find(": begin a new run (checkpoint.keep_best would have kept the best checkpoint) with lower") !=
        std::string::npos);
}

TEST_CASE("advice_of: what a run has to begin stands where the advice for any run names a checkpoint") {
  const AlarmRule &earlier = alarm_rule("kl_extreme"), &best = alarm_rule("return_collapse"),
                  &none = alarm_rule("kl_high");
  CHECK(advice_of(earlier, false) == std::string(earlier.advice) + ", and begin again from an earlier checkpoint");
  CHECK(advice_of(earlier, false, "begin anew") == std::string(earlier.advice) + ", and begin anew");
  CHECK(advice_of(best, true) == "resume from the best checkpoint (checkpoint.keep_best) with lower learning rates; " +
                                     std::string(best.in_token_runs));
  CHECK(advice_of(best, false, "begin anew") == "begin anew with lower learning rates; " + std::string(best.advice));
  CHECK(advice_of(none, false, "begin anew") == none.advice);
}

TEST_CASE("alarm_watch: files that cannot be written are told at once, and over after five looks") {
  AlarmWatch watch;
  watch.look_at_files({"run/a: cannot write: No space left on device", "run/b: no"}, 7);
  REQUIRE(watch.raised().contains("disk_fails"));
  CHECK(watch.raised()
            .at("disk_fails")
            .text.starts_with("run/a: cannot write: No space left on device (and 1 other file): free some space"));
  CHECK(watch.take_error() == "disk_fails");
  for (int i = 0; i < 4; ++i) watch.look_at_files({}, 8);
  CHECK(watch.raised().contains("disk_fails"));
  watch.look_at_files({}, 8);
  CHECK(watch.raised().empty());
}
