#include "runtime/run_folder/best_checkpoints.h"

#include <cmath>

#include "runtime/base/log.h"
#include "runtime/base/memory_disk.h"
#include "runtime/run_folder/run_folder.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

using Updates = std::vector<uint64_t>;

Updates updates_of(const std::vector<CheckpointScore>& ranking) {
  Updates result;
  for (const CheckpointScore& score : ranking) result.push_back(score.updates);
  return result;
}

Checkpoint checkpoint_at(uint64_t updates) {
  Checkpoint checkpoint;
  checkpoint.version = {0, updates};
  checkpoint.updates = updates;
  checkpoint.model = {{"w", Array::of<float>({1}, {static_cast<float>(updates)})}};
  return checkpoint;
}

// A run folder on a disk in memory; warnings go to a file in memory.
struct Fixture {
  explicit Fixture(uint64_t count = 1) {
    open_log(log_disk.open_append("log"), {LogLevel::info, LogLevel::error, false});
    restart(count);
  }
  ~Fixture() { close_log(); }
  void restart(uint64_t count, const std::string& measure = "", uint64_t keep = 1) {
    run.reset();
    disk.clear_fault();
    run.emplace(disk, "run", "{}");
    run->checkpoints().recover();
    run->keep_best(count, measure, keep);
  }
  // Saved and evaluated at once.
  void evaluate(uint64_t updates, double score, uint64_t keep = 1) {
    run->save_checkpoint(checkpoint_at(updates), keep, /*evaluated_later=*/true);
    run->rank_checkpoint({updates, score, 5});
  }
  Updates saved() { return run->checkpoints().list(); }
  Updates ranked() const { return updates_of(read_ranking(disk, "run")); }
  std::string log() const { return log_disk.read("log"); }
  bool logged(const std::string& text) const { return log().find(text) != std::string::npos; }

  MemoryDisk disk, log_disk;
  std::optional<RunFolder> run;
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "best checkpoints: the best one stays besides the newest, until a better one comes") {
  evaluate(10, 5);
  CHECK(read_ranking(disk, "run") == std::vector<CheckpointScore>{{10, 5, 5}});
  evaluate(20, 3);
  evaluate(30, 4);
  CHECK(saved() == Updates{10, 30});
  evaluate(40, 6);
  CHECK(saved() == Updates{40});
  CHECK(ranked() == Updates{40});
  evaluate(50, 1);
  CHECK(saved() == Updates{40, 50});
  CHECK(run->ranking() == std::vector<CheckpointScore>{{40, 6, 5}});
}

TEST_CASE("best checkpoints: as many as asked for, best first, and of equal ones the earlier") {
  Fixture f(2);
  f.evaluate(1, 5);
  f.evaluate(2, 7);
  f.evaluate(3, 7);
  f.evaluate(4, 5);
  CHECK(f.ranked() == Updates{2, 3});
  f.evaluate(5, 7);
  CHECK(f.ranked() == Updates{2, 3});
  CHECK(f.saved() == Updates{2, 3, 5});
  f.evaluate(6, -1, /*keep=*/0);
  CHECK(f.saved() == Updates{2, 3, 5, 6});  // all are kept
}

TEST_CASE_FIXTURE(Fixture,
                  "best checkpoints: one whose evaluation will follow stays until that or a later one has ended") {
  run->save_checkpoint(checkpoint_at(1), 1, true);
  run->save_checkpoint(checkpoint_at(2), 1, true);
  run->save_checkpoint(checkpoint_at(3), 1, false);
  run->save_checkpoint(checkpoint_at(4), 1, true);
  CHECK(saved() == Updates{1, 2, 4});
  run->rank_checkpoint({2, 1, 5});  // that of 1 was left out
  CHECK(saved() == Updates{2, 4});
  run->rank_checkpoint({4, NAN, 0});  // it failed
  run->save_checkpoint(checkpoint_at(5), 1, false);
  CHECK(saved() == Updates{2, 5});
}

TEST_CASE_FIXTURE(Fixture, "best checkpoints: a score that comes before its checkpoint waits for it") {
  evaluate(1, 1);
  run->rank_checkpoint({2, 9, 5});
  CHECK(ranked() == Updates{1});
  run->save_checkpoint(checkpoint_at(2), 1);
  CHECK(ranked() == Updates{2});
}

TEST_CASE_FIXTURE(Fixture,
                  "best checkpoints: a resumed run goes on with the ranking, less the checkpoints that are gone") {
  evaluate(1, 9);
  evaluate(2, 3);
  restart(1);
  evaluate(3, 5);
  CHECK(saved() == Updates{1, 3});
  restart(2);
  CHECK(updates_of(run->ranking()) == Updates{1});
  evaluate(4, 7);
  CHECK(ranked() == Updates{1, 4});
  run->checkpoints().remove(1);
  restart(2);
  CHECK(updates_of(run->ranking()) == Updates{4});
  CHECK(ranked() == Updates{4});
  CHECK(
      logged("run/best.json: ranks checkpoints that are missing: after update 1 (return 9.0); the best one is now that "
             "after update 4 (return 7.0)"));
  restart(1, R"({"size":9})");
  CHECK(run->ranking().empty());
  CHECK(logged("run/best.json: is of evaluations with other settings; the ranking begins anew"));
  evaluate(5, 2);
  CHECK(ranked() == Updates{5});
  CHECK(saved() == Updates{5});
}

TEST_CASE_FIXTURE(Fixture, "best checkpoints: switched off, there is no ranking") {
  evaluate(1, 9);
  evaluate(2, 3);
  restart(0);
  CHECK(!disk.exists("run/best.json"));
  CHECK(log().find("run/best.json: is removed, because checkpoint.keep_best is 0 now; the best checkpoint, after 1 "
                   "update, is no longer kept when newer ones are written\n") != std::string::npos);
  evaluate(3, 1);
  evaluate(4, 10);
  CHECK(saved() == Updates{4});
  CHECK(ranked().empty());
  disk.damage("run/best.json", "{");
  restart(0);
  CHECK(!disk.exists("run/best.json"));
}

TEST_CASE("best checkpoints: a damaged ranking is named, begins anew, and costs no checkpoint") {
  const auto with = [](const std::string& entry) { return R"({"measure": "", "checkpoints": [)" + entry + "]}"; };
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string(R"({"measure": ""})"),
        std::string(R"({"measure": "", "checkpoints": null})"), std::string(R"({"measure": "", "checkpoints": {}})"),
        std::string(R"({"measure": "}{", "checkpoints": []})"),
        std::string(R"({"measure": "", "checkpoints": [], "unranked": 7})"), with(R"({"updates": -1})"),
        with(R"({"updates": 14.5, "return_mean": 1, "episodes": 5})"),
        with(R"({"updates": 1e30, "return_mean": 1, "episodes": 5})"),
        with(R"({"updates": 18446744073709551616, "return_mean": 1, "episodes": 5})"),
        with(R"({"updates": 14, "return_mean": 1, "episodes": -5})"),
        with(R"({"updates": 14, "return_mean": null, "episodes": 5})")}) {
    CAPTURE(text);
    Fixture f;
    f.evaluate(1, 9);
    f.evaluate(2, 3);
    f.disk.damage("run/best.json", text);
    CHECK_THROWS_WITH_AS(read_ranking(f.disk, "run"), doctest::Contains("run/best.json: "), IoError);
    f.restart(1);
    CHECK(
        f.logged("; the ranking begins anew, and these checkpoints, which may be the best ones, are kept until you "
                 "remove them: after update 1\n"));
    CHECK(f.disk.read("run/best.json.damaged") == text);
    f.evaluate(3, 2);
    CHECK(f.ranked() == Updates{3});
    CHECK(f.saved() == Updates{1, 3});
  }
}

TEST_CASE_FIXTURE(Fixture,
                  "best checkpoints: a ranking that is missing costs no checkpoint, however often it resumes") {
  CHECK(ranked().empty());
  CHECK(disk.exists("run/best.json"));  // from the start on
  evaluate(1, 9);
  evaluate(2, 3);
  disk.remove("run/best.json");
  restart(1);
  CHECK(
      logged("run/best.json: is missing; the ranking begins anew, and these checkpoints, which may be the best ones, "
             "are kept until you remove them: after update 1\n"));
  evaluate(3, 5);
  restart(1);
  evaluate(4, 6);
  evaluate(5, 1);
  CHECK(ranked() == Updates{4});
  CHECK(saved() == Updates{1, 4, 5});
  run->checkpoints().remove(1);
  restart(1);
  CHECK(disk.read("run/best.json").find("unranked") == std::string::npos);
}

TEST_CASE("best checkpoints: where the newest ones are all that there is, a missing ranking is no loss") {
  for (const uint64_t keep : {0, 2}) {
    CAPTURE(keep);
    Fixture f;
    f.restart(0);  // switched off
    f.run->save_checkpoint(checkpoint_at(1), keep);
    f.run->save_checkpoint(checkpoint_at(2), keep);
    f.restart(1, "", keep);
    CHECK(f.log().find("best.json") == std::string::npos);
    f.evaluate(3, 1);
    CHECK(f.saved() == Updates{3});
  }
}

TEST_CASE("best checkpoints: a ranked checkpoint that is damaged is named and set aside at a resume") {
  Fixture f(2);
  f.evaluate(1, 9);
  f.evaluate(2, 7);
  f.evaluate(3, 1);
  const std::string directory = f.run->checkpoints().path_of(1);
  f.disk.damage(directory + "/model.safetensors", "x");
  f.restart(2);
  CHECK(f.logged("/model.safetensors: damaged: 1 bytes, "));
  CHECK(f.logged("; the checkpoint is renamed to " + directory + ".damaged"));
  CHECK(f.logged(
      "ranks checkpoints that are missing: after update 1 (return 9.0); the best one is now that after update 2"));
  CHECK(f.disk.exists(directory + ".damaged/model.safetensors"));
  CHECK(updates_of(f.run->ranking()) == Updates{2});
}

TEST_CASE_FIXTURE(Fixture, "best checkpoints: entries in another order are sorted") {
  disk.damage("run/best.json", R"({"measure": "", "checkpoints": [{"updates": 1, "return_mean": 2, "episodes": 5},
      {"updates": 3, "return_mean": 4.5, "episodes": 5}, {"updates": 2, "return_mean": 4.5, "episodes": 5}]})");
  CHECK(ranked() == Updates{2, 3, 1});
}

TEST_CASE("best checkpoints: killed at any operation, the ranking names only checkpoints that are there") {
  bool reached_end = false;
  for (uint64_t at = 0; !reached_end; ++at) {
    CAPTURE(at);
    Fixture f;
    f.evaluate(1, 5);
    f.disk.set_fault({DiskFault::Kind::crash, f.disk.operations() + at, 1});
    try {
      f.evaluate(2, 3);
      f.evaluate(3, 8);
      f.evaluate(4, 1);
    } catch (const IoError&) {
    }
    f.disk.clear_fault();
    reached_end = f.ranked() == Updates{3} && f.saved() == Updates{3, 4};
    for (const uint64_t updates : f.ranked()) CHECK_NOTHROW(f.run->checkpoints().load(updates));
    f.restart(1);
    REQUIRE(f.run->ranking().size() == 1);
    CHECK(f.run->ranking().front().return_mean >= 5);
    f.evaluate(5, 0);
    const Updates expected{f.run->ranking().front().updates, 5};
    CHECK(f.saved() == expected);
  }
}

TEST_CASE("best checkpoints: a disk that refuses at any operation loses no checkpoint that is ranked") {
  for (uint64_t at = 0; at < 20; ++at) {
    CAPTURE(at);
    Fixture f;
    f.evaluate(1, 5);
    f.disk.set_fault({DiskFault::Kind::refuse, f.disk.operations() + at, 2});
    for (const auto& [updates, score] : {std::pair<uint64_t, double>{2, 3}, {3, 8}, {4, 1}}) {
      try {
        f.evaluate(updates, score);
      } catch (const IoError&) {  // that checkpoint was not written
      }
      for (const uint64_t ranked : f.ranked()) CHECK_NOTHROW(f.run->checkpoints().load(ranked));
    }
    f.disk.clear_fault();
    f.evaluate(5, 0);
    CHECK(f.ranked() == updates_of(f.run->ranking()));
  }
}
