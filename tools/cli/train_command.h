#pragma once
// `troupe train`: its flags, and what troupe checks before troupe-learn trains (tools/cli/train_command.cpp).

#include <csignal>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/experience/answers/reward_model_check.h"
#include "models/learning/trainer_config.h"
#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/run_folder/run_about.h"
#include "tools/cli/address.h"
#include "tools/cli/command.h"
#include "tools/cli/config_lookup.h"
#include "tools/cli/flag_values.h"
#include "tools/cli/init_from.h"
#include "tools/cli/launch.h"
#include "tools/cli/launcher.h"
#include "tools/cli/machine_check.h"
#include "tools/cli/stop_signals.h"
#include "tools/cli/train_folder.h"

namespace troupe {

struct TrainOptions {
  std::string config;                  // a path, the name of a file in configs/, or a run's folder; see find_config;
                                       // may be empty if `env` is not
  std::string env;                     // in place of the config's env.id; may be empty
  std::string run_dir;                 // may be empty; see run_folder_of
  RunAbout about;                      // what the run is to be called
  std::string init_from;               // may be empty; see read_init_from
  std::optional<uint64_t> seed;        // in place of the config's
  std::optional<int64_t> ranks;        // in place of trainer.ranks; see config_to_train
  std::optional<int64_t> rank;         // of this process, if it is one of several with this line; see find_launch
  std::optional<Address> rank0;        // where rank 0 of them is
  std::vector<std::string> overrides;  // path=value, in order
  Address listen = kLoopbackAnyPort;   // for workers, nodes and inference actors
  Address stats = kLoopbackAnyPort;    // the statistics port
  std::string on_alarm;                // command for the shell; may be empty
};

// What a launcher says that this process is.
inline std::optional<Launch> launch_of(const TrainOptions& options) {
  return find_launch({options.rank, options.ranks, options.rank0, options.listen}, environment_here());
}

// In troupe-learn.
int run_train(const TrainOptions& options);

inline TrainOptions read_train(Flags& flags) {
  TrainOptions options;
  flags.optional_argument(
      "CONFIG", options.config, any_text,
      "config file, or name of a built-in one, like cartpole; or the folder of a run or the config.json in it: "
      "resumes that run, unless --run names another. Without CONFIG, --env is required");
  flags.option(
      "--env", "ID", options.env,
      [](std::string_view flag, const std::string& text) {
        if (text.empty()) refuse_flag(flag, "is empty, expected an environment like CartPole-v1");
        return text;
      },
      "environment to train, in place of the setting env.id; without CONFIG all other settings have their defaults");
  flags.option(
      "--run", kFolderType, options.run_dir, path_to("a folder"),
      "folder of the run; if it holds a run with these settings, that run is resumed. NAME is the setting name, or "
      "else that of the config file, or without one of the environment (default: runs/NAME)");
  flags.option("--name", "NAME", options.about.name, parse_run_name,
               "what `troupe runs` calls the run; without --run it is also the NAME of the folder");
  flags.repeatable("--tag", "TAG", options.about.tags, "a word by which `troupe runs --tag` finds the run; repeatable");
  flags.option("--note", "TEXT", options.about.note, any_text, "what the run is for; kept in its about.json");
  flags.option(
      "--init-from", "RUN|FILE", options.init_from, path_to("the folder of a run or of a checkpoint, or a file"),
      "begin a new run with the weights of another one: a run's folder (its newest checkpoint), "
      "RUN/checkpoints/best or RUN/checkpoints/NUMBER, or a .safetensors file; for a token run also a folder of "
      "transformers or, with model.lora, of PEFT");
  flags.option("--seed", "N", options.seed, parse_seed, "seed of the run (default: the config's)");
  flags.option("--ranks", "N", options.ranks, parse_ranks,
               "ranks that compute each update: this process and N - 1 others, which it starts. A new run gets as many "
               "trainer.shards unless they are set, and at least a worker for each; a run that is resumed keeps its "
               "shards");
  flags.option(
      "--rank", "R", options.rank, integer_in(0, kMostShards - 1),
      "which rank this process is, where each of --ranks processes is started with the same flags but for this "
      "one: rank 0 trains, the others join it (default: as torchrun, a step of Slurm or mpirun says)");
  flags.option("--rank0", "HOST:PORT", options.rank0, parse_address,
               "address of rank 0 for the other ranks (default: as the launcher says)");
  add_overrides(flags, options.overrides);
  flags.option(
      "--listen", "HOST:PORT", options.listen, parse_listen_address,
      "address at which workers and inference processes join; a port alone means 127.0.0.1 (default: 127.0.0.1, a free "
      "port)");
  flags.option(
      "--stats", "HOST:PORT", options.stats, parse_listen_address,
      "address at which statistics are served as JSON; a port alone means 127.0.0.1 (default: 127.0.0.1, a free port)");
  flags.option(
      "--on-alarm", "COMMAND", options.on_alarm,
      [](std::string_view flag, const std::string& text) {
        if (text.find_first_not_of(" \t\n") == std::string::npos)
          refuse_flag(flag, "is empty, expected a command for the shell");
        return text;
      },
      "command that the shell runs for each alarm that is raised, one at a time and for at most 60 s, with "
      "TROUPE_ALARM, "
      "TROUPE_ALARM_LEVEL, TROUPE_ALARM_TEXT and TROUPE_RUN in its environment, and a line of JSON on its stdin; what "
      "it "
      "prints goes to the log of the run");
  flags.hint("--resume", "the same command resumes a run, and so does `troupe train RUN`");
  flags.hint("--load", "to begin a new run with the weights of another one, use --init-from");
  flags.hint("--device", "devices are settings, like --set trainer.device=cuda");
  flags.hint("--checkpoint",
             "a run is resumed from its newest checkpoint; to begin a new run with the weights of another checkpoint, "
             "use --init-from RUN/checkpoints/NUMBER");
  flags.read();
  for (const std::string& tag : options.about.tags) parse_tag("--tag", tag);
  if (!flags.given("CONFIG") && options.env.empty())
    flags.refuse("CONFIG or --env is required, `troupe train --help` shows examples");
  if (options.listen.port != 0 && options.listen == options.stats)
    refuse_flag("--stats", options.stats.text() + " is also --listen; they need two ports");
  return options;
}

// A deterministic run is one process without a network.
inline void require_no_addresses(const TrainOptions& options) {
  const std::string reason = " has no effect with deterministic true; leave it out";
  if (options.listen != kLoopbackAnyPort) refuse_flag("--listen", options.listen.text() + reason);
  if (options.stats != kLoopbackAnyPort) refuse_flag("--stats", options.stats.text() + reason);
}

// Refuses a launcher for a deterministic run, whose ranks are in one process.
inline void require_no_launch(const std::optional<Launch>& launch) {
  if (launch)
    throw ConfigError(launch->found + ": says that there are " + std::to_string(launch->ranks) +
                      " processes, and a run with deterministic true is one; start one process, with --ranks " +
                      std::to_string(launch->ranks));
}

inline void check_train(const TrainOptions& options) {
  std::signal(SIGPIPE, SIG_IGN);  // as in run_train
  const std::optional<Launch> launch = launch_of(options);
  if (launch && launch->rank > 0) return hold_stop_signals();  // the config is rank 0's
  // Environments that are asked what they observe may take long. Afterwards signals stay pending until troupe-learn
  // handles them.
  const StopSignals signals;
  TrainOptions to_train = options;
  if (launch) to_train.ranks = launch->ranks;
  const RunConfig config = config_to_train(to_train);
  for (const std::string& missing : {devices_missing_in_build(config), missing_reward_model(config)})
    if (!missing.empty()) throw ConfigError(missing);
  if (config.deterministic) require_no_launch(launch);
  if (config.deterministic) require_no_addresses(options);
  require_room_for_folder(options, config);
  const EnvSpec env = environment_of(config);
  // troupe-learn reads them again, and then warns of checkpoints that it skips. It alone has the model of a token run.
  open_log(nullptr, {.to_stderr = false});
  if (!is_token_run(config)) read_init_from(options.init_from, run_folder_of(options, config), {config.model, env});
  close_log();
  const Machine machine = Machine::here();
  const std::string shortage = memory_shortage(config, env, machine);
  if (!shortage.empty()) throw ConfigError(shortage);
  for (const std::string& warning : probable_mistakes(config, env, machine)) warn(warning);
}

inline Command train_command() {
  return {.name = "train",
          .summary = "train a policy; run the same command again to resume",
          .examples =
              "  troupe train cartpole\n"
              "  troupe train --env mujoco:Hopper-v5             # without a config file\n"
              "  troupe train my_run.json --run runs/first --seed 3 --set trainer.epochs=8\n"
              "  troupe train runs/first                      # resumes that run\n"
              "  troupe train runs/first --set stop.updates=2000\n"
              "  troupe train runs/first --run runs/second --seed 4    # a new run like it\n"
              "  troupe train my_run.json --init-from runs/first    # uses those weights\n"
              "  troupe train cartpole --listen 0.0.0.0:5555    # lets other machines join\n"
              "  troupe train cartpole --ranks 2                # on two processes\n",
          .exit_codes = {{0, "the run reached its limit, now or before"},
                         {1, "the run failed, or its last checkpoint could not be written"},
                         {2, "a mistake in the command or the config, or a machine that cannot hold the run"},
                         {130, "stopped by a signal"}},
          .parse = read_then_run<read_train, check_train>,
          .done_by = kLearnProgram};
}

}  // namespace troupe
