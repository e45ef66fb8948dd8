// Tests of the program itself: mistakes that troupe train refuses before anything starts.
#include "tests/support/test.h"
#include "tests/tools/troupe_program.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("troupe: train refuses a run folder if its path, or the beginning of it, is a file") {
  const Folder folder;
  const std::string file = folder.file("a_file", "");
  const std::string wanted = ": is not a folder, expected a new one, an empty one or that of a run";
  check_all({
      {{"train", "cartpole", "--run", file}, "--run: " + file + wanted},
      {{"train", "cartpole", "--run", "/dev/full"}, "--run: /dev/full" + wanted},
      {{"train", "cartpole", "--run", file + "/run"}, "--run: " + file + "/run: " + file + " is not a folder"},
      {{"train", "cartpole", "--run", "/dev/null/a/b"}, "--run: /dev/null/a/b: /dev/null is not a folder"},
  });
}

TEST_CASE("troupe: the error of train --init-from about a wrong source says what is accepted") {
  const Folder folder;
  const std::string yaml = folder.file("lstm.yaml", "model: {kind: net}\n"), json = folder.file("my.json", "{}"),
                    damaged = folder.file("model.safetensors", "model: {kind: net}\n"),
                    missing = folder.path / "model.zip", newest = folder.path / "run/checkpoints/newest",
                    run = folder.path / "new";
  const std::string wanted =
      ", expected the folder of a run, RUN/checkpoints/best, RUN/checkpoints/NUMBER or a .safetensors file";
  const auto refused = [&](const std::string& path, const std::string& why) {
    return BadLine{{"train", "cartpole", "--run", run, "--init-from", path}, "--init-from: " + path + why};
  };
  check_all({
      refused(yaml, ": is not a safetensors file" + wanted),
      refused(json, ": is not a folder" + wanted),
      refused(missing, ": there is no such run or file" + wanted),
      refused(newest, ": there is no such run or file" + wanted),
  });
  const CommandResult broken = run_troupe({"train", "cartpole", "--run", run, "--init-from", damaged});
  CHECK(broken.exit_code == 2);
  CHECK(broken.err.starts_with("troupe: --init-from: " + damaged + ": not a valid safetensors file: "));
}

TEST_CASE("troupe: if a run does not fit into memory, train refuses it with the setting, and config warns") {
  const std::vector<std::pair<Words, std::string>> cases = {
      {{"--set", "model.hidden=[65536,65536]"}, "model.hidden: [65536, 65536] needs about "},
      {{"--set", "trainer.super_batch=1000000000", "--set", "stop.env_steps=1000000000000"},
       "trainer.super_batch: 1000000000 needs about "},
      {{"--set", "workers.count=4096", "--set", "workers.groups=64", "--set", "rollout.length=65536", "--set",
        "replay.max_policy_lag=10000", "--set", "trainer.super_batch=65536"},
       "workers.count: 4096 needs about "},
      {{"--set", "rollout.length=65536", "--set", "env.rows=32768", "--set", "inference.max_batch=65536", "--set",
        "trainer.super_batch=65536", "--set", "replay.max_policy_lag=40000"},
       "rollout.length: 65536 needs about "},
  };
  for (const auto& [settings, start] : cases) {
    CAPTURE(start);
    Words train{"train", "cartpole"}, config{"config", "cartpole"};
    train.insert(train.end(), settings.begin(), settings.end());
    config.insert(config.end(), settings.begin(), settings.end());
    const CommandResult refused = run_troupe(train), warned = run_troupe(config);
    CHECK(refused.exit_code == 2);
    CHECK(refused.err.starts_with("troupe: " + start));
    CHECK(lines_of(refused.err).size() == 1);
    CHECK(warned.exit_code == 0);
    CHECK(warned.err.starts_with("troupe: warning: " + start));
  }
}

TEST_CASE("troupe: a deterministic run refuses addresses to listen on") {
  check_all({
      {{"train", "cartpole", "--set", "deterministic=true", "--listen", "0.0.0.0:5555"},
       "--listen: 0.0.0.0:5555 has no effect with deterministic true; leave it out"},
      {{"train", "cartpole", "--set", "deterministic=true", "--stats", "5555"},
       "--stats: 127.0.0.1:5555 has no effect with deterministic true; leave it out"},
  });
}
