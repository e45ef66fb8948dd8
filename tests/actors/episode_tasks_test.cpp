// Figures of the episodes of each task: from rollouts to the window.

#include "models/experience/episode_tasks.h"

#include <cmath>
#include <string>
#include <vector>

#include "actors/episode_window.h"
#include "actors/experience/grid/rollout_writer.h"
#include "tests/actors/stats_reports.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

using Means = std::map<std::string, double>;

// Episodes with these returns, of which the task of each is given.
Episodes of_tasks(const std::vector<float>& returns, const std::vector<std::string>& tasks) {
  const auto count = static_cast<int64_t>(returns.size());
  Episodes episodes = {Array::of<float>({count}, returns), Array(DType::i32, {count}), Array(DType::u8, {count})};
  add_tasks(episodes, tasks);
  return episodes;
}

}  // namespace

TEST_CASE("episode_tasks: each task has a part whose values are 1 for its episodes; an empty name is no task") {
  const Episodes episodes = of_tasks({1, 2, 3, 4}, {"b", "a", "", "b"});
  REQUIRE(episodes.parts.size() == 2);
  CHECK(task_of(episodes.parts[0]) == "a");
  CHECK(task_of(episodes.parts[1]) == "b");
  const auto of_b = episodes.parts[1].values.view<float>();
  CHECK(of_b[0] == 1);
  CHECK(std::isnan(of_b[1]));
  CHECK(std::isnan(of_b[2]));
  CHECK(of_b[3] == 1);
  CHECK_FALSE(task_of({"form", {}}));
}

TEST_CASE("episode_tasks: a name is made printable and fits into a part") {
  const Episodes episodes = of_tasks({1}, {std::string(200, 'x') + "\n"});
  REQUIRE(episodes.parts.size() == 1);
  CHECK(episodes.parts[0].name.size() <= kLongestReturnPart);
}

TEST_CASE("episode_window: each task has the mean over its newest episodes, and tasks are no parts of returns") {
  EpisodeWindow window(2);
  window.add(of_tasks({1, 10, 3}, {"a", "b", "a"}));
  window.add(of_tasks({5}, {"a"}));
  window.add(episodes_with({100}));
  CHECK(window.task_figures().return_mean == Means{{"a", 4}, {"b", 10}});
  CHECK(window.part_means().empty());
}

TEST_CASE("episode_window: lengths and success of a task are those of its episodes alone") {
  Episodes episodes = of_tasks({1, 2, 3}, {"a", "b", "a"});
  episodes.lengths = Array::of<int32_t>({3}, {10, 99, 20});
  episodes.success = Array::of<uint8_t>({3}, {1, 0, 0});
  EpisodeWindow window(8);
  window.add(episodes);
  CHECK(window.task_figures().length_mean == Means{{"a", 15}, {"b", 99}});
  CHECK(window.task_figures().success_rate == Means{{"a", 0.5}, {"b", 0}});
}

TEST_CASE("episode_window: after the 31st task all others are one") {
  EpisodeWindow window(100);
  for (int task = 0; task < 40; ++task) window.add(of_tasks({static_cast<float>(task)}, {std::to_string(task)}));
  window.add(of_tasks({7}, {"0"}));
  const Means means = window.task_figures().return_mean;
  CHECK(means.size() == kMostTasks);
  CHECK(means.at("30") == 30);
  CHECK(means.at("0") == 3.5);
  CHECK(means.at("other") == (31 + 39) / 2.0);
  const std::vector<float> returns(40, 1.0f);
  std::vector<std::string> tasks;
  for (int task = 0; task < 40; ++task) tasks.push_back(std::to_string(task));
  CHECK(of_tasks(returns, tasks).parts.size() == kMostTasks);
}

TEST_CASE("episode_window: tasks are saved and loaded, also into a shorter window") {
  EpisodeWindow window(3), copy(3), shorter(1);
  window.add(of_tasks({1, 10, 3}, {"a", "b", "a"}));
  window.add(of_tasks({4}, {"r"}));
  for (EpisodeWindow* loaded : {&copy, &shorter}) loaded->load(window.save());
  CHECK(copy.task_figures().return_mean == window.task_figures().return_mean);
  CHECK(copy.task_figures().length_mean == window.task_figures().length_mean);
  CHECK(copy.save() == window.save());
  CHECK(shorter.task_figures().return_mean == Means{{"a", 3}, {"b", 10}, {"r", 4}});
  EpisodeWindow without(3);
  without.add(episodes_with({1}));
  copy.load(without.save());
  CHECK(copy.task_figures().return_mean.empty());
}

TEST_CASE("rollout_writer: episodes have the tasks of an environment that has some; an unknown number is none") {
  EnvSpec spec;
  spec.id = "tiny";
  spec.observations = {{"o", DType::f32, {1}}};
  spec.action = {ActionKind::discrete, {2}, {}, {}, 1, false};
  RolloutWriter alike(spec, 4, 1);
  alike.add_episode(1, 2, true);
  CHECK(alike.episodes().parts.empty());
  spec.tasks = {"near", "far"};
  RolloutWriter writer(spec, 4, 1);
  CHECK(writer.episodes().parts.empty());
  writer.add_episode(1, 2, true, 1);
  writer.add_episode(2, 2, true, -7);
  const Episodes episodes = writer.episodes();
  REQUIRE(episodes.parts.size() == 1);
  CHECK(task_of(episodes.parts[0]) == "far");
  CHECK(episodes.parts[0].values.view<float>()[0] == 1);
  CHECK(std::isnan(episodes.parts[0].values.view<float>()[1]));
}
