#include "tools/cli/run_groups.h"

#include <cmath>

#include "runtime/base/errors.h"
#include "tests/support/test.h"
#include "tools/cli/group_report.h"

using namespace troupe;

namespace {

RunOverview run_of(const std::string& name, const std::string& config) {
  RunOverview run;
  run.name = name;
  run.config = config;
  run.settings = settings_in(config, "config");
  return run;
}

// A valid config of this version but for the settings that it leaves out.
RunOverview cartpole(int seed, const std::string& rate) {
  return run_of("cartpole", R"({"format": 2, "name": "cartpole", "seed": )" + std::to_string(seed) +
                                R"(, "trainer": {"policy_lr": )" + rate + "}}");
}

RunScore evaluated(double mean) { return {mean, 0, true, 1}; }

// Runs with this policy_lr and these evaluations.
void add_runs(std::vector<RunOverview>& runs, const std::string& rate, const std::vector<double>& evaluations) {
  int seed = 0;
  for (const double mean : evaluations) {
    RunOverview run = cartpole(++seed, rate);
    run.task = "CartPole-v1";
    run.state = RunState::finished;
    run.score = evaluated(mean);
    run.trained = RunScore{mean / 2, 0, false, 1};
    run.mean_speed = 1000;
    runs.push_back(run);
  }
}

}  // namespace

TEST_CASE("group_runs: runs whose configs differ in the seed alone are one group, named by what differs") {
  const std::vector<RunOverview> runs = {cartpole(1, "0.001"), cartpole(2, "0.01"), cartpole(3, "0.001")};
  const std::vector<RunGroup> groups = group_runs(runs, {});
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].label == "trainer.policy_lr=0.001");
  CHECK(groups[0].runs == std::vector<size_t>{0, 2});
  CHECK(groups[1].runs == std::vector<size_t>{1});
}

TEST_CASE("group_runs: groups of different names have them in their labels") {
  const std::vector<RunOverview> runs = {cartpole(1, "0.001"), cartpole(2, "0.01"), run_of("b", R"({"name": "b"})")};
  const std::vector<RunGroup> groups = group_runs(runs, {});
  REQUIRE(groups.size() == 3);
  CHECK(groups[1].label == "cartpole trainer.policy_lr=0.01");
  CHECK(groups[2].label == "b");
}

TEST_CASE("group_runs: --group joins the runs with the same value of a setting, whatever else differs") {
  const std::vector<RunOverview> runs = {cartpole(1, "0.001"), cartpole(2, "0.01"), cartpole(1, "0.1")};
  const std::vector<RunGroup> groups = group_runs(runs, {"seed"});
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].label == "seed=1");
  CHECK(groups[0].runs == std::vector<size_t>{0, 2});
  CHECK_THROWS_WITH_AS(group_runs(runs, {"sed"}), "--group: sed: no run has this setting, did you mean seed?",
                       ConfigError);
}

TEST_CASE("group_runs: groups with numbers are in the order of the numbers") {
  const std::vector<RunOverview> runs = {cartpole(1, "0.003"), cartpole(1, "0.0003"), cartpole(1, "1e-3")};
  std::vector<std::string> labels;
  for (const RunGroup& each : group_runs(runs, {"trainer.policy_lr"})) labels.push_back(each.values.front());
  CHECK(labels == std::vector<std::string>{"0.0003", "0.001", "0.003"});
  CHECK(group_runs(runs, {}).front().label == "trainer.policy_lr=0.0003");
}

TEST_CASE("group_runs: several settings make a group for each combination") {
  const std::vector<RunOverview> runs = {cartpole(1, "0.1"), cartpole(2, "0.1"), cartpole(1, "0.1")};
  const std::vector<RunGroup> groups = group_runs(runs, {"trainer.policy_lr", "seed"});
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].label == "trainer.policy_lr=0.1 seed=1");
  CHECK(groups[0].runs == std::vector<size_t>{0, 2});
}

TEST_CASE("labels_among: names only what differs between these groups") {
  const std::vector<RunOverview> runs = {cartpole(1, "0.001"), cartpole(2, "0.01"), run_of("b", R"({"name": "b"})")};
  const std::vector<RunGroup> groups = group_runs(runs, {});
  const RunGroup* all[] = {&groups[0], &groups[1], &groups[2]};
  CHECK(labels_among(all)[1] == "cartpole trainer.policy_lr=0.01");
  const RunGroup* two[] = {&groups[0], &groups[1]};
  CHECK(labels_among(two) == Words{"trainer.policy_lr=0.001", "trainer.policy_lr=0.01"});
  const RunGroup* one[] = {&groups[0]};
  CHECK(labels_among(one) == Words{"cartpole"});
}

TEST_CASE("labels_among: of several settings of --group, the one that all groups share is left out") {
  const std::vector<RunOverview> runs = {cartpole(1, "0.1"), cartpole(2, "0.1")};
  const std::vector<RunGroup> groups = group_runs(runs, {"trainer.policy_lr", "seed"});
  const RunGroup* both[] = {&groups[0], &groups[1]};
  CHECK(labels_among(both) == Words{"seed=1", "seed=2"});
  const RunGroup* one[] = {&groups[0]};
  CHECK(labels_among(one) == Words{"trainer.policy_lr=0.1 seed=1"});
}

TEST_CASE(
    "mixed_settings_text: the settings in which runs of one group differ, but for seed, name and the group's own") {
  const std::vector<RunOverview> runs = {cartpole(1, "0.1"), cartpole(2, "0.1"), cartpole(2, "0.01")};
  const std::vector<std::vector<size_t>> same = {{0, 1}, {2}}, mixed = {{0}, {1, 2}};
  CHECK(mixed_settings_text(runs, same, {}) == "");
  CHECK(mixed_settings_text(runs, mixed, {"seed"}) == "runs of one group differ also in trainer.policy_lr");
  CHECK(mixed_settings_text(runs, mixed, {"trainer.policy_lr"}) == "");
}

TEST_CASE("group_figure: one run has a mean and no interval, and what is not known is left out") {
  const std::vector<double> one = {NAN, 5}, none = {NAN}, two = {4, 6};
  CHECK(group_figure(one, std::vector<size_t>{0, 0}).mean == 5);
  CHECK(group_figure(one, std::vector<size_t>{0, 0}).runs == 1);
  CHECK(std::isnan(group_figure(one, std::vector<size_t>{0, 0}).low));
  CHECK(group_figure(none, std::vector<size_t>{0}).runs == 0);
  const GroupFigure both = group_figure(two, std::vector<size_t>{0, 0});
  CHECK(both.mean == 5);
  CHECK(both.low == 4);
  CHECK(both.high == 6);
}

TEST_CASE("rank_groups: the best evaluation first, groups without one last") {
  std::vector<RunOverview> runs;
  add_runs(runs, "0.1", {10, 20});
  add_runs(runs, "0.01", {100, 120, 110});
  runs.push_back(cartpole(1, "0.5"));
  runs.back().task = "CartPole-v1";
  const std::vector<RankedGroup> groups = rank_groups(runs, {"trainer.policy_lr"});
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].group.label == "trainer.policy_lr=0.01");
  CHECK(groups[0].evaluation.mean == 110);
  CHECK(groups[0].finished == 3);
  CHECK(groups[1].evaluation.mean == 15);
  CHECK(groups[1].training.mean == 7.5);
  CHECK(groups[2].evaluation.runs == 0);
}

TEST_CASE("rank_groups: returns of two tasks are not joined") {
  std::vector<RunOverview> runs;
  add_runs(runs, "0.1", {10});
  add_runs(runs, "0.1", {500});
  runs.back().task = "Acrobot-v1";
  const std::vector<RankedGroup> groups = rank_groups(runs, {"trainer.policy_lr"});
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].task == "Acrobot-v1");
  CHECK(groups[0].evaluation.mean == 500);
  CHECK(groups[1].evaluation.mean == 10);
}

TEST_CASE("group_table: the speed has the unit of what the runs train on") {
  std::vector<RunOverview> runs;
  add_runs(runs, "0.1", {10, 20});
  const auto title = [&] { return group_table(rank_groups(runs, {"trainer.policy_lr"}), SIZE_MAX); };
  CHECK(title().find("steps/s") != std::string::npos);
  for (RunOverview& run : runs) run.tokens = true;
  CHECK(title().find("answers/s") != std::string::npos);
  CHECK(title().find("steps/s") == std::string::npos);
}

TEST_CASE("group_table: names the best group in one line, and says what the intervals mean") {
  std::vector<RunOverview> runs;
  add_runs(runs, "0.1", {10, 20});
  add_runs(runs, "0.01", {100, 120});
  const std::string table = group_table(rank_groups(runs, {"trainer.policy_lr"}), SIZE_MAX);
  CHECK(table.find(
            "best: trainer.policy_lr=0.01, evaluation 110.00 [100.00, 120.00] over 2 runs; next: "
            "trainer.policy_lr=0.1, evaluation 15.00 [10.00, 20.00] over 2 runs; the intervals do not overlap\n") !=
        table.npos);
  CHECK(
      table.ends_with("figures: interquartile mean over the runs [95 % bootstrap interval], which is rough with fewer "
                      "than 5 runs\n"));
}

TEST_CASE("group_table: groups with the same score are equal, and none of them is the best") {
  std::vector<RunOverview> runs;
  add_runs(runs, "0.1", {500, 500});
  add_runs(runs, "0.01", {500, 500});
  add_runs(runs, "0.001", {100, 120});
  const std::string table = group_table(rank_groups(runs, {"trainer.policy_lr"}), SIZE_MAX);
  CHECK(table.find("best are equal: trainer.policy_lr=0.01, trainer.policy_lr=0.1, evaluation 500.00; next: "
                   "trainer.policy_lr=0.001, evaluation 110.00") != table.npos);
  runs.resize(4);
  CHECK(group_table(rank_groups(runs, {"trainer.policy_lr"}), SIZE_MAX).find("evaluation 500.00\n") != table.npos);
}

TEST_CASE("group_table: overlapping intervals and single runs leave the order open") {
  std::vector<RunOverview> runs;
  add_runs(runs, "0.1", {10, 200});
  add_runs(runs, "0.01", {100, 150});
  CHECK(group_table(rank_groups(runs, {"trainer.policy_lr"}), SIZE_MAX).find("the intervals overlap") !=
        std::string::npos);
  runs.erase(runs.begin());
  CHECK(group_table(rank_groups(runs, {"trainer.policy_lr"}), SIZE_MAX).find("one run has no interval") !=
        std::string::npos);
}

TEST_CASE("runs: what env_steps counts is named for what the runs train on") {
  std::vector<RunOverview> runs(2);
  CHECK(steps_word(runs) == "env steps");
  runs[1].tokens = true;
  CHECK(steps_word(runs) == "env steps or answers");
  runs[0].tokens = true;
  CHECK(steps_word(runs) == "answers");
}
