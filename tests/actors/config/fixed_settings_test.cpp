// Which settings of a run cannot change at a resume.
#include "runtime/config/fixed_settings.h"

#include <set>

#include "actors/config/config.h"
#include "tests/support/test.h"

using namespace troupe;

TEST_CASE("settings of a run: exactly the listed settings and sections may change at a resume") {
  const SettingsOfRun settings = settings_of_run();
  const std::set<std::string> at_resume = {"name",
                                           "trainer.threads",
                                           "trainer.device",
                                           "trainer.max_skipped",
                                           "trainer.recompute",
                                           "env.python",
                                           "env.processes",
                                           "env.step_timeout_ms",
                                           "env.start_timeout_ms",
                                           "replay.late",
                                           "trainer.ranks",
                                           "trainer.zero",
                                           "trainer.redundancy",
                                           "trainer.bucket_bytes",
                                           "reward_model.threads",
                                           "task.python",
                                           "task.verifier_timeout_ms",
                                           "task.verifier_start_timeout_ms",
                                           "task.verifier_batch",
                                           "task.verifier_processes",
                                           "tokenizer.path",
                                           "model.path",
                                           "model.critic_path",
                                           "reward_model.path"},
                              sections = {"stop", "evaluation", "checkpoint", "stats", "network"},
                              unless_deterministic = {"workers", "inference", "scorers", "warmup"},
                              before_first_update = {
                                  "trainer.super_batch",  "trainer.minibatches",        "trainer.epochs",
                                  "trainer.value_epochs", "trainer.policy_lr",          "trainer.value_lr",
                                  "trainer.lr_schedule",  "trainer.lr_min_ratio",       "trainer.lr_stable_ratio",
                                  "trainer.lr_warmup",    "trainer.value_only_updates", "generation.answers",
                                  "trainer.shards"};
  for (const SettingInfo& info : describe_fields()) {
    CAPTURE(info.path);
    const std::string section = info.path.substr(0, info.path.find('.'));
    const bool other = unless_deterministic.contains(section) || info.path == "env.isolate" ||
                       info.path == "trainer.micro_batch_tokens";
    const Change change = at_resume.contains(info.path) || sections.contains(section) ? Change::at_resume
                          : other                                   ? Change::at_resume_unless_deterministic
                          : before_first_update.contains(info.path) ? Change::before_first_update
                                                                    : Change::never;
    CHECK(settings.change(info.path) == change);
  }
  CHECK(settings.change("evaluation.env_params.slip") == Change::at_resume);
  CHECK(settings.change("env.params.slip") == Change::never);
  for (const std::string_view path : file_settings()) CHECK(settings.change(path) == Change::at_resume);
  CHECK(settings.change("task.params.held_out_path") == Change::at_resume);
  CHECK(settings.change("task.params.match") == Change::never);
  CHECK(settings.change("stop.no_such_setting") == Change::never);
}

TEST_CASE("fixed_settings: only a change of a fixed setting conflicts with the settings of a run") {
  for (const bool deterministic : {false, true}) {
    RunConfig config;
    config.seed = 7;
    config.deterministic = deterministic;
    config.algorithm.gamma = 0.5;
    config.stop.updates = 9;
    const std::string settings = fixed_settings(to_json(config), settings_of_run());
    CHECK(fixed_settings(upgrade_config(settings), settings_of_run()) == settings);
    RunConfig longer = config;
    longer.stop.updates = 10;
    CHECK(fixed_settings(to_json(longer), settings_of_run()) == settings);
    RunConfig other = config;
    other.seed = 8;
    const auto conflicts =
        config_conflicts(settings, fixed_settings(to_json(other), settings_of_run()), settings_of_run());
    REQUIRE(conflicts.size() == 1);
    CHECK(conflicts.front().sentence() == "seed was 7 and is now 8");
  }
}
