#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/process/environment_runs.h"
#include "tests/process/train_process.h"
#include "tests/support/run_program.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

// Fills the stack.
const std::string kOverflow = "for (;;) *(volatile char*)__builtin_alloca(4096) = 1;";

// The id of examples/c_env/hill.c, compiled with statements in its step, its destroy and its create.
std::string hill(const TempFolder& folder, const std::string& step, const std::string& destroy = "",
                 const std::string& create = "") {
  static int number = 0;
  std::string source = text_of("examples/c_env/hill.c");
  const auto put_before = [&](const std::string& place, const std::string& code) {
    REQUIRE(has(source, place));
    source.insert(source.find(place), code);
  };
  put_before("hill->position += hill->velocity;", step);
  put_before("free(env);", destroy);
  put_before("if (hill == NULL)", create);
  put_before("#include <math.h>", "#include <signal.h>\n#include <stdio.h>\n#include <unistd.h>\n");
  const std::string name = folder / ("hill" + std::to_string(number++));
  std::ofstream(name + ".c") << source;
  const ProgramResult built =
      run_program("cc -O1 -shared -fPIC -I envs/c_abi " + name + ".c -lm -o " + name + ".so 2>&1");
  REQUIRE_MESSAGE(built.exit_code == 0, built.output);
  return "lib:" + name + ".so";
}

// A run of this environment that makes 20,000 steps.
CommandLine train_library(const std::string& id, const std::string& run, const Words& more = {}) {
  return CommandLine(Words{"troupe", "train", "--env", id, "--run", run} +
                     set({"env.rows=16", "stop.env_steps=20000", "evaluation.episodes=4", "evaluation.rows=4"}) + more);
}

// Statements that note in a link `name` of the folder that they were reached, and never end.
std::string hanging(const TempFolder& folder, const std::string& name) {
  return "if (symlink(\"reached\", \"" + (folder / name) + "\") != 2) for (;;) sleep(1);";
}

// Sends TERM to a deterministic run whose library hangs there, and returns what it says.
std::string stopped_in(const TempFolder& folder, const std::string& name, const std::string& id, const Words& more) {
  Process run(Words{"troupe", "train", "--env", id, "--run", folder / ("run " + name)} +
              set({"deterministic=true", "env.rows=16", "stop.env_steps=20000"}) + more);
  REQUIRE_MESSAGE(eventually([&] { return std::filesystem::is_symlink(folder / name); }), run.err());
  run.signal(SIGTERM);
  CHECK(run.wait(kEnd).value_or(-1) == 130);
  return run.err();
}

}  // namespace

TEST_CASE("environment: a library in C that ends its process costs the episodes of its rows, not the run") {
  TempFolder folder;
  for (const std::string end : {"exit(0)", "abort()", "raise(SIGSEGV)", "_exit(1)"}) {
    CAPTURE(end);
    const std::string id = hill(folder, "{ static int n; if (++n == 3000) " + end + "; }"),
                      run = folder / ("run" + end);
    const CommandLine train = train_library(id, run);
    CHECK(train.exit_code == 0);
    const Json summary = json_of(run + "/summary.json");
    REQUIRE(summary.is_object());
    CHECK(summary.at("env_steps").get<uint64_t>() >= 20000);
    CHECK(summary.at("eval").at("episodes") == 4);
    CHECK(summary.at("env_failures").at(id).get<uint64_t>() >= 16);
    CHECK(balances(summary.at("ledger")));
    CHECK(log_has(run, id + ": troupe_env_step ended its process, which "));
  }
}

TEST_CASE("environment: a library in C that crashes when it is destroyed costs nothing") {
  TempFolder folder;
  const CommandLine train = train_library(hill(folder, "", "abort();"), folder / "run");
  CHECK(train.exit_code == 0);
  const Json summary = json_of(folder / "run/summary.json");
  REQUIRE(summary.is_object());
  CHECK(summary.at("eval").at("episodes") == 4);
  CHECK(checkpoints_of(folder / "run").size() >= 1);
  CHECK(log_has(folder / "run", "was killed by signal 6 (Aborted) in troupe_env_destroy"));
}

TEST_CASE("environment: a library in C that always crashes ends the run with its name") {
  TempFolder folder;
  const std::string id = hill(folder, "abort();");
  const CommandLine train =
      train_library(id, folder / "run", set({"workers.failure_timeout_ms=1500", "workers.restart_backoff_ms=10"}));
  CHECK(train.exit_code == 1);
  CHECK_MESSAGE(has(train.err, id + ": troupe_env_step ended its process, which was killed by signal 6"), train.err);
  CHECK(json_of(folder / "run/summary.json").at("reason") == "environments fail");
}

TEST_CASE("environment: a library in C whose create does not return ends the run after few starts") {
  TempFolder folder;
  // Each start writes a line.
  const std::string starts = folder / "starts";
  const std::string id =
      hill(folder, "", "",
           "{ FILE* file = fopen(\"" + starts +
               "\", \"a\"); if (file) fputs(\"start\\n\", file), fclose(file); } for (;;) sleep(1);");
  const CommandLine train = train_library(id, folder / "run",
                                          set({"workers.failure_timeout_ms=1000", "env.start_timeout_ms=1500",
                                               "env.step_timeout_ms=1500", "workers.groups=3"}));
  // One of each group, after which the time without a step is over, and those of a worker that is told to stop.
  const std::string made = text_of(starts);
  const auto count = std::count(made.begin(), made.end(), '\n');
  CHECK(count >= 3);
  CHECK(count <= 10);
  CHECK(train.exit_code == 1);
  CHECK_MESSAGE(has(train.err, "workers.failure_timeout_ms"), train.err);
  CHECK_MESSAGE(has(train.err, id + ": troupe_env_create has not returned within env.start_timeout_ms (1500 ms)"),
                train.err);
}

TEST_CASE("environment: TERM ends a deterministic run whose environment does not return") {
  TempFolder folder;
  // Without the signal a step or a start may take an hour.
  const Words hour = set({"env.step_timeout_ms=3600000", "env.start_timeout_ms=3600000"});
  for (const std::string isolate : {"true", "false"}) {
    CAPTURE(isolate);
    const std::string name = "step " + isolate;
    const std::string id = hill(folder, "{ static int n; if (++n == 3000) { " + hanging(folder, name) + " } }");
    const std::string err = stopped_in(folder, name, id, hour + set({"env.isolate=" + isolate}));
    CHECK_MESSAGE(has(err, "stopping at SIGTERM: "), err);
    CHECK_MESSAGE(has(err, "no environment has made a step for 2000 ms after SIGTERM: the run ends "), err);
    const Json summary = json_of(folder / ("run " + name) + "/summary.json");
    REQUIRE(summary.is_object());
    CHECK(summary.at("reason") == "interrupted");
  }
}

TEST_CASE(
    "environment: a deterministic run that TERM ends while its environment fails again and again can be resumed") {
  TempFolder folder;
  const Words settings = set({"env.step_timeout_ms=300", "env.start_timeout_ms=300", "workers.failure_timeout_ms=0",
                              "rollout.length=16", "trainer.super_batch=512", "trainer.lr_schedule=constant",
                              "checkpoint.every_updates=2", "checkpoint.keep=0", "stop.env_steps=0"});
  // Each process makes 3000 steps and then hangs: the first after the checkpoint. Later ones do not start.
  const std::string bad =
      hill(folder, "{ static int n; if (++n == 3000) { " + hanging(folder, "again") + " } }", "",
           "if (access(\"" + (folder / "run again/checkpoints/000000000002") + "\", F_OK) == 0) for (;;) sleep(1);");
  const std::string err = stopped_in(folder, "again", bad, settings + set({"stop.updates=100"}));
  const std::vector<uint64_t> saved = checkpoints_of(folder / "run again");
  REQUIRE(!saved.empty());
  CHECK_MESSAGE(has(err, ": the run ends with its state after update " + std::to_string(saved.back())), err);
  CHECK(json_of(folder / "run again/summary.json").at("updates") == saved.back());
  // With a library that does not hang, the run ends like one that was never stopped.
  const std::string good = hill(folder, "");
  std::filesystem::copy_file(good.substr(4), bad.substr(4), std::filesystem::copy_options::overwrite_existing);
  const auto weights = [&](const std::string& id, const std::string& name) {
    const Words more = settings + set({"deterministic=true", "env.step_timeout_ms=60000", "env.start_timeout_ms=60000",
                                       "stop.updates=" + std::to_string(saved.back() + 3)});
    const CommandLine train = train_library(id, folder / name, more);
    CHECK_MESSAGE(train.exit_code == 0, train.err);
    return text_of(checkpoint_folder(folder / name, saved.back() + 3) + "/model.safetensors");
  };
  const std::string whole = weights(good, "whole");
  REQUIRE(!whole.empty());
  CHECK(weights(bad, "run again") == whole);
}

TEST_CASE("environment: TERM ends a deterministic run while it waits for the environment before it begins") {
  TempFolder folder;
  const std::string err = stopped_in(folder, "start", hill(folder, "", "", hanging(folder, "start")),
                                     set({"env.start_timeout_ms=3600000"}));
  CHECK_MESSAGE(has(err, "troupe: stopped before the run began; nothing was written"), err);
  CHECK(!std::filesystem::exists(folder / "run start"));
}

TEST_CASE("environment: a deterministic run whose library hangs in every step ends after its failure timeout") {
  TempFolder folder;
  const std::string id = hill(folder, "for (;;) sleep(1);");
  const CommandLine train = train_library(
      id, folder / "run", set({"deterministic=true", "workers.failure_timeout_ms=1000", "env.step_timeout_ms=1500"}));
  CHECK(train.exit_code == 1);
  CHECK_MESSAGE(has(train.err, "workers.failure_timeout_ms"), train.err);
  CHECK_MESSAGE(has(train.err, "troupe_env_step has not returned within env.step_timeout_ms (1500 ms)"), train.err);
  CHECK(log_has(folder / "run", "an environment has failed: "));
  CHECK(json_of(folder / "run/summary.json").at("reason") == "environments fail");
}

TEST_CASE("environment: without env.isolate a library that ends the run is named") {
  TempFolder folder;
  const Words here = set({"env.isolate=false"});
  const CommandLine exits =
      train_library(hill(folder, "{ static int n; if (++n == 3000) exit(0); }"), folder / "a", here);
  CHECK(exits.exit_code == 1);
  CHECK_MESSAGE(has(exits.err, ".so: troupe_env_step called exit(); set env.isolate to true"), exits.err);
  const CommandLine crashes =
      train_library(hill(folder, "{ static int n; if (++n == 3000) raise(SIGSEGV); }"), folder / "b", here);
  CHECK(crashes.exit_code == 128 + SIGSEGV);
  CHECK_MESSAGE(has(crashes.err, ".so: troupe_env_step ended this process by a signal: Segmentation fault; "),
                crashes.err);
  const CommandLine overflows =
      train_library(hill(folder, "{ static int n; if (++n == 3000) " + kOverflow + " }"), folder / "c", here);
  CHECK(overflows.exit_code == 128 + SIGSEGV);
  CHECK_MESSAGE(has(overflows.err, ".so: troupe_env_step ended this process by a signal: Segmentation fault; "),
                overflows.err);
}

TEST_CASE("environment: a deterministic run of a library in C has the same bytes in its own process, and resumes") {
  TempFolder folder;
  const std::string id = hill(folder, "");
  const auto weights = [&](const std::string& name, const std::vector<Words>& starts) {
    for (const Words& more : starts)
      CHECK(train_library(id, folder / name,
                          set({"deterministic=true", "stop.env_steps=0", "trainer.lr_schedule=constant"}) + more)
                .exit_code == 0);
    return text_of(checkpoint_folder(folder / name, 4) + "/model.safetensors");
  };
  const Words two = set({"stop.updates=2"}), four = set({"stop.updates=4"}), here = set({"env.isolate=false"});
  const std::string apart = weights("apart", {four});
  REQUIRE(!apart.empty());
  CHECK(weights("resumed", {two, four}) == apart);
  CHECK(weights("here", {four + here}) == apart);
}

TEST_CASE("environment: one that has changed is refused at a resume and by eval, with both values") {
  TempFolder folder;
  const std::string id = hill(folder, ""), run = folder / "run", library = id.substr(std::string("lib:").size());
  const std::string source = library.substr(0, library.rfind('.')) + ".c", changed = folder / "changed.c";
  const auto build = [&](const std::string& from) {
    const ProgramResult built =
        run_program("cc -O1 -shared -fPIC -I envs/c_abi " + from + " -lm -o " + library + " 2>&1");
    REQUIRE_MESSAGE(built.exit_code == 0, built.output);
  };
  REQUIRE(train_library(id, run).exit_code == 0);
  std::string text = text_of(source);
  const std::string limit = "max_episode_steps = 100";
  REQUIRE(has(text, limit));
  text.replace(text.find(limit), limit.size(), "max_episode_steps = 90");
  std::ofstream(changed) << text;
  build(changed);
  for (const CommandLine& refused :
       {train_library(id, run, set({"stop.env_steps=40000"})), CommandLine({"troupe", "eval", run})}) {
    CHECK(refused.exit_code == 2);
    CHECK_MESSAGE(has(refused.err, "limit of steps of an episode was 100 and is now 90"), refused.err);
  }
  build(source);
  CHECK(CommandLine({"troupe", "eval", run}).exit_code == 0);
}

TEST_CASE("environment: troupe envs and eval go on when a function of a library ends its process") {
  TempFolder folder;
  const std::string good = hill(folder, "");
  const CommandLine shown({"troupe", "envs", good});
  CHECK(shown.exit_code == 0);
  CHECK(has(shown.out, "of a library in C"));
  CHECK_FALSE(has(shown.out, "Python"));
  // Many rows, so that few lost processes are the failures after which an evaluation gives up.
  REQUIRE(train_library(good, folder / "run", set({"evaluation.rows=200"})).exit_code == 0);
  const std::string bad = hill(folder, "abort();");
  std::filesystem::copy_file(bad.substr(4), good.substr(4), std::filesystem::copy_options::overwrite_existing);
  for (const char* command : {"eval", "play"}) {
    const CommandLine ended({"troupe", command, folder / "run", "--episodes", "200"});
    CHECK(ended.exit_code == 1);
    CHECK_MESSAGE(has(ended.err, "troupe_env_step ended its process, which was killed by signal 6"), ended.err);
  }
}
