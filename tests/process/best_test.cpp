// The checkpoints with the best evaluations: checkpoint.keep_best, troupe eval --checkpoint, troupe train --init-from.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>

#include "runtime/run_folder/safetensors.h"
#include "tests/process/train_process.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

namespace fs = std::filesystem;

// An evaluation after every second update. With this learning rate the return on CartPole soon rises and sometimes
// falls again, so that the newest checkpoint need not be the best one.
Words settings(int updates, int best = 1) {
  return set({"stop.env_steps=0", "stop.updates=" + std::to_string(updates), "trainer.lr_schedule=constant",
              "trainer.policy_lr=0.02", "evaluation.every_updates=2", "evaluation.episodes=3", "checkpoint.keep=1",
              "checkpoint.every_updates=5", "checkpoint.keep_best=" + std::to_string(best)});
}

Json ranking_of(const std::string& run) { return json_of(run + "/best.json").at("checkpoints"); }

// Waits until a checkpoint with at least this many updates is on disk: that may be some updates after it was made.
bool saves(const std::string& run, uint64_t updates) {
  return eventually([&] {
    const std::vector<uint64_t> saved = checkpoints_of(run);
    return !saved.empty() && saved.back() >= updates;
  });
}

Json eval(const std::string& run, const Words& more) {
  const CommandLine done(Words{"troupe", "eval", run, "--json"} + more);
  CHECK_MESSAGE(done.exit_code == 0, done.err);
  return Json::parse(done.out);
}

// Each ranked checkpoint exists, `troupe eval` gives it the return that it is ranked by, and the first has the highest
// return.
void check_ranking(const std::string& run) {
  const Json ranking = ranking_of(run);
  REQUIRE(!ranking.empty());
  const double best = ranking.front().at("return_mean");
  double before = best;
  for (const Json& entry : ranking) {
    CHECK(entry.at("return_mean") <= before);
    before = entry.at("return_mean");
    CHECK(eval(run, {"--checkpoint", entry.at("updates").dump()}).at("return_mean") == entry.at("return_mean"));
  }
  CHECK(eval(run, {"--checkpoint", "best"}).at("return_mean") == best);
  CHECK(eval(run, {"--checkpoint", "best"}).at("updates") == ranking.front().at("updates"));
}

// Copies a run of 24 updates with two ranked checkpoints to the folder `run`. It is trained once.
void copy_trained(const std::string& run) {
  static const TempFolder folder;
  const std::string trained = folder / "trained";
  if (!fs::exists(trained)) REQUIRE(CommandLine(train_line(trained, settings(24, 2))).exit_code == 0);
  fs::copy(trained, run, fs::copy_options::recursive);
}

std::string refusal(const Words& line) {
  const CommandLine refused(line);
  CHECK(refused.exit_code == 2);
  CHECK(std::ranges::count(refused.err, '\n') == 1);
  return refused.err;
}

}  // namespace

TEST_CASE(
    "keep_best: the best evaluated policies are kept besides the newest checkpoint, and used by eval, play and train") {
  TempFolder folder;
  const std::string run = folder / "run";
  const CommandLine trained(train_line(run, settings(24, 2)));
  REQUIRE_MESSAGE(trained.exit_code == 0, trained.err);
  check_ranking(run);
  const Json ranking = ranking_of(run);
  const Json& best = ranking.front();
  CHECK(json_of(run + "/summary.json").at("best") == best);
  CHECK(has(trained.out, "best checkpoint: after " + best.at("updates").dump() + " updates, return "));
  const std::vector<uint64_t> saved = checkpoints_of(run);
  CHECK(saved.back() == 24);
  CHECK(saved.size() <= 3);
  for (const Json& entry : ranking) CHECK(std::ranges::find(saved, entry.at("updates").get<uint64_t>()) != saved.end());
  CHECK(eval(run, {}).at("updates") == 24);
  CHECK(eval(run, {"--checkpoint", "newest"}).at("updates") == 24);
  CHECK(CommandLine({"troupe", "play", run, "--checkpoint", "best"}).exit_code == 0);
  const std::string warm = folder / "warm";
  CHECK(CommandLine(train_line(warm, settings(1, 0) + Words{"--init-from", run + "/checkpoints/best"})).exit_code == 0);
  CHECK((read_safetensors(posix_disk(), warm + "/init.safetensors").tensors ==
         read_safetensors(posix_disk(), checkpoint_folder(run, best.at("updates")) + "/model.safetensors").tensors));
}

TEST_CASE("keep_best: a run that was killed keeps its ranking when it resumes") {
  TempFolder folder;
  const std::string run = folder / "run";
  {
    TrainProcess killed(run, settings(1'000'000));
    const auto is_ranked = [&] { return fs::exists(run + "/best.json") && !ranking_of(run).empty(); };
    REQUIRE(eventually([&] { return is_ranked() && killed.updates() >= 12; }));
    killed.process().signal(SIGKILL);
    REQUIRE(killed.process().wait().value_or(-1) == 137);
  }
  check_ranking(run);
  const double before = ranking_of(run).front().at("return_mean");
  const uint64_t resumed_at = checkpoints_of(run).back();
  TrainProcess again(run, settings(static_cast<int>(resumed_at) + 6));
  REQUIRE(again.process().wait().value_or(-1) == 0);
  check_ranking(run);
  CHECK(ranking_of(run).front().at("return_mean") >= before);
  CHECK(checkpoints_of(run).size() <= 2);
}

TEST_CASE("keep_best: a resume without checkpoint.keep_best keeps the ranked checkpoints and reports it") {
  TempFolder folder;
  const std::string run = folder / "run";
  REQUIRE(CommandLine(train_line(run, settings(4))).exit_code == 0);
  const Json ranking = json_of(run + "/best.json");
  const uint64_t best = ranking_of(run).front().at("updates");
  const CommandLine without(train_line(run, settings(9, 0)));
  REQUIRE(without.exit_code == 0);
  CHECK(has(without.out, "checkpoint.keep_best 1 -> 0"));
  CHECK(has(without.err, run +
                             "/best.json: checkpoint.keep_best is 0 now, so no more checkpoints are ranked; those "
                             "that it ranks are kept until you remove the file: after update " +
                             std::to_string(best) + " (return "));
  CHECK(json_of(run + "/best.json") == ranking);
  CHECK(checkpoints_of(run).size() == 2);
  CHECK(CommandLine({"troupe", "eval", run, "--checkpoint", "best", "--episodes", "1"}).exit_code == 0);
}

TEST_CASE("keep_best: without an evaluation there is no best checkpoint, and the error gives the reason") {
  TempFolder folder;
  const std::string run = folder / "run";
  REQUIRE(CommandLine(train_line(run, settings(3, 0))).exit_code == 0);
  const std::string begin = "troupe: " + run + ": has no best checkpoint: ";
  for (const char* command : {"eval", "play"})
    CHECK(refusal({"troupe", command, run, "--checkpoint", "best"}) ==
          begin + "checkpoint.keep_best was 0 in this run; set it to 1 or more before training\n");
  CHECK(has(refusal(train_line(folder / "warm", {"--init-from", run + "/checkpoints/best"})),
            "checkpoint.keep_best was 0 in this run; set it to 1 or more before training\n"));
  CHECK(!fs::exists(folder / "warm"));
  CHECK(refusal({"troupe", "eval", run, "--checkpoint", "7"}) ==
        "troupe: " + run + ": has no checkpoint after 7 updates, those that it has are after: 3\n");
  CHECK(refusal({"troupe", "eval", run, "--checkpoint", "bset"}) ==
        "troupe: --checkpoint: \"bset\" is not a checkpoint, expected newest, best or a number of updates\n");

  const std::string interrupted = folder / "interrupted";
  TrainProcess process(interrupted, settings(1'000'000) + set({"evaluation.every_updates=0"}));
  REQUIRE(process.makes_updates(1));
  REQUIRE(process.interrupt().value_or(-1) == 130);
  CHECK(has(refusal({"troupe", "eval", interrupted, "--checkpoint", "best"}),
            ": has no best checkpoint: evaluation.every_updates is 0, and the evaluation at the end of the run was not "
            "made\n"));
}

TEST_CASE("keep_best: if no checkpoint fits on the disk, the run continues and has no best checkpoint") {
  TempFolder folder;
  const std::string run = folder / "run";
  Process full(train_line(run, settings(6) + set({"model.hidden=[256,256]"})), 64 << 10);
  CHECK(full.wait().value_or(-1) == 1);
  const Json summary = json_of(run + "/summary.json");
  CHECK(summary.at("updates") == 6);
  CHECK(!summary.contains("best"));
  CHECK(ranking_of(run).empty());
  CHECK(has(refusal({"troupe", "eval", run, "--checkpoint", "best"}),
            "has no best checkpoint: no evaluation of a checkpoint has ended"));
  Process again(train_line(run, settings(10) + set({"model.hidden=[256,256]"})));
  CHECK(again.wait().value_or(-1) == 2);  // a run that has trained but has no checkpoint cannot resume
}

TEST_CASE("keep_best: if the folder of the best checkpoint is missing, no other checkpoint replaces it silently") {
  TempFolder folder;
  const std::string run = folder / "run";
  copy_trained(run);
  REQUIRE(ranking_of(run).size() == 2);
  const uint64_t best = ranking_of(run)[0].at("updates"), second = ranking_of(run)[1].at("updates");
  const std::string gone = checkpoint_folder(run, best), aside = folder / "aside";
  fs::rename(gone, aside);
  const std::string expected = run + "/best.json: the best checkpoint, after update " + std::to_string(best) +
                               ", is missing (" + gone + "); restore it, or choose another one, after update: ";
  for (const char* command : {"eval", "play"})
    CHECK(has(refusal({"troupe", command, run, "--checkpoint", "best"}), "troupe: " + expected));
  CHECK(has(refusal(train_line(folder / "warm", {"--init-from", run + "/checkpoints/best"})),
            "troupe: --init-from: " + expected));
  const CommandLine resumed(train_line(run, settings(26, 2)));
  CHECK(resumed.exit_code == 0);
  CHECK(has(resumed.err,
            "ranks checkpoints that are missing or have other weights: after update " + std::to_string(best)));
  CHECK(has(resumed.err, "; the best one is now that after update " + std::to_string(second)));
}

TEST_CASE("keep_best: a resume without best.json removes no checkpoint that best.json may have ranked") {
  TempFolder folder;
  const std::string run = folder / "run";
  copy_trained(run);
  const std::vector<uint64_t> before = checkpoints_of(run);
  REQUIRE(before.size() > 1);
  fs::remove(run + "/best.json");
  CHECK(has(refusal({"troupe", "eval", run, "--checkpoint", "best"}),
            ": has no best checkpoint: " + run + "/best.json is missing"));
  for (const int updates : {26, 28}) {
    const CommandLine resumed(train_line(run, settings(updates, 2)));
    CHECK(resumed.exit_code == 0);
    CHECK(has(resumed.err, "are kept until you remove them") == (updates == 26));
    const std::vector<uint64_t> now = checkpoints_of(run);
    for (const uint64_t step : before)
      if (step != before.back()) CHECK(std::ranges::find(now, step) != now.end());
  }
}

TEST_CASE(
    "keep_best: with an emptied ranking, or that of another run, no checkpoint is removed and `best` is refused") {
  TempFolder folder;
  const std::string original = folder / "original", other = folder / "other";
  copy_trained(original);
  REQUIRE(CommandLine(train_line(other, settings(24, 2) + set({"seed=7"}))).exit_code == 0);
  for (const bool emptied : {true, false}) {
    const std::string run = folder / (emptied ? "emptied" : "foreign");
    fs::copy(original, run, fs::copy_options::recursive);
    const std::vector<uint64_t> before = checkpoints_of(run);
    REQUIRE(before.size() > 1);
    Json ranking = json_of(run + "/best.json");
    ranking["checkpoints"] = Json::array();
    if (emptied)
      std::ofstream(run + "/best.json") << ranking.dump(2);
    else
      fs::copy_file(other + "/best.json", run + "/best.json", fs::copy_options::overwrite_existing);
    refusal({"troupe", "eval", run, "--checkpoint", "best"});
    for (const int updates : {26, 28}) {
      const CommandLine resumed(train_line(run, settings(updates, 2)));
      CHECK_MESSAGE(resumed.exit_code == 0, resumed.err);
      if (emptied) CHECK(has(resumed.err, "are kept until you remove them") == (updates == 26));
      const std::vector<uint64_t> now = checkpoints_of(run);
      for (const uint64_t step : before)
        if (step != before.back()) CHECK(std::ranges::find(now, step) != now.end());
    }
  }
}

TEST_CASE("keep_best: the evaluation at the end of a run is ranked, also in a deterministic run") {
  TempFolder folder;
  for (const std::string deterministic : {"false", "true"}) {
    const std::string run = folder / deterministic;
    REQUIRE(CommandLine(
                train_line(run, settings(3) + set({"evaluation.every_updates=0", "deterministic=" + deterministic})))
                .exit_code == 0);
    CHECK(ranking_of(run).size() == 1);
    CHECK(ranking_of(run).front().at("updates") == 3);
    check_ranking(run);
  }
}

namespace {

// Evaluations of the first start do not return from their first step.
Words with_stalled_evaluations(int updates, bool stalled) {
  return set(
      {"env.id=Synthetic", R"(env.params={"image_height": 1, "image_width": 1, "episode_length": 10})",
       std::string("evaluation.env_params=") + (stalled ? R"({"stall_probability": 1, "stall_ms": 3600000})" : "{}"),
       "stop.env_steps=0", "stop.updates=" + std::to_string(updates), "evaluation.every_updates=2",
       "evaluation.episodes=3", "checkpoint.keep=1", "checkpoint.every_updates=3", "checkpoint.keep_best=2"});
}

}  // namespace

TEST_CASE("best checkpoints: evaluations that a stop or a kill leaves open are made at the resume") {
  TempFolder folder;
  for (const int number : {SIGINT, SIGKILL}) {
    CAPTURE(number);
    const std::string at = folder / std::to_string(number);
    {
      TrainProcess run(at, with_stalled_evaluations(1'000'000, true));
      REQUIRE(saves(at, 8));
      run.process().signal(number);
      REQUIRE(run.process().wait().has_value());
      if (number == SIGINT) CHECK(has(run.process().err(), "not evaluated: the policies after updates 2, 4, 6"));
    }
    const std::vector<uint64_t> saved = checkpoints_of(at);
    REQUIRE(saved.size() >= 3);
    CHECK(saved[0] == 2);
    CHECK(saved[1] == 4);
    const uint64_t end = saved.back() + 1;
    const CommandLine again(train_line(at, with_stalled_evaluations(static_cast<int>(end), false)));
    REQUIRE_MESSAGE(again.exit_code == 0, again.err);
    const std::string begins = "evaluating the policies after updates 2";  // there may be two or more
    CHECK_MESSAGE((has(again.out, begins + ", 4") || has(again.out, begins + " and 4")), again.out);
    CHECK(!has(again.err, "not evaluated"));
    std::map<uint64_t, uint64_t> evaluated;  // environment steps, by updates
    for (const Json& line : lines_of(at))
      if (line.at("eval").is_object()) evaluated[line.at("eval").at("updates")] = line.at("env_steps");
    for (uint64_t updates = 2; updates < end; updates += 2) {
      CAPTURE(updates);
      REQUIRE(evaluated.contains(updates));
      CHECK(evaluated[updates] < evaluated[end]);
    }
    CHECK(evaluated[2] < evaluated[4]);
    check_ranking(at);
  }
}

TEST_CASE("best checkpoints: if the newest checkpoint is damaged while evaluations are open, all others are ranked") {
  TempFolder folder;
  const std::string at = folder / "run";
  {
    TrainProcess run(at, with_stalled_evaluations(1'000'000, true));
    REQUIRE(saves(at, 10));
    run.process().signal(SIGKILL);
    REQUIRE(run.process().wait().has_value());
  }
  const std::vector<uint64_t> saved = checkpoints_of(at);
  REQUIRE(saved.size() >= 4);
  {
    std::fstream file(checkpoint_folder(at, saved.back()) + "/model.safetensors",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-1, std::ios::end);
    const char changed = static_cast<char>(file.get() ^ 1);
    file.seekp(-1, std::ios::end);
    file.put(changed);
    REQUIRE(file.good());
  }
  const CommandLine again(train_line(at, with_stalled_evaluations(static_cast<int>(saved.back()) + 1, false)));
  REQUIRE_MESSAGE(again.exit_code == 0, again.err);
  CHECK(has(again.err, checkpoint_folder(at, saved.back()) + ".damaged"));
  CHECK_MESSAGE(!has(again.err, "best.json"), again.err);
  CHECK(!json_of(at + "/best.json").contains("unranked"));
  CHECK(checkpoints_of(at).size() <= 3);
  check_ranking(at);
}

TEST_CASE("best checkpoints: evaluations that cannot be made at the resume are named") {
  TempFolder folder;
  const std::string at = folder / "run";
  const Words none = set({"checkpoint.keep_best=0", "checkpoint.every_updates=1000000"});
  {
    TrainProcess run(at, with_stalled_evaluations(1'000'000, true) + none);
    REQUIRE(run.makes_updates(5));
    CHECK(run.interrupt() == 130);
  }
  const uint64_t end = checkpoints_of(at).back() + 1;
  const CommandLine again(train_line(at, with_stalled_evaluations(static_cast<int>(end), false) + none));
  CHECK(again.exit_code == 0);
  CHECK(has(again.err, "not evaluated: the polic"));
  CHECK(has(again.err, "after updates 2"));
  CHECK(has(again.err, "there is no checkpoint to evaluate now"));
}
