// eval and play with a real run folder: what they print and what they refuse.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <nlohmann/json.hpp>

#include "actors/config/config.h"
#include "runtime/base/file.h"
#include "runtime/config/fixed_settings.h"
#include "runtime/run_folder/checkpoint.h"
#include "tests/support/run_command.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

using nlohmann::json;
using Words = std::vector<std::string>;

CommandResult run_troupe(Words words) {
  words.insert(words.begin(), test::built_program("troupe"));
  return test::run_command(words);
}

std::string read(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void overwrite(const std::string& path, const std::string& text) { std::ofstream(path, std::ios::trunc) << text; }

// Three updates of CartPole, a checkpoint after each.
struct Run {
  test::TempFolder folder;
  std::string path = folder / "run";

  Run() {
    const CommandResult trained =
        run_troupe({"train", "cartpole", "--run", path, "--set", "stop.updates=3", "--set", "stop.env_steps=0", "--set",
                    "checkpoint.every_updates=1", "--set", "evaluation.episodes=7", "--set", "evaluation.rows=5"});
    REQUIRE(trained.exit_code == 0);
  }
  json eval(Words more = {}) const {
    Words words{"eval", path, "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const CommandResult result = run_troupe(words);
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
    return json::parse(result.out);
  }
  std::string checkpoint(int updates) const {
    std::string digits = std::to_string(updates);
    return path + "/checkpoints/" + std::string(12 - digits.size(), '0') + digits;
  }
};

const Run& trained_run() {
  static const Run run;
  return run;
}

}  // namespace

TEST_CASE("eval: repeats the evaluation at the end of the run") {
  const json ours = trained_run().eval();
  const json theirs = json::parse(read(trained_run().path + "/summary.json")).at("eval");
  for (const char* key :
       {"episodes", "failed_episodes", "return_mean", "return_std", "length_mean", "success_rate", "updates"}) {
    CAPTURE(key);
    CHECK(ours.at(key) == theirs.at(key));
  }
  CHECK(ours.at("success_rate").is_null());  // CartPole does not report success
}

TEST_CASE("eval: plays the given number of episodes, the same ones for the same seed") {
  const json first = trained_run().eval({"--episodes", "12", "--seed", "5"});
  CHECK(first.at("episodes") == 12);
  CHECK(first.at("return_min") <= first.at("return_mean"));
  CHECK(first.at("return_max") >= first.at("return_mean"));
  CHECK(trained_run().eval({"--episodes", "12", "--seed", "5"}) == first);
  CHECK(trained_run().eval({"--episodes", "12", "--seed", "6"}).at("return_mean") != first.at("return_mean"));
}

TEST_CASE("eval: one episode is enough, and text and JSON agree") {
  const json one = trained_run().eval({"--episodes", "1"});
  CHECK(one.at("return_std") == 0.0);
  const CommandResult text = run_troupe({"eval", trained_run().path, "--episodes", "1"});
  CHECK(text.out.find("CartPole-v1 after 3 updates") != std::string::npos);
  CHECK(text.out.find("episodes 1\n") != std::string::npos);
}

TEST_CASE("eval: reports a damaged checkpoint and uses the one before it; ends if all are damaged") {
  const Run run;
  overwrite(run.checkpoint(3) + "/model.safetensors", "no tensors");
  const CommandResult result = run_troupe({"eval", run.path, "--json"});
  CHECK(result.exit_code == 0);
  CHECK(result.err.find(run.checkpoint(3) + "/model.safetensors") != std::string::npos);
  CHECK(json::parse(result.out).at("updates") == 2);
  for (int updates : {1, 2}) overwrite(run.checkpoint(updates) + "/state.json", "{");
  const CommandResult none = run_troupe({"eval", run.path});
  CHECK(none.exit_code == 2);
  CHECK(none.err.starts_with("troupe: " + run.path + "/checkpoints: no checkpoint can be used; the newest one: " +
                             run.checkpoint(3) + "/model.safetensors: damaged: 10 bytes, "));
}

TEST_CASE("eval and play: refuse anything but a run with a checkpoint, with a one-line error") {
  const test::TempFolder folder;
  const std::string run = folder / "run";
  std::filesystem::create_directories(run);
  overwrite(run + "/config.json", R"({"env": {"id": "CartPole-v1"}})");
  const std::string early =
      "troupe: " + run + ": has no checkpoint yet, expected a run of `troupe train` that has written one\n";
  for (const char* command : {"eval", "play"}) {
    const CommandResult result = run_troupe({command, run});
    CHECK(result.exit_code == 2);
    CHECK(result.err == early);
    CHECK(result.out == "");
  }
  overwrite(run + "/config.json", R"({"env": {"id": "CartPol-v1"}})");
  CHECK(run_troupe({"eval", run}).exit_code == 2);
  CHECK(run_troupe({"play", run}).err ==
        "troupe: " + run + "/config.json: env.id: \"CartPol-v1\" is unknown, did you mean \"CartPole-v1\"?\n");
}

TEST_CASE("eval: a checkpoint that was made with other settings than config.json has is refused, naming both") {
  const Run run;
  json config = json::parse(read(run.path + "/config.json"));
  config["model"]["hidden"] = {32};
  overwrite(run.path + "/config.json", config.dump());
  const CommandResult result = run_troupe({"eval", run.path});
  CHECK(result.exit_code == 2);
  CHECK(result.err == "troupe: " + run.path + "/checkpoints: no checkpoint can be used; the newest one: " +
                          run.checkpoint(3) + ": is of another run: model.hidden was [64,64] and is now [32]\n");
}

TEST_CASE("eval and play: a copy of a checkpoint with another number is reported and not used") {
  const Run run;
  std::filesystem::copy(run.checkpoint(1), run.checkpoint(99), std::filesystem::copy_options::recursive);
  CHECK(run.eval().at("updates") == 3);
  for (const char* command : {"eval", "play"}) {
    const CommandResult result = run_troupe({command, run.path, "--episodes", "1"});
    CHECK(result.exit_code == 0);
    CHECK(result.err.find(run.checkpoint(99) + ": holds the checkpoint of update 1, expected that of update 99") !=
          std::string::npos);
  }
  CHECK(std::filesystem::exists(run.checkpoint(99)));  // eval and play rename nothing
}

TEST_CASE("eval and train report with its error that the environment fails in every episode") {
  const test::TempFolder folder;
  const std::string run = folder / "run";
  const CommandResult trained =
      run_troupe({"train", "synthetic", "--run", run, "--set", "stop.updates=1", "--set", "stop.env_steps=0", "--set",
                  R"(env.params={"image_height": 4, "image_width": 4})", "--set",
                  "evaluation.env_params.exception_probability=1"});
  const std::string reason =
      "the environment failed 16 times";  // 4 episodes: each with the others, and three times alone
  CHECK(trained.exit_code == 1);
  CHECK(trained.err.starts_with("troupe: the last evaluation failed: " + reason));
  CHECK(std::ranges::count(trained.err, '\n') == 1);
  CHECK(trained.out.find("evaluation") == std::string::npos);
  CHECK(read(run + "/log.txt").find("failed: " + reason) != std::string::npos);
  const CommandResult evaluated = run_troupe({"eval", run, "--json"});
  CHECK(evaluated.exit_code == 1);
  CHECK(evaluated.out == "");
  CHECK(evaluated.err.starts_with("troupe: " + reason));
  CHECK(evaluated.err.find("the last time with: ") != std::string::npos);
  CHECK(evaluated.err.find("internal error") == std::string::npos);
}

TEST_CASE("eval and train count the episodes that fail, and warn that the score leaves them out") {
  const test::TempFolder folder;
  const std::string run = folder / "run";
  const CommandResult trained =
      run_troupe({"train", "synthetic", "--run", run, "--set", "stop.updates=1", "--set", "stop.env_steps=0", "--set",
                  R"(env.params={"image_height": 4, "image_width": 4, "episode_length": 20})", "--set",
                  "evaluation.env_params.exception_probability=0.02", "--set", "evaluation.rows=10", "--set",
                  "evaluation.episodes=100"});
  CHECK(trained.exit_code == 0);
  const json theirs = json::parse(read(run + "/summary.json")).at("eval");
  const uint64_t failed = theirs.at("failed_episodes");
  CHECK(failed > 5);  // the draws that make an episode fail are its own, so it fails each time
  CHECK(failed < 60);
  CHECK(theirs.at("episodes") == 100 - failed);
  const std::string text = std::to_string(failed);
  CHECK(trained.err.find(": " + text +
                         " of 100 episodes failed, also when played again, because the environment "
                         "failed. The return leaves them out, so it may be too good") != std::string::npos);
  CHECK(trained.out.find(" over " + std::to_string(100 - failed) + " episodes, without " + text + " that failed") !=
        std::string::npos);
  const std::string metrics = read(run + "/metrics.jsonl");
  CHECK(metrics.find("\"failed_episodes\":" + text + ',') != std::string::npos);
  const CommandResult evaluated = run_troupe({"eval", run, "--json"});
  CHECK(evaluated.exit_code == 0);
  CHECK(json::parse(evaluated.out).at("failed_episodes") == failed);
  CHECK(json::parse(evaluated.out).at("return_mean") == theirs.at("return_mean"));
  CHECK(evaluated.err.starts_with("troupe: warning: " + text + " of 100 episodes failed"));
  const CommandResult shown = run_troupe({"eval", run});
  CHECK(shown.out.find("\nfailed   " + text + " further episodes\n") != std::string::npos);
}

TEST_CASE("eval: JSON is valid UTF-8, whatever the bytes of the folder's name") {
  const test::TempFolder folder;
  for (const char* name : {"a\xff", "\xc3", "b\xe2\x82", "\xed\xa0\x80 c", "\xf0\x9f\x98\""}) {
    const std::string copy = folder / name;
    std::filesystem::copy(trained_run().path, copy, std::filesystem::copy_options::recursive);
    const CommandResult result = run_troupe({"eval", copy, "--json", "--episodes", "1"});
    CAPTURE(result.err);
    CHECK(result.exit_code == 0);
    CHECK(json::accept(result.out));  // accept() refuses bytes that are not UTF-8
  }
}

TEST_CASE("eval, play: a run whose settings this build would refuse to train with can still be used") {
  const test::TempFolder folder;
  const std::string copy = folder / "run";
  std::filesystem::copy(trained_run().path, copy, std::filesystem::copy_options::recursive);
  json config = json::parse(read(copy + "/config.json"));
  config["stop"] = {{"updates", 1}, {"env_steps", 1}, {"eval_return", 1}};
  config["evaluation"]["every_updates"] = 0;
  config["stats"]["every_updates"] = 3;  // without effect in a run that is not deterministic
  overwrite(copy + "/config.json", config.dump());
  const CommandResult evaluated = run_troupe({"eval", copy, "--episodes", "1"});
  CHECK(evaluated.err == "");
  CHECK(evaluated.exit_code == 0);
  CHECK(run_troupe({"play", copy, "--episodes", "1"}).exit_code == 0);
  const CommandResult trained = run_troupe({"train", copy + "/config.json", "--run", copy});
  CHECK(trained.exit_code == 2);
  CHECK(trained.err.find("stats.every_updates: 3 has no effect with deterministic false") != std::string::npos);
  CHECK(std::ranges::count(trained.err, '\n') == 1);
  config["env"]["id"] = "CartPol";
  overwrite(copy + "/config.json", config.dump());
  const CommandResult unknown = run_troupe({"eval", copy});
  CHECK(unknown.exit_code == 2);
  CHECK(unknown.err.starts_with("troupe: " + copy + "/config.json: env.id: "));
}

TEST_CASE(
    "eval, play: a run of an older build with scales that this one would refuse to train with can still be used") {
  const test::TempFolder folder;
  const std::string run = folder / "run";
  REQUIRE(run_troupe({"train", "cartpole", "--run", run, "--set", "stop.updates=1", "--set", "evaluation.episodes=1",
                      "--set", "model.normalize_observations=true", "--set", "model.observation_clip=5"})
              .exit_code == 0);
  json config = json::parse(read(run + "/config.json"));
  config["model"]["observation_clip"] = 0.005;
  config["env"]["reward_scale"] = 1e8;
  overwrite(run + "/config.json", config.dump());
  const Checkpoint checkpoint = CheckpointStore(posix_disk(), run + "/checkpoints").load(1);
  CheckpointStore(posix_disk(), run + "/checkpoints",
                  {fixed_settings(config.dump(), settings_of_run()), settings_of_run()})
      .save(checkpoint);
  for (const char* command : {"eval", "play"}) {
    const CommandResult result = run_troupe({command, run, "--episodes", "1"});
    CHECK_MESSAGE(result.exit_code == 0, result.err);
  }
  const CommandResult trained = run_troupe({"train", run});
  CHECK(trained.exit_code == 2);
  CHECK(trained.err.find("env.reward_scale: 100000000 makes rewards too large to learn from") != std::string::npos);
  CHECK(std::ranges::count(trained.err, '\n') == 1);
}

TEST_CASE("eval, play: a run of a machine with GPUs can be used on one without, with a warning") {
  const Run run;
  const std::string path = run.path + "/config.json";
  const std::string eval_as_trained = run_troupe({"eval", run.path, "--json"}).out;
  const auto edit = [&](const std::vector<std::string>& sections) {
    json config = json::parse(read(path));
    for (const std::string& section : sections) config[section]["device"] = "cuda:999";
    overwrite(path, config.dump());
  };
  edit({"trainer"});
  for (const char* command : {"eval", "play"}) {
    const CommandResult result = run_troupe({command, run.path, "--episodes", "1"});
    CHECK_MESSAGE(result.exit_code == 0, result.err);
    CHECK(result.err == "");
    const CommandResult refused = run_troupe({command, run.path, "--device", "cuda:999"});
    CHECK(refused.exit_code == 2);
    CHECK(refused.err.starts_with("troupe: --device: \"cuda:999\", but this "));
    CHECK(std::ranges::count(refused.err, '\n') == 1);
  }
  CHECK(run_troupe({"eval", run.path, "--json"}).out == eval_as_trained);
  edit({"trainer", "inference", "evaluation"});
  for (const char* command : {"eval", "play"}) {
    const CommandResult result = run_troupe({command, run.path, "--episodes", "1"});
    CHECK_MESSAGE(result.exit_code == 0, result.err);
    CHECK(result.err.find("the run's evaluation.device is \"cuda:999\", which this process does not have; computing on "
                          "the CPU") != std::string::npos);
    CHECK(run_troupe({command, run.path, "--episodes", "1", "--device", "cpu"}).err == "");
  }
}

TEST_CASE("train: a run of a machine with GPUs can be resumed on one without if its devices are changed") {
  const Run run;
  const std::string path = run.path + "/config.json";
  json config = json::parse(read(path));
  for (const char* section : {"trainer", "inference", "evaluation"}) config[section]["device"] = "cuda:999";
  overwrite(path, config.dump());
  Words words{"train", run.path, "--set", "stop.updates=4"};
  // Each error names all devices that are still missing, and only those.
  std::vector<std::string> missing = {"trainer.device=cpu", "inference.device=auto", "evaluation.device=auto"};
  while (!missing.empty()) {
    const CommandResult refused = run_troupe(words);
    CAPTURE(refused.err);
    CHECK(refused.exit_code == 2);
    CHECK(refused.err.find(": \"cuda:999\", but this ") != std::string::npos);
    for (const std::string set : {"trainer.device=cpu", "inference.device=auto", "evaluation.device=auto"}) {
      CAPTURE(set);
      const bool is_missing = std::ranges::find(missing, set) != missing.end();
      CHECK((refused.err.find("--set " + set) != std::string::npos) == is_missing);
    }
    CHECK(std::ranges::count(refused.err, '\n') == 1);
    words.insert(words.end(), {"--set", missing.front()});
    missing.erase(missing.begin());
  }
  const CommandResult resumed = run_troupe(words);
  CHECK_MESSAGE(resumed.exit_code == 0, resumed.err);
  CHECK(resumed.out.find("resuming at update 3,") != std::string::npos);
}

TEST_CASE("play: writes plain frames if its output is not a terminal") {
  const CommandResult result = run_troupe({"play", trained_run().path, "--episodes", "2"});
  CHECK(result.exit_code == 0);
  CHECK(result.err == "");
  CHECK(result.out.starts_with("episode 1/2  step 0  return 0.00\n"));
  CHECK(result.out.find("episode 2/2  step 1  return 1.00\n") != std::string::npos);
  CHECK(result.out.ends_with("  over\n"));
  CHECK(result.out.find('\x1b') == std::string::npos);
}

TEST_CASE("play: ends after five failures of the environment, with one line on stderr") {
  const test::TempFolder folder;
  const std::string run = folder / "run";
  const CommandResult trained = run_troupe(
      {"train", "synthetic", "--run", run, "--set", "stop.updates=1", "--set", "stop.env_steps=0", "--set",
       R"(env.params={"image_height": 4, "image_width": 4, "exception_probability": 0.5, "episode_length": 1000})",
       "--set", R"(evaluation.env_params={"exception_probability": 0, "episode_length": 10})", "--set",
       "workers.restart_backoff_ms=1", "--set", "workers.quarantine_after=1000"});
  CAPTURE(trained.err);
  REQUIRE(trained.exit_code == 0);
  CHECK(trained.out.find("\nenvironments failed ") != std::string::npos);
  CHECK(trained.out.find(", the last error: ") != std::string::npos);
  const CommandResult played = run_troupe({"play", run});
  CHECK(played.exit_code == 1);
  CHECK(played.err.starts_with("troupe: the environment failed 5 times, the last time with: "));
  CHECK(std::ranges::count(played.err, '\n') == 1);
  CHECK(std::ranges::count(played.out, '\n') < 500);
}

TEST_CASE("play: Ctrl-C ends it with exit code 130") {
  const CommandResult result =
      test::run_command({"/usr/bin/timeout", "--preserve-status", "-s", "INT", "2", test::built_program("troupe"),
                         "play", trained_run().path, "--episodes", "1000000"});
  CHECK(result.exit_code == 130);
  CHECK(result.err == "");
}
