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
  void restart(uint64_t count, const std::string& measure = "", uint64_t keep = 1, uint64_t episodes = 5) {
    run.reset();
    disk.clear_fault();
    run.emplace(disk, "run", "{}");
    run->checkpoints().recover();
    run->keep_best({count, measure, episodes}, keep);
  }
  // Saves a checkpoint and ranks it by this score.
  void evaluate(uint64_t updates, double score, uint64_t keep = 1, uint64_t episodes = 5) {
    run->save_checkpoint(checkpoint_at(updates), keep, /*evaluated_later=*/true);
    run->rank_checkpoint({updates, score, episodes});
  }
  Updates saved() { return run->checkpoints().list(); }
  Updates ranked() const { return updates_of(read_ranking(disk, "run").scores); }
  // Makes a run whose checkpoints 1 and 2 are ranked, and whose newest one is 3.
  void rank_two() {
    restart(2);
    evaluate(1, 9);
    evaluate(2, 7);
    evaluate(3, 1);
  }
  std::string log() const { return log_disk.read("log"); }
  bool logged(const std::string& text) const { return log().find(text) != std::string::npos; }

  MemoryDisk disk, log_disk;
  std::optional<RunFolder> run;
};

}  // namespace

TEST_CASE_FIXTURE(
    Fixture, "best checkpoints: the best checkpoint is kept in addition to the newest, until a better one is ranked") {
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
  CHECK(f.saved() == Updates{2, 3, 5, 6});  // keep 0 keeps all
}

TEST_CASE_FIXTURE(
    Fixture, "best checkpoints: a checkpoint that will be evaluated is kept until that or a later evaluation ends") {
  run->save_checkpoint(checkpoint_at(1), 1, true);
  run->save_checkpoint(checkpoint_at(2), 1, true);
  run->save_checkpoint(checkpoint_at(3), 1, false);
  run->save_checkpoint(checkpoint_at(4), 1, true);
  CHECK(saved() == Updates{1, 2, 4});
  run->rank_checkpoint({2, 1, 5});  // checkpoint 1 was not evaluated
  CHECK(saved() == Updates{2, 4});
  run->rank_checkpoint({4, NAN, 0});  // the evaluation failed
  run->save_checkpoint(checkpoint_at(5), 1, false);
  CHECK(saved() == Updates{2, 5});
}

TEST_CASE_FIXTURE(Fixture,
                  "best checkpoints: a score that comes before its checkpoint is used when the checkpoint is saved") {
  evaluate(1, 1);
  run->rank_checkpoint({2, 9, 5});
  CHECK(ranked() == Updates{1});
  run->save_checkpoint(checkpoint_at(2), 1);
  CHECK(ranked() == Updates{2});
}

TEST_CASE_FIXTURE(Fixture,
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

TEST_CASE_FIXTURE(Fixture,
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

TEST_CASE_FIXTURE(Fixture, "best checkpoints: with keep_best 0 and a damaged ranking no checkpoint is removed") {
  evaluate(1, 9);
  evaluate(2, 3);
  disk.damage("run/best.json", "{");
  restart(0);
  CHECK(logged("these checkpoints, which may be the best ones, are kept until you remove them: after update 1\n"));
  CHECK(disk.read("run/best.json") == "{");
  evaluate(3, 1);
  evaluate(4, 10);
  CHECK(saved() == Updates{1, 4});
}

TEST_CASE("best checkpoints: with keep_best 0 from the start only the newest are kept") {
  Fixture f(0);
  f.evaluate(1, 9);
  f.evaluate(2, 3);
  CHECK(f.saved() == Updates{2});
  CHECK(!f.disk.exists("run/best.json"));
}

TEST_CASE("best checkpoints: a damaged ranking is reported and replaced, and no checkpoint is removed") {
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
    CHECK_THROWS_WITH_AS(read_ranking(f.disk, "run"), doctest::Contains("run/best.json:"), IoError);
    f.restart(1);
    CHECK(
        f.logged("; the ranking starts over, and these checkpoints, which may be the best ones, are kept until you "
                 "remove them: after update 1; the file is renamed to run/best.json.damaged\n"));
    CHECK(f.disk.read("run/best.json.damaged") == text);
    f.evaluate(3, 2);
    CHECK(f.ranked() == Updates{3});
    CHECK(f.saved() == Updates{1, 3});
  }
}

TEST_CASE_FIXTURE(Fixture,
                  "best checkpoints: with a missing ranking no checkpoint is removed, also after several resumes") {
  CHECK(ranked().empty());
  CHECK(disk.exists("run/best.json"));  // written at the start of the run
  evaluate(1, 9);
  evaluate(2, 3);
  disk.remove("run/best.json");
  restart(1);
  CHECK(
      logged("run/best.json: is missing; the ranking starts over, and these checkpoints, which may be the best ones, "
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

TEST_CASE("best checkpoints: if there are only newest checkpoints, a missing ranking gives no warning") {
  for (const uint64_t keep : {0, 2}) {
    CAPTURE(keep);
    Fixture f;
    f.restart(0);
    f.run->save_checkpoint(checkpoint_at(1), keep);
    f.run->save_checkpoint(checkpoint_at(2), keep);
    f.restart(1, "", keep);
    CHECK(f.log().find("best.json") == std::string::npos);
    f.evaluate(3, 1);
    CHECK(f.saved() == Updates{3});
  }
}

TEST_CASE("best checkpoints: a ranked checkpoint that is damaged is reported and renamed at a resume") {
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
      "ranks checkpoints that are missing or have other weights: after update 1 (return 9.0); the best one is now that "
      "after update 2"));
  CHECK(f.disk.exists(directory + ".damaged/model.safetensors"));
  CHECK(updates_of(f.run->ranking()) == Updates{2});
}

TEST_CASE("best checkpoints: an edited ranking counts as damaged, and no checkpoint is removed") {
  for (const auto& [from, to] : {std::pair<std::string, std::string>{"9.0", "1.0"},
                                 {"\"updates\": 1", "\"updates\": 3"},
                                 {"\"updates\": 2", "\"updates\": 4"},
                                 {"\"crc32c\": \"", "\"crc32c\": \"0"}}) {
    CAPTURE(to);
    Fixture f;
    f.rank_two();
    std::string text = f.disk.read("run/best.json");
    REQUIRE(text.find(from) != std::string::npos);
    f.disk.damage("run/best.json", text.replace(text.find(from), from.size(), to));
    CHECK_THROWS_WITH_AS(read_ranking(f.disk, "run"), "run/best.json: damaged: its contents do not fit its crc32c",
                         IoError);
    f.restart(2);
    f.evaluate(4, 0);
    CHECK(f.saved() == Updates{1, 2, 4});
  }
}

TEST_CASE("best checkpoints: with the ranking of another run, or an older one, no checkpoint is removed") {
  struct Case {
    const char* name;
    void (*act)(Fixture& other);
    const char* named;
  };
  const Case cases[] = {
      {"of a run without checkpoints", [](Fixture& other) { other.restart(2); }, "1, 2"},
      {"of a run without an evaluation",
       [](Fixture& other) {
         other.restart(2);
         Checkpoint theirs = checkpoint_at(3);
         theirs.model["w"] = Array::of<float>({1}, {7.0f});
         other.run->save_checkpoint(theirs, 0);
       },
       "1, 2"},
      {"of a run with other numbers",
       [](Fixture& other) {
         other.restart(2);
         other.evaluate(10, 5);
         other.evaluate(20, 5);
       },
       "1, 2"},
      {"of a run with the same numbers and other weights",
       [](Fixture& other) {
         other.restart(2);
         for (const uint64_t updates : {1, 2, 3}) {
           Checkpoint theirs = checkpoint_at(updates);
           theirs.model["w"] = Array::of<float>({1}, {7.0f});
           other.run->save_checkpoint(theirs, 0);
           if (updates < 3) other.run->rank_checkpoint({updates, 4, 5});
         }
       },
       nullptr},  // no warning: this ranking ranks 1 and 2, so they are kept
      {"an older one of this run",
       [](Fixture& other) {
         other.restart(2);
         other.evaluate(1, 9);
       },
       "2"},
  };
  for (const Case& each : cases) {
    CAPTURE(each.name);
    Fixture other, f;  // the log is that of f
    f.rank_two();
    each.act(other);
    f.disk.damage("run/best.json", other.disk.read("run/best.json"));
    f.restart(2);
    const std::string warning =
        "run/best.json: does not know the newest checkpoints, so it may be an older copy or of another run; these "
        "checkpoints, which may be the best ones, are kept until you remove them: after update ";
    if (each.named) CHECK_MESSAGE(f.logged(warning + each.named + '\n'), f.log());
    f.evaluate(4, 0);
    f.evaluate(5, 1);
    CHECK(f.saved().size() >= 3);
    for (const uint64_t best : {1, 2}) CHECK_NOTHROW(f.run->checkpoints().load(best));
    f.restart(2);
    f.evaluate(6, 3);
    for (const uint64_t best : {1, 2}) CHECK_NOTHROW(f.run->checkpoints().load(best));
  }
}

namespace {

// A run that ranks two, with the checkpoints 1 to `last`, none of them evaluated yet.
void save_awaited(Fixture& f, uint64_t last) {
  f.restart(2);
  for (uint64_t updates = 1; updates <= last; ++updates) f.run->save_checkpoint(checkpoint_at(updates), 1, true);
}

// Changes one bit of the weights.
void damage(Fixture& f, uint64_t updates) {
  const std::string path = f.run->checkpoints().path_of(updates) + "/model.safetensors";
  std::string bytes = f.disk.read(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  f.disk.damage(path, bytes);
}

// Evaluates the checkpoints 1 to `last`, the later the better, as a run does that was resumed.
void evaluate_all(Fixture& f, uint64_t last) {
  for (uint64_t updates = 1; updates <= last; ++updates) f.run->await_evaluation(updates);
  for (uint64_t updates = 1; updates <= last; ++updates)
    f.run->rank_checkpoint({updates, static_cast<double>(updates), 5});
}

constexpr const char* kMayBeOlder =
    "does not know the newest checkpoints, so it may be an older copy or of another run";

}  // namespace

TEST_CASE("best checkpoints: if the newest ones are damaged, the ranking is not taken for an older copy") {
  for (const uint64_t damaged : {1, 2, 4})
    for (const uint64_t last : {6, 40}) {
      CAPTURE(damaged);
      CAPTURE(last);
      Fixture f;
      save_awaited(f, last);
      for (uint64_t updates = last; updates > last - damaged; --updates) damage(f, updates);
      f.restart(2);
      CHECK(f.logged(f.run->checkpoints().path_of(last) + ".damaged"));
      CHECK_MESSAGE(!f.logged("best.json"), f.log());
      const uint64_t left = last - damaged;
      evaluate_all(f, left);
      f.run->save_checkpoint(checkpoint_at(last + 1), 1);
      CHECK(f.ranked() == Updates{left, left - 1});
      CHECK(f.saved() == Updates{left - 1, left, last + 1});
      CHECK(read_ranking(f.disk, "run").unranked.empty());
    }
}

TEST_CASE("best checkpoints: if the newest is damaged, a ranking that is really older, or of another run, is noticed") {
  struct Case {
    const char* name;
    void (*act)(Fixture& other);
    const char* named;
  };
  const Case cases[] = {{"an older one of this run", [](Fixture& other) { save_awaited(other, 3); }, "4"},
                        {"of another run",
                         [](Fixture& other) {
                           other.restart(2);
                           for (uint64_t updates = 1; updates <= 6; ++updates) {
                             Checkpoint theirs = checkpoint_at(updates);
                             theirs.model["w"] = Array::of<float>({1}, {7.0f});
                             other.run->save_checkpoint(theirs, 1, true);
                           }
                         },
                         "1, 2, 3, 4"}};
  for (const Case& each : cases) {
    CAPTURE(each.name);
    Fixture other, f;
    save_awaited(f, 6);
    damage(f, 6);
    each.act(other);
    f.disk.damage("run/best.json", other.disk.read("run/best.json"));
    f.restart(2);
    CHECK_MESSAGE(f.logged(std::string(kMayBeOlder) +
                           "; these checkpoints, which may be the best ones, are kept until you remove them: after "
                           "update " +
                           each.named + '\n'),
                  f.log());
    evaluate_all(f, 5);  // now their returns are known
    f.run->save_checkpoint(checkpoint_at(7), 1);
    CHECK(f.ranked() == Updates{5, 4});
    CHECK(f.saved() == Updates{4, 5, 7});
    CHECK(read_ranking(f.disk, "run").unranked.empty());
  }
}

TEST_CASE_FIXTURE(Fixture, "best checkpoints: an unranked checkpoint that is evaluated is ranked like others") {
  save_awaited(*this, 4);
  disk.remove("run/best.json");
  restart(1);
  CHECK(read_ranking(disk, "run").unranked == std::set<uint64_t>{1, 2, 3});
  run->save_checkpoint(checkpoint_at(5), 1);
  run->rank_checkpoint({1, NAN, 0});  // its evaluation failed
  run->rank_checkpoint({2, 8, 5});
  run->rank_checkpoint({3, 6, 5});
  CHECK(ranked() == Updates{2});
  CHECK(read_ranking(disk, "run").unranked == std::set<uint64_t>{1});
  CHECK(saved() == Updates{1, 2, 5});
}

TEST_CASE_FIXTURE(Fixture, "best checkpoints: the file holds a limited number of checksums, and all that are awaited") {
  restart(1);
  for (uint64_t updates = 1; updates <= 500; ++updates)
    run->save_checkpoint(checkpoint_at(updates), 1, /*evaluated_later=*/updates % 100 == 0);
  const Ranking ranking = read_ranking(disk, "run");
  for (const uint64_t awaited : {100, 200, 300, 400}) CHECK(ranking.saved.contains(awaited));
  CHECK(ranking.saved.size() < 40);
  CHECK(ranking.newest->first == 500);
}

TEST_CASE("best checkpoints: with keep_best 0 and the ranking of another run no checkpoint is removed") {
  Fixture other, f;
  f.rank_two();
  other.evaluate(10, 5);
  f.disk.damage("run/best.json", other.disk.read("run/best.json"));
  for (uint64_t updates = 4; updates < 7; ++updates) {
    f.restart(0);
    f.evaluate(updates, 0);
    CHECK(f.saved() == Updates{1, 2, updates});
  }
  CHECK(f.disk.read("run/best.json") == other.disk.read("run/best.json"));
}

TEST_CASE(
    "best checkpoints: a checkpoint that was replaced by one of another run is not changed and leaves the ranking") {
  Fixture f;
  f.rank_two();
  Fixture other;
  other.run.reset();
  other.disk = MemoryDisk();
  RunFolder theirs(other.disk, "run", R"({"seed": 9})");
  theirs.save_checkpoint(checkpoint_at(1), 0);
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
    Fixture f;
    f.run->save_checkpoint(checkpoint_at(1), 1);
    f.disk.set_fault({DiskFault::Kind::crash, f.disk.operations() + at, 1});
    try {
      f.run->save_checkpoint(checkpoint_at(2), 1);
      reached_end = true;
    } catch (const IoError&) {
    }
    f.restart(1);
    f.run->save_checkpoint(checkpoint_at(3), 1);
    CHECK(f.saved() == Updates{3});
    CHECK(f.log().find("kept until") == std::string::npos);
  }
}

TEST_CASE_FIXTURE(Fixture, "best checkpoints: evaluations over another number of episodes are not compared") {
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

TEST_CASE_FIXTURE(Fixture, "best checkpoints: a checkpoint saved again with other weights loses its score") {
  evaluate(1, 9);
  Checkpoint again = checkpoint_at(1);
  run->save_checkpoint(again, 1);  // the same weights, as if the last steps of the run arrived late
  CHECK(ranked() == Updates{1});
  again.model["w"] = Array::of<float>({1}, {7.0f});
  run->save_checkpoint(again, 1);  // other weights, as if the run had resumed from an older checkpoint
  CHECK(ranked().empty());
}

TEST_CASE_FIXTURE(Fixture, "best checkpoints: a warning names a few of many checkpoints") {
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

TEST_CASE("best checkpoints: if the disk refuses any operation, every ranked checkpoint still exists") {
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
