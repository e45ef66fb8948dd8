// Training runs that are interrupted, killed, damaged or refused, and then resumed.
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "tests/process/train_process.h"
#include "tests/support/run_command.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

const Words kEndless = set({"stop.env_steps=0", "stop.updates=1000000", "checkpoint.every_updates=5"});

// Checks for exit code 2 and one line on stderr, which is returned.
std::string refusal(const Words& line) {
  const CommandLine refused(line);
  CHECK(refused.exit_code == 2);
  CHECK(refused.out == "");
  CHECK(std::count(refused.err.begin(), refused.err.end(), '\n') == 1);
  return refused.err;
}

void flip_a_bit(const std::string& path) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  REQUIRE(file.good());
  file.seekg(-1, std::ios::end);
  const char last = static_cast<char>(file.get());
  file.seekp(-1, std::ios::end);
  file.put(static_cast<char>(last ^ 1));
}

std::string model_of(const std::string& folder, uint64_t step) {
  return checkpoint_folder(folder, step) + "/model.safetensors";
}

}  // namespace

TEST_CASE("train: a run without a warm-up that was stopped before its first update says nothing of one") {
  TempFolder folder;
  const Words idle = kEndless + set({"workers.count=0"});
  CHECK(TrainProcess(folder / "run", idle).interrupt().value_or(-1) == 130);
  REQUIRE(checkpoints_of(folder / "run") == std::vector<uint64_t>{0});
  TrainProcess run(folder / "run", idle);
  CHECK(run.interrupt().value_or(-1) == 130);
  CHECK(has(run.process().out(), "resuming at update 0, 0 environment steps"));
  CHECK_FALSE(has(run.process().out(), "warm-up"));
}

TEST_CASE("train: Ctrl-C writes a checkpoint and a summary, the same command resumes from it") {
  TempFolder folder;
  uint64_t updates = 0, env_steps = 0;
  {
    TrainProcess run(folder / "run", kEndless);
    REQUIRE(run.makes_updates(3));
    CHECK(run.interrupt().value_or(-1) == 130);
    const Json summary = run.summary();
    REQUIRE(summary.is_object());
    CHECK(summary.at("reason") == "interrupted");
    CHECK(balances(summary.at("ledger")));
    updates = summary.at("updates");
    CHECK(checkpoints_of(run.folder()).back() == updates);
    CHECK(summary.at("ledger").at("lost_in_crash") == 0);
    CHECK(summary.at("env_steps") == summary.at("ledger").at("produced"));  // CartPole's actions are single steps
    CHECK(summary.at("eval").is_null());
    CHECK(summary.at("episodes").at("success_rate").is_null());
    const Json state = state_of(run.folder());
    env_steps = state.at("env_steps");
    CHECK(state.at("scalars").at("ledger.produced") == env_steps);
    CHECK(state.at("scalars").at("ledger.trained") == summary.at("ledger").at("trained"));
    CHECK(summary.at("env_steps") == env_steps);
    CHECK(!std::filesystem::exists(run.folder() + "/endpoints.json"));
  }
  const Words limit = set({"stop.env_steps=0", "stop.updates=" + std::to_string(updates + 10)});
  TrainProcess again(folder / "run", limit);
  REQUIRE(again.process().wait().value_or(-1) == 0);
  CHECK(has(again.process().out(), "resuming at update " + std::to_string(updates)));
  const Json summary = again.summary();
  CHECK(summary.at("reason") == "stop.updates reached");
  CHECK(summary.at("updates") == updates + 10);
  CHECK(summary.at("env_steps").get<uint64_t>() >= env_steps + 10 * 1024);
  CHECK(balances(summary.at("ledger")));
  CHECK(summary.at("ledger").at("lost_in_crash") == 0);
  CHECK(summary.at("env_steps") == summary.at("ledger").at("produced"));
  CHECK(summary.at("eval").at("return_mean").is_number());
  CHECK(summary.at("eval").at("success_rate").is_null());  // CartPole does not report success

  Process once_more(train_line(folder / "run", limit));
  REQUIRE(once_more.wait().value_or(-1) == 0);
  CHECK(json_of(folder / "run/summary.json").at("updates") == updates + 10);
  CHECK(json_of(folder / "run/summary.json").at("env_steps") >= state_of(folder / "run").at("env_steps"));
  CHECK(metrics_of(folder / "run").at("updates") == updates + 10);
}

TEST_CASE("train: given a run folder or the config.json in it, `train` resumes that run from any current folder") {
  TempFolder folder;
  const std::string run = folder / "mine";
  REQUIRE(CommandLine(train_line(run, set({"stop.updates=1"}))).exit_code == 0);
  uint64_t updates = 1;
  for (const std::string& config : {run, run + "/", run + "/config.json"}) {
    CAPTURE(config);
    const CommandLine resumed(Words{"troupe", "train", config} + set({"stop.updates=" + std::to_string(updates + 1)}));
    CHECK(resumed.exit_code == 0);
    CHECK(has(resumed.out, "resuming at update " + std::to_string(updates)));
    CHECK(json_of(run + "/summary.json").at("updates") == ++updates);
  }
  const std::string inside = "cd '" + run + "' && exec '" + test::built_program("troupe") + "' train config.json";
  CHECK(CommandLine({"/bin/sh", "-c", inside + " --set stop.updates=5"}).exit_code == 0);
  CHECK(json_of(run + "/summary.json").at("updates") == 5);
  CHECK(has(refusal({"troupe", "train", run, "--seed", "99"}), run + ": cannot resume: seed was "));
}

TEST_CASE("train: with --run, the config of a run starts another run with those settings") {
  TempFolder folder;
  const std::string run = folder / "mine", other = folder / "other";
  REQUIRE(CommandLine(train_line(run, set({"stop.updates=1"}))).exit_code == 0);
  const auto train = [&](const std::string& config, const std::string& limit) {
    return CommandLine({"troupe", "train", config, "--run", other, "--seed", "99", "--set", limit}).exit_code;
  };
  CHECK(train(run, "stop.updates=2") == 0);
  CHECK(train(run + "/config.json", "stop.updates=3") == 0);
  CHECK(json_of(other + "/config.json").at("seed") == 99);
  CHECK(json_of(other + "/summary.json").at("starts") == 2);
  CHECK(json_of(run + "/summary.json").at("updates") == 1);
}

TEST_CASE("train: a config.json that is not in a run folder is used like any other config file") {
  TempFolder folder;
  std::ofstream(folder / "config.json") << R"({"env": {"id": "CartPole-v1"}, "stop": {"env_steps": 1}})";
  CHECK(has(refusal({"troupe", "train", folder / "config.json"}), "stop.env_steps: 1 "));
  std::ofstream(folder / "config.json") << R"({"stop": {"env_steps": 2048}, "evaluation": {"episodes": 1}})";
  const std::string there = "cd '" + (folder / ".") + "' && exec '" + test::built_program("troupe") + "' train ";
  CHECK(CommandLine({"/bin/sh", "-c", there + "config.json"}).exit_code == 0);
  CHECK(std::filesystem::exists(folder / "runs/config/summary.json"));
}

TEST_CASE("train: until a run has trained or saved anything, a start may change any setting") {
  TempFolder folder;
  const std::string run = folder / "run";
  {
    TrainProcess failed(run, kEndless + set({"workers.count=0"}));  // no worker, no samples
    failed.process().signal(SIGKILL);
    REQUIRE(failed.process().wait().value_or(-1) == 137);
  }
  const CommandLine repaired(train_line(run, set({"stop.updates=1", "algorithm.gamma=0.5"})));
  CHECK(repaired.exit_code == 0);
  CHECK(has(repaired.out, "nothing was trained in " + run + " yet; its settings are replaced: workers.count 0 -> 1, "));
  CHECK(has(repaired.out, ", algorithm.gamma 0.98 -> 0.5, "));
  CHECK(has(refusal(train_line(run, set({"stop.updates=1"}))), "algorithm.gamma was 0.5 and is now 0.98"));
}

TEST_CASE("train: a stopped run prints the signal and the command that resumes it, and logs the signal") {
  TempFolder folder;
  TrainProcess run(folder / "a run", kEndless);
  REQUIRE(run.makes_updates(1));
  run.process().signal(SIGTERM);
  CHECK(run.process().wait().value_or(-1) == 130);
  // Without a terminal there is no hint about a second Ctrl-C.
  CHECK(run.process().err() == "stopping at SIGTERM: writing a checkpoint\n");
  CHECK(run.process().out().find("\nTo resume: ") != std::string::npos);
  CHECK(run.process().out().find("troupe train cartpole --run '" + run.folder() + "' --set ") != std::string::npos);
  CHECK(log_has(run.folder(), "train: stopping at SIGTERM\n"));
  CHECK(run.process().out().find("\ninference  troupe inference --connect " + run.workers_at() + '\n') !=
        std::string::npos);
}

TEST_CASE(
    "train: a finished run trains on only with a higher limit, and prints that its learning rate follows that limit") {
  TempFolder folder;
  const auto train = [&](const std::string& updates, const std::string& schedule) {
    return CommandLine(train_line(
        folder / schedule, set({"stop.env_steps=0", "stop.updates=" + updates, "trainer.lr_schedule=" + schedule})));
  };
  const CommandLine first = train("2", "linear");
  CHECK(first.exit_code == 0);
  CHECK(log_has(folder / "linear", "train: evaluation: return "));
  const CommandLine longer = train("4", "linear");
  CHECK(longer.exit_code == 0);
  CHECK(longer.err.find("stop.updates was 2 and is now 4: from here on the learning rate (trainer.lr_schedule "
                        "\"linear\") will follow the new limit\n") != std::string::npos);
  const std::string summary = json_of(folder / "linear/summary.json").dump();
  const CommandLine again = train("4", "linear");
  CHECK(again.exit_code == 0);
  CHECK(again.err == "");
  CHECK(again.out.starts_with((folder / "linear") + ": this run has reached stop.updates 4 (4 updates, "));
  CHECK(again.out.ends_with(
      "; to train further, raise the limit, like --set stop.updates=8\nRun folder: " + (folder / "linear") + '\n'));
  CHECK(json_of(folder / "linear/summary.json").dump() == summary);
  CHECK(train("2", "constant").exit_code == 0);
  CHECK(train("4", "constant").err == "");
  const CommandLine two(train_line(folder / "linear", set({"stop.env_steps=0", "stop.updates=6", "stop.seconds=1000",
                                                           "trainer.lr_schedule=linear"})));
  CHECK(two.exit_code == 0);
  CHECK(std::count(two.err.begin(), two.err.end(), '\n') == 1);
  CHECK(two.err.find("stop.updates was 4 and is now 6, stop.seconds was ") != std::string::npos);
  CHECK(two.err.find("\"linear\") will follow the new limits\n") != std::string::npos);
}

TEST_CASE("train: a start prints the settings that it changes, and logs each of them") {
  TempFolder folder;
  const std::string run = folder / "run";
  const auto train = [&](const Words& more) {
    const CommandLine line(train_line(run, set({"stop.env_steps=0"}) + more));
    CHECK_MESSAGE(line.exit_code == 0, line.err);
    return line.out;
  };
  train(set({"stop.updates=1", "checkpoint.keep=7"}));
  const std::string begin = "\nsettings changed since the last start: ";
  const std::string resumed = train(set({"stop.updates=2"}));
  CHECK(has(resumed, begin + "stop.updates 1 -> 2, checkpoint.keep 7 -> 3\n"));
  CHECK(log_has(run, "train: setting changed: stop.updates 1 -> 2\n"));
  CHECK(log_has(run, "train: setting changed: checkpoint.keep 7 -> 3\n"));
  CHECK(has(train(set({"stop.updates=2", "checkpoint.keep=5"})),
            "\nsettings changed in config.json, but nothing was trained or evaluated with them: checkpoint.keep 3 -> "
            "5\n"));
  CHECK(!has(train(set({"stop.updates=2", "checkpoint.keep=5"})), "settings changed"));
  const std::string many =
      train(set({"stop.updates=3", "stop.seconds=1000", "evaluation.episodes=3", "evaluation.rows=2",
                 "checkpoint.every_updates=7", "checkpoint.keep=4", "checkpoint.keep_best=1", "stats.window=50",
                 "workers.groups=1", "inference.timeout_us=99"}));
  const size_t line = many.find(begin);
  REQUIRE(line != std::string::npos);
  CHECK(many.substr(line, many.find('\n', line + 1) - line).ends_with(" and 2 more, see log.txt"));
  for (const char* change : {"stop.updates 2 -> 3", "workers.groups 2 -> 1", "checkpoint.keep_best 0 -> 1"})
    CHECK(log_has(run, std::string("train: setting changed: ") + change + '\n'));
}

TEST_CASE("train: the summary of an interrupted start has the last evaluation of the starts before it") {
  TempFolder folder;
  const std::string at = folder / "run";
  {
    TrainProcess run(at, set({"stop.env_steps=0", "stop.updates=5", "evaluation.every_updates=2"}));
    REQUIRE(run.process().wait().value_or(-1) == 0);
    REQUIRE(run.summary().at("eval").at("updates") == 5);
  }
  TrainProcess run(at, set({"stop.env_steps=0", "stop.updates=1000000", "evaluation.every_updates=0"}));
  REQUIRE(run.makes_updates(1));
  CHECK(run.interrupt().value_or(-1) == 130);
  CHECK(run.summary().at("updates") > 5);
  CHECK(run.summary().at("eval").at("updates") == 5);
}

TEST_CASE("train: Ctrl-C during the last evaluation ends the run with 130 and keeps its updates") {
  TempFolder folder;
  TrainProcess run(folder / "run", set({"stop.updates=2", "evaluation.episodes=1000000", "evaluation.rows=1"}));
  REQUIRE(eventually([&] { return checkpoints_of(run.folder()) == std::vector<uint64_t>{2}; }));
  CHECK(run.interrupt().value_or(-1) == 130);
  CHECK(run.summary().at("updates") == 2);
}

TEST_CASE("train: after a kill the run resumes from the newest checkpoint and its workers join again") {
  TempFolder folder;
  const Words settings = kEndless + set({"workers.count=0", "checkpoint.keep=2"});
  auto run = std::make_unique<TrainProcess>(folder / "run", settings);
  const std::string address = run->workers_at();
  auto worker = start_worker(address);
  REQUIRE(eventually([&] { return checkpoints_of(run->folder()).size() == 2; }));
  run->process().signal(SIGKILL);
  REQUIRE(run->process().wait().value_or(-1) == 137);
  const uint64_t saved = checkpoints_of(folder / "run").back();

  run = std::make_unique<TrainProcess>(folder / "run", settings + Words{"--listen", address});
  CHECK(has(run->process().out(), "resuming at update " + std::to_string(saved)));
  REQUIRE(eventually([&] { return run->updates() > saved + 5; }));
  CHECK(worker->exit_code() == std::nullopt);
  REQUIRE(run->interrupt().value_or(-1) == 130);
  CHECK(balances(run->summary().at("ledger")));
  CHECK(state_of(folder / "run").at("epoch") == 1);
  CHECK(worker->wait().value_or(-1) == 0);
}

TEST_CASE("train: a run with reuse reuses samples after a resume too, at most replay.max_reuse times") {
  TempFolder folder;
  const Words settings = set({"replay.mode=reuse", "replay.max_policy_lag=4", "replay.max_reuse=3"});
  uint64_t updates = 0, trained = 0;
  {
    TrainProcess run(folder / "run", kEndless + settings);
    REQUIRE(run.makes_updates(8));
    CHECK(run.interrupt().value_or(-1) == 130);
    updates = run.summary().at("updates");
    trained = run.summary().at("ledger").at("trained");
  }
  TrainProcess again(folder / "run",
                     settings + set({"stop.env_steps=0", "stop.updates=" + std::to_string(updates + 12)}));
  REQUIRE(again.process().wait().value_or(-1) == 0);
  const Json summary = again.summary(), &ledger = summary.at("ledger");
  CHECK(summary.at("updates") == updates + 12);
  CHECK(balances(ledger));
  CHECK(summary.at("last_start").at("lag").at("max") <= 4);
  const uint64_t new_samples = ledger.at("trained").get<uint64_t>() - trained;
  CHECK(new_samples >= 4 * 1024);  // no sample was in more than 3 of the 12 updates of 1024 samples
  CHECK(new_samples < 12 * 1024);  // and some samples were in more than one
}

TEST_CASE("train: every start has a new epoch, also after a start that was killed before any checkpoint") {
  TempFolder folder;
  const Words settings = set({"stop.env_steps=0", "stop.updates=1000000", "checkpoint.every_updates=0"});
  for (const char* epoch : {"0\n", "1\n"}) {
    TrainProcess run(folder / "run", settings);
    REQUIRE(run.makes_updates(1));
    CHECK(text_of(folder / "run/epoch") == epoch);
    run.process().signal(SIGKILL);
    REQUIRE(run.process().wait().value_or(-1) == 137);
  }
  TrainProcess run(folder / "run", settings);
  REQUIRE(run.makes_updates(1));
  REQUIRE(run.interrupt().value_or(-1) == 130);
  CHECK(state_of(folder / "run").at("epoch") == 2);
}

TEST_CASE("train: a damaged newest checkpoint is reported, and the run resumes from the one before it") {
  TempFolder folder;
  {
    TrainProcess run(folder / "run", kEndless);
    REQUIRE(eventually([&] { return checkpoints_of(run.folder()).size() >= 2; }));
    REQUIRE(run.interrupt().value_or(-1) == 130);
  }
  const std::vector<uint64_t> steps = checkpoints_of(folder / "run");
  REQUIRE(steps.size() >= 2);
  const std::string damaged = model_of(folder / "run", steps.back());
  flip_a_bit(damaged);
  TrainProcess run(folder / "run", kEndless);
  CHECK(has(run.process().out(), "resuming at update " + std::to_string(steps[steps.size() - 2])));
  CHECK(has(run.process().err(), damaged));
  CHECK(run.makes_updates(1));
  CHECK(run.interrupt().value_or(-1) == 130);
}

TEST_CASE("train: if no checkpoint can be used, the start is refused") {
  TempFolder folder;
  {
    TrainProcess run(folder / "run", set({"stop.updates=1"}));
    REQUIRE(run.process().wait().value_or(-1) == 0);
  }
  flip_a_bit(model_of(folder / "run", checkpoints_of(folder / "run").back()));
  for (int i = 0; i < 2; ++i)
    CHECK(has(refusal(train_line(folder / "run", set({"stop.updates=1"}))), "no checkpoint can be used"));
}

TEST_CASE("train: if checkpoints cannot be written, the run trains to its end, reports that and ends with 1") {
  TempFolder folder;
  // A file may have at most 64 KiB, too little for a checkpoint of this wide model.
  const Words settings =
      set({"stop.env_steps=0", "stop.updates=6", "checkpoint.every_updates=2", "model.hidden=[256,256]"});
  TrainProcess run(folder / "run", settings, 64 << 10);
  REQUIRE(run.process().wait().value_or(-1) == 1);
  CHECK(run.summary().at("updates") == 6);
  CHECK(run.summary().at("checkpoint_error").is_string());
  CHECK(log_has(run.folder(), "checkpoint at update 2"));
  CHECK(has(run.process().err(), "checkpoint"));
  CHECK(checkpoints_of(run.folder()).empty());
}

TEST_CASE("train: if new checkpoints cannot be written, the one before is kept, and the run can resume from it") {
  TempFolder folder;
  const Words wide =
      set({"stop.env_steps=0", "checkpoint.every_updates=2", "checkpoint.keep=1", "model.hidden=[256,256]"});
  {
    TrainProcess run(folder / "run", wide + set({"stop.updates=2"}));
    REQUIRE(run.process().wait().value_or(-1) == 0);
  }
  {
    TrainProcess run(folder / "run", wide + set({"stop.updates=6"}), 64 << 10);
    CHECK(run.process().wait().value_or(-1) == 1);
  }
  CHECK(checkpoints_of(folder / "run") == std::vector<uint64_t>{2});
  TrainProcess run(folder / "run", wide + set({"stop.updates=6"}));
  CHECK(has(run.process().out(), "resuming at update 2"));
  CHECK(run.process().wait().value_or(-1) == 0);
}

TEST_CASE("train: a folder or a port that is in use, or a fixed setting that changed, is refused with one line") {
  TempFolder folder;
  TrainProcess run(folder / "run", kEndless);
  REQUIRE(run.makes_updates(1));
  CHECK(has(refusal(train_line(folder / "run", kEndless)), std::to_string(run.process().id())));
  CHECK(has(refusal(train_line(folder / "other", kEndless + Words{"--listen", run.workers_at()})),
            "--listen " + run.workers_at()));
  CHECK(has(refusal(train_line(folder / "other", kEndless + Words{"--stats", run.stats_at()})), run.stats_at()));
  CHECK(has(refusal(train_line(folder / "other", kEndless + Words{"--listen", "192.0.2.1:0"})), "--listen 192.0.2.1"));
  CHECK(!std::filesystem::exists(folder / "other"));
  CHECK(has(refusal(train_line("/proc/run", kEndless)), "/proc/run"));
  CHECK(run.makes_updates(1));
  CHECK(run.interrupt().value_or(-1) == 130);
  CHECK(has(refusal(train_line(folder / "run", kEndless + set({"algorithm.gamma=0.5"}))), " and is now 0.5"));
}
