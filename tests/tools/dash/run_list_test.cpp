// Which runs `troupe dash` finds, and when it notes that they have changed.

#include "tools/dash/run_list.h"

#include <filesystem>
#include <memory>

#include <nlohmann/json.hpp>

#include "runtime/base/file.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"
#include "tools/cli/found_runs.h"
#include "tools/dash/dash_data.h"

using namespace troupe;

namespace {

struct Folders {
  test::TempFolder folder;
  std::string runs = folder / "runs";
  RunList::Clock::time_point now = RunList::Clock::now();

  std::string add(const std::string& name) const {
    const std::string path = runs + '/' + name;
    std::filesystem::create_directories(path);
    posix_disk().write_atomic(path + "/config.json", R"({"name":"cartpole","env":{"id":"cartpole"}})");
    posix_disk().write_atomic(path + "/metrics.jsonl", "{\"env_steps\":5,\"updates\":1}\n");
    return path;
  }
  // Of the next second.
  uint64_t changes(RunList& list) {
    list.refresh(now += std::chrono::seconds(1));
    return list.changes();
  }
};

Words folders_of(const std::vector<ServedRun>& runs) {
  Words folders;
  for (const ServedRun& each : runs) folders.push_back(each.run.folder);
  return folders;
}

}  // namespace

TEST_CASE("run_list: a live run marks a change when its files have changed, and not every second") {
  Folders folders;
  const std::string run = folders.add("a");
  const std::unique_ptr<FileLock> lock = posix_disk().lock(run + "/run.lock");
  RunList list({folders.runs});
  const uint64_t first = folders.changes(list);
  REQUIRE(list.runs().at(0).run.state == RunState::running);
  CHECK(folders.changes(list) == first);
  CHECK(folders.changes(list) == first);
  posix_disk().open_append(run + "/metrics.jsonl")->append("{\"env_steps\":9,\"updates\":2}\n");
  CHECK(folders.changes(list) == first + 1);
  CHECK(list.runs()[0].run.env_steps == 9);
}

TEST_CASE("run_list: the end of a process that leaves no file changed marks a change") {
  Folders folders;
  std::unique_ptr<FileLock> lock = posix_disk().lock(folders.add("a") + "/run.lock");
  RunList list({folders.runs});
  const uint64_t first = folders.changes(list);
  lock.reset();
  CHECK(folders.changes(list) == first + 1);
  CHECK(list.runs().at(0).run.state == RunState::crashed);
}

TEST_CASE("run_list: what is changed about a run marks a change") {
  Folders folders;
  const std::string run = folders.add("a");
  RunList list({folders.runs});
  const uint64_t first = folders.changes(list);
  CHECK(folders.changes(list) == first);
  posix_disk().write_atomic(run + "/about.json", "{}");
  CHECK(folders.changes(list) == first + 1);
}

TEST_CASE("run_list: an alarm that a live run raises marks a change") {
  Folders folders;
  const std::string run = folders.add("a");
  const std::unique_ptr<FileLock> lock = posix_disk().lock(run + "/run.lock");
  posix_disk().write_atomic(run + "/alarms.json", R"({"alarms": []})");
  RunList list({folders.runs});
  const uint64_t first = folders.changes(list);
  CHECK(list.runs().at(0).alarms.raised.empty());
  posix_disk().write_atomic(run + "/alarms.json",
                            R"({"alarms": [{"alarm": "kl_high", "level": "error", "standing": true}]})");
  CHECK(folders.changes(list) == first + 1);
  CHECK(list.runs()[0].alarms.standing == AlarmLevels{{"kl_high", AlarmLevel::error}});
}

TEST_CASE("run_list: of a live run without alarms.json, alarms that are over in the newest record stay") {
  Folders folders;
  const std::string run = folders.add("a");
  const std::unique_ptr<FileLock> lock = posix_disk().lock(run + "/run.lock");
  const auto records = posix_disk().open_append(run + "/metrics.jsonl");
  records->append("{\"env_steps\":9,\"updates\":2,\"alarms\":{\"kl_high\":2}}\n");
  RunList list({folders.runs});
  folders.changes(list);
  records->append("{\"env_steps\":12,\"updates\":3,\"alarms\":{\"ess_low\":1}}\n");
  folders.changes(list);
  CHECK(list.runs().at(0).alarms == RunAlarms{{{"ess_low", AlarmLevel::warning}, {"kl_high", AlarmLevel::error}},
                                              {{"ess_low", AlarmLevel::warning}}});
}

TEST_CASE("run_list: finds the runs of sweeps one level deeper, the same as `troupe runs`") {
  Folders folders;
  const Words expected = {folders.add("a"), folders.add("sweep/1"), folders.add("sweep/2")};
  folders.add("sweep/2/below");  // two levels deeper, and in a run
  std::filesystem::create_directories(folders.runs + "/notes");
  std::filesystem::create_directories(folders.runs + "/.hidden");
  RunList list({folders.runs});
  folders.changes(list);
  CHECK(folders_of(list.runs()) == expected);
  CHECK(list.problems() == Words{folders.runs + ": 1 folder has no run and is left out: notes"});
  const FoundRuns found = find_runs({folders.runs});
  REQUIRE(found.runs.size() == 3);
  for (size_t i = 0; i < 3; ++i) CHECK(found.runs[i].folder == expected[i]);
  CHECK(found.problems == list.problems());
}

TEST_CASE("run_list: a run of a sweep that comes later is found") {
  Folders folders;
  std::filesystem::create_directories(folders.runs + "/sweep");
  RunList list({folders.runs});
  folders.changes(list);
  CHECK(list.runs().empty());
  const Words expected = {folders.add("sweep/1")};
  folders.changes(list);
  CHECK(folders_of(list.runs()) == expected);
  CHECK(list.problems().empty());
}

TEST_CASE("dash_data: the answer about the runs is the same for two requests, also while there are none") {
  Folders folders;
  std::filesystem::create_directories(folders.runs);
  DashData data({folders.runs});
  const nlohmann::json none = nlohmann::json::parse(data.answer("/data/runs").body);
  CHECK(none["type"] == "runs");
  CHECK(none["runs"].empty());
  CHECK(none["problems"].size() == 1);
  folders.add("a");
  DashData later({folders.runs});
  const std::string listed = later.answer("/data/runs").body;
  CHECK(nlohmann::json::parse(listed)["runs"].size() == 1);
  CHECK(later.answer("/data/runs").body == listed);
}
