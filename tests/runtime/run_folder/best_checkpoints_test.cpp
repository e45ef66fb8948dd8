#include "runtime/run_folder/best_checkpoints.h"

#include <cmath>

#include "runtime/base/log.h"
#include "runtime/base/memory_disk.h"
#include "runtime/run_folder/run_folder.h"
#include "tests/runtime/run_folder/ranked_checkpoints.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE_FIXTURE(
    RankedCheckpoints,
    "best checkpoints: the best checkpoint is kept in addition to the newest, until a better one is ranked") {
  evaluate(10, 5);
  CHECK(read_ranking(disk, "run").scores == std::vector<CheckpointScore>{{10, 5, 5}});
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

TEST_CASE("best checkpoints: the requested number is ranked, best first, and of equal scores the earlier first") {
  RankedCheckpoints f(2);
  f.evaluate(1, 5);
  f.evaluate(2, 7);
  f.evaluate(3, 7);
  f.evaluate(4, 5);
  CHECK(f.ranked() == Updates{2, 3});
  f.evaluate(5, 7);
  CHECK(f.ranked() == Updates{2, 3});
  CHECK(f.saved() == Updates{2, 3, 5});
  f.evaluate(6, -1, /*keep=*/0);
  CHECK(f.saved() == Updates{2, 3, 5, 6});  // keep 0 keeps all
}

TEST_CASE_FIXTURE(
    RankedCheckpoints,
    "best checkpoints: a checkpoint that will be evaluated is kept until that or a later evaluation ends") {
  run->save_checkpoint(checkpoint_to_rank(1), 1, true);
  run->save_checkpoint(checkpoint_to_rank(2), 1, true);
  run->save_checkpoint(checkpoint_to_rank(3), 1, false);
  run->save_checkpoint(checkpoint_to_rank(4), 1, true);
  CHECK(saved() == Updates{1, 2, 4});
  run->rank_checkpoint({2, 1, 5});  // checkpoint 1 was not evaluated
  CHECK(saved() == Updates{2, 4});
  run->rank_checkpoint({4, NAN, 0});  // the evaluation failed
  run->save_checkpoint(checkpoint_to_rank(5), 1, false);
  CHECK(saved() == Updates{2, 5});
}

TEST_CASE_FIXTURE(RankedCheckpoints,
                  "best checkpoints: a score that comes before its checkpoint is used when the checkpoint is saved") {
  evaluate(1, 1);
  run->rank_checkpoint({2, 9, 5});
  CHECK(ranked() == Updates{1});
  run->save_checkpoint(checkpoint_to_rank(2), 1);
  CHECK(ranked() == Updates{2});
}

TEST_CASE_FIXTURE(RankedCheckpoints,
                  "best checkpoints: a resumed run continues the ranking without checkpoints that are missing") {
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
      logged("run/best.json: ranks checkpoints that are missing or have other weights: after update 1 (return 9.0); "
             "the best one is now that after update 4 (return 7.0)"));
  restart(1, R"({"size":9})");
  CHECK(run->ranking().empty());
  CHECK(
      logged("run/best.json: ranks evaluations with another evaluation.env_params; these leave the ranking, and are "
             "kept until you remove them: after update 4 (return 7.0)"));
  evaluate(5, 2);
  CHECK(ranked() == Updates{5});
  CHECK(saved() == Updates{4, 5});
}

TEST_CASE_FIXTURE(RankedCheckpoints,
                  "best checkpoints: with keep_best 0 no more checkpoints are ranked, and ranked ones are kept") {
  evaluate(1, 9);
  evaluate(2, 3);
  restart(0);
  CHECK(
      logged("run/best.json: checkpoint.keep_best is 0 now, so no more checkpoints are ranked; those that it ranks are "
             "kept until you remove the file: after update 1 (return 9.0)\n"));
  evaluate(3, 1);
  evaluate(4, 10);
  CHECK(saved() == Updates{1, 4});
  CHECK(ranked() == Updates{1});
  restart(1);
  evaluate(5, 2);
  CHECK(saved() == Updates{1, 5});
  CHECK(ranked() == Updates{1});
}

TEST_CASE("best checkpoints: with keep_best 0 from the start only the newest are kept") {
  RankedCheckpoints f(0);
  f.evaluate(1, 9);
  f.evaluate(2, 3);
  CHECK(f.saved() == Updates{2});
  CHECK(!f.disk.exists("run/best.json"));
}

TEST_CASE_FIXTURE(RankedCheckpoints,
                  "best checkpoints: an unranked checkpoint that is evaluated is ranked like others") {
  save_awaited(*this, 4);
  disk.remove("run/best.json");
  restart(1);
  CHECK(read_ranking(disk, "run").unranked == std::set<uint64_t>{1, 2, 3});
  run->save_checkpoint(checkpoint_to_rank(5), 1);
  run->rank_checkpoint({1, NAN, 0});  // its evaluation failed
  run->rank_checkpoint({2, 8, 5});
  run->rank_checkpoint({3, 6, 5});
  CHECK(ranked() == Updates{2});
  CHECK(read_ranking(disk, "run").unranked == std::set<uint64_t>{1});
  CHECK(saved() == Updates{1, 2, 5});
}

TEST_CASE_FIXTURE(RankedCheckpoints,
                  "best checkpoints: the file holds a limited number of checksums, and all that are awaited") {
  restart(1);
  for (uint64_t updates = 1; updates <= 500; ++updates)
    run->save_checkpoint(checkpoint_to_rank(updates), 1, /*evaluated_later=*/updates % 100 == 0);
  const Ranking ranking = read_ranking(disk, "run");
  for (const uint64_t awaited : {100, 200, 300, 400}) CHECK(ranking.saved.contains(awaited));
  CHECK(ranking.saved.size() < 40);
  CHECK(ranking.newest->first == 500);
}

TEST_CASE(
    "best checkpoints: a checkpoint that was replaced by one of another run is not changed and leaves the ranking") {
  RankedCheckpoints f;
  f.rank_two();
  RankedCheckpoints other;
  other.run.reset();
  other.disk = MemoryDisk();
  RunFolder theirs(other.disk, "run", R"({"seed": 9})");
  theirs.save_checkpoint(checkpoint_to_rank(1), 0);
  const std::string directory = f.run->checkpoints().path_of(1);
  for (const std::string& name : other.disk.list(directory))
    f.disk.damage(directory + '/' + name, other.disk.read(directory + '/' + name));
  open_log(f.log_disk.open_append("log"), {LogLevel::info, LogLevel::error, false});
  f.restart(2);
  CHECK(f.logged(directory + ": is of another run: "));
  CHECK(f.logged("; it is left as it is\n"));
  CHECK(f.disk.read(directory + "/state.json") == other.disk.read(directory + "/state.json"));
  CHECK(updates_of(f.run->ranking()) == Updates{2});
  f.evaluate(4, 0);
  CHECK(f.saved() == Updates{1, 2, 4});
}

TEST_CASE("best checkpoints: after a kill before the first evaluation no old checkpoint is kept as possibly best") {
  bool reached_end = false;
  for (uint64_t at = 0; !reached_end; ++at) {
    CAPTURE(at);
    RankedCheckpoints f;
    f.run->save_checkpoint(checkpoint_to_rank(1), 1);
    f.disk.set_fault({DiskFault::Kind::crash, f.disk.operations() + at, 1});
    try {
      f.run->save_checkpoint(checkpoint_to_rank(2), 1);
      reached_end = true;
    } catch (const IoError&) {
    }
    f.restart(1);
    f.run->save_checkpoint(checkpoint_to_rank(3), 1);
    CHECK(f.saved() == Updates{3});
    CHECK(f.log().find("kept until") == std::string::npos);
  }
}

TEST_CASE_FIXTURE(RankedCheckpoints, "best checkpoints: evaluations over another number of episodes are not compared") {
  evaluate(1, 9);
  evaluate(2, 3);
  restart(1, "", 1, /*episodes=*/100);
  CHECK(run->ranking().empty());
  CHECK(
      logged("run/best.json: ranks evaluations with another evaluation.episodes; these leave the ranking, and are kept "
             "until you remove them: after update 1 (return 9.0)\n"));
  evaluate(3, 2, 1, 100);
  CHECK(ranked() == Updates{3});
  CHECK(saved() == Updates{1, 3});
}

TEST_CASE_FIXTURE(RankedCheckpoints, "best checkpoints: a checkpoint saved again with other weights loses its score") {
  evaluate(1, 9);
  Checkpoint again = checkpoint_to_rank(1);
  run->save_checkpoint(again, 1);  // the same weights, as if the last steps of the run arrived late
  CHECK(ranked() == Updates{1});
  again.model["w"] = Array::of<float>({1}, {7.0f});
  run->save_checkpoint(again, 1);  // other weights, as if the run had resumed from an older checkpoint
  CHECK(ranked().empty());
}

TEST_CASE_FIXTURE(RankedCheckpoints, "best checkpoints: a warning names a few of many checkpoints") {
  restart(1000, "", 0);
  for (uint64_t updates = 1; updates <= 300; ++updates) evaluate(updates, 1, 0);
  disk.rename("run/checkpoints", "elsewhere");
  restart(1000);
  CHECK(logged("after update 8 (return 1.0) and 292 more; none is ranked now\n"));
  CHECK(log().size() < 2000);
}

TEST_CASE("best checkpoints: after a kill at any operation every ranked checkpoint exists") {
  bool reached_end = false;
  for (uint64_t at = 0; !reached_end; ++at) {
    CAPTURE(at);
    RankedCheckpoints f;
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

TEST_CASE("best checkpoints: if the disk refuses any operation, every ranked checkpoint still exists") {
  for (uint64_t at = 0; at < 20; ++at) {
    CAPTURE(at);
    RankedCheckpoints f;
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
