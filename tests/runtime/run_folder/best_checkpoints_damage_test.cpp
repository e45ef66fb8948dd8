#include "runtime/base/memory_disk.h"

#include "runtime/run_folder/best_checkpoints.h"
#include "runtime/run_folder/run_folder.h"
#include "tests/runtime/run_folder/ranked_checkpoints.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// Changes one bit of the weights.
void damage(RankedCheckpoints& f, uint64_t updates) {
  const std::string path = f.run->checkpoints().path_of(updates) + "/model.safetensors";
  std::string bytes = f.disk.read(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  f.disk.damage(path, bytes);
}

// Evaluates the checkpoints 1 to `last`, the later the better, as a run does that was resumed.
void evaluate_all(RankedCheckpoints& f, uint64_t last) {
  for (uint64_t updates = 1; updates <= last; ++updates) f.run->await_evaluation(updates);
  for (uint64_t updates = 1; updates <= last; ++updates)
    f.run->rank_checkpoint({updates, static_cast<double>(updates), 5});
}

constexpr const char* kMayBeOlder =
    "does not know the newest checkpoints, so it may be an older copy or of another run";

}  // namespace

TEST_CASE_FIXTURE(RankedCheckpoints,
                  "best checkpoints: with keep_best 0 and a damaged ranking no checkpoint is removed") {
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
    RankedCheckpoints f;
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

TEST_CASE_FIXTURE(RankedCheckpoints,
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
    RankedCheckpoints f;
    f.restart(0);
    f.run->save_checkpoint(checkpoint_to_rank(1), keep);
    f.run->save_checkpoint(checkpoint_to_rank(2), keep);
    f.restart(1, "", keep);
    CHECK(f.log().find("best.json") == std::string::npos);
    f.evaluate(3, 1);
    CHECK(f.saved() == Updates{3});
  }
}

TEST_CASE("best checkpoints: a ranked checkpoint that is damaged is reported and renamed at a resume") {
  RankedCheckpoints f(2);
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
    RankedCheckpoints f;
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
    void (*act)(RankedCheckpoints& other);
    const char* named;
  };
  const Case cases[] = {
      {"of a run without checkpoints", [](RankedCheckpoints& other) { other.restart(2); }, "1, 2"},
      {"of a run without an evaluation",
       [](RankedCheckpoints& other) {
         other.restart(2);
         Checkpoint theirs = checkpoint_to_rank(3);
         theirs.model["w"] = Array::of<float>({1}, {7.0f});
         other.run->save_checkpoint(theirs, 0);
       },
       "1, 2"},
      {"of a run with other numbers",
       [](RankedCheckpoints& other) {
         other.restart(2);
         other.evaluate(10, 5);
         other.evaluate(20, 5);
       },
       "1, 2"},
      {"of a run with the same numbers and other weights",
       [](RankedCheckpoints& other) {
         other.restart(2);
         for (const uint64_t updates : {1, 2, 3}) {
           Checkpoint theirs = checkpoint_to_rank(updates);
           theirs.model["w"] = Array::of<float>({1}, {7.0f});
           other.run->save_checkpoint(theirs, 0);
           if (updates < 3) other.run->rank_checkpoint({updates, 4, 5});
         }
       },
       nullptr},  // no warning: this ranking ranks 1 and 2, so they are kept
      {"an older one of this run",
       [](RankedCheckpoints& other) {
         other.restart(2);
         other.evaluate(1, 9);
       },
       "2"},
  };
  for (const Case& each : cases) {
    CAPTURE(each.name);
    RankedCheckpoints other, f;  // the log is that of f
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

TEST_CASE("best checkpoints: if the newest ones are damaged, the ranking is not taken for an older copy") {
  for (const uint64_t damaged : {1, 2, 4})
    for (const uint64_t last : {6, 40}) {
      CAPTURE(damaged);
      CAPTURE(last);
      RankedCheckpoints f;
      save_awaited(f, last);
      for (uint64_t updates = last; updates > last - damaged; --updates) damage(f, updates);
      f.restart(2);
      CHECK(f.logged(f.run->checkpoints().path_of(last) + ".damaged"));
      CHECK_MESSAGE(!f.logged("best.json"), f.log());
      const uint64_t left = last - damaged;
      evaluate_all(f, left);
      f.run->save_checkpoint(checkpoint_to_rank(last + 1), 1);
      CHECK(f.ranked() == Updates{left, left - 1});
      CHECK(f.saved() == Updates{left - 1, left, last + 1});
      CHECK(read_ranking(f.disk, "run").unranked.empty());
    }
}

TEST_CASE("best checkpoints: if the newest is damaged, a ranking that is really older, or of another run, is noticed") {
  struct Case {
    const char* name;
    void (*act)(RankedCheckpoints& other);
    const char* named;
  };
  const Case cases[] = {{"an older one of this run", [](RankedCheckpoints& other) { save_awaited(other, 3); }, "4"},
                        {"of another run",
                         [](RankedCheckpoints& other) {
                           other.restart(2);
                           for (uint64_t updates = 1; updates <= 6; ++updates) {
                             Checkpoint theirs = checkpoint_to_rank(updates);
                             theirs.model["w"] = Array::of<float>({1}, {7.0f});
                             other.run->save_checkpoint(theirs, 1, true);
                           }
                         },
                         "1, 2, 3, 4"}};
  for (const Case& each : cases) {
    CAPTURE(each.name);
    RankedCheckpoints other, f;
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
    f.run->save_checkpoint(checkpoint_to_rank(7), 1);
    CHECK(f.ranked() == Updates{5, 4});
    CHECK(f.saved() == Updates{4, 5, 7});
    CHECK(read_ranking(f.disk, "run").unranked.empty());
  }
}

TEST_CASE("best checkpoints: with keep_best 0 and the ranking of another run no checkpoint is removed") {
  RankedCheckpoints other, f;
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
