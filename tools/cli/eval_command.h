#pragma once
// `troupe eval`: its flags, and what troupe checks before troupe-learn evaluates (tools/cli/eval_command.cpp).

#include <cstdint>
#include <optional>
#include <string>

#include "tools/cli/chosen_checkpoint.h"
#include "tools/cli/command.h"
#include "tools/cli/config_lookup.h"
#include "tools/cli/flag_values.h"
#include "tools/cli/machine_check.h"
#include "tools/cli/moved_files.h"
#include "tools/cli/output_file.h"
#include "tools/cli/stop_signals.h"

namespace troupe {

struct EvalOptions {
  std::string run_dir;
  std::string checkpoint = "newest";
  Words moved;                        // where files of the run are now
  std::string device;                 // instead of the run's evaluation.device; may be empty
  std::optional<int64_t> episodes;    // in place of the run's evaluation.episodes
  std::optional<uint64_t> seed;       // in place of the run's
  std::optional<int64_t> timeout_ms;  // in place of the run's evaluation.timeout_ms
  // Token runs: in place of the run's evaluation.answers and evaluation.temperature; a file for the answers.
  std::optional<int64_t> answers;
  std::optional<double> temperature;
  std::optional<std::string> answers_file;
  bool json = false;
};

// In troupe-learn.
int run_eval(const EvalOptions& options);

inline EvalOptions read_eval(Flags& flags) {
  EvalOptions options;
  flags.argument("RUN", options.run_dir, path_to(kRunFolder), "folder of the run");
  flags.option("--episodes", "N", options.episodes, integer_in(1, 1'000'000),
               "episodes to play (default: the run's evaluation.episodes)");
  flags.option("--seed", "N", options.seed, parse_seed, "seed of the episodes (default: the run's)");
  flags.option("--timeout-ms", "N", options.timeout_ms, integer_in(0, 86'400'000),
               "end with the episodes played so far when none ends for this long, 0 = never (default: the run's "
               "evaluation.timeout_ms)");
  flags.option("--answers", "K", options.answers, integer_in(1, 1024),
               "token runs: sample K answers to each prompt, for pass@1 to pass@K (default: the run's "
               "evaluation.answers)");
  flags.option("--temperature", "T", options.temperature, parse_evaluation_temperature,
               "token runs: sample at this temperature, 0 = one answer, the most likely (default: the run's "
               "evaluation.temperature)");
  flags.option("--answers-file", kFileType, options.answers_file, path_to("the name of a file"),
               "token runs: write every answer to this file, one JSON object per line");
  flags.toggle("--json", options.json, "print one JSON object");
  add_checkpoint_flag(flags, options.checkpoint);
  add_moved_files(flags, options.moved);
  add_device_flag(flags, options.device, "evaluation.device");
  flags.read();
  return options;
}

inline void check_eval(const EvalOptions& options) {
  hold_stop_signals();  // they stay pending until troupe-learn handles them
  require_device_of_build("--device", options.device);
  require_run_folder(options.run_dir);
  if (options.answers_file) require_replaceable("--answers-file", *options.answers_file, answers_output());
}

inline Command eval_command() {
  return {
      .name = "eval",
      .summary = "evaluate a checkpoint of a run with the policy's most likely actions",
      .examples =
          "  troupe eval runs/cartpole\n"
          "  troupe eval runs/cartpole --checkpoint best\n"
          "  troupe eval runs/cartpole --episodes 1000 --seed 7 --json\n"
          "  troupe eval runs/reverse --answers 8 --temperature 1\n",
      .exit_codes =
          {{0, "all episodes were played; a warning says how many of them failed, if any did"},
           {1,
            "the environment failed in all episodes or no episode ended in time, the policy computed numbers that are "
            "not finite, or the result could not be written"},
           {2, "a mistake in the command, or a run folder that cannot be used"},
           {130, "stopped by a signal, with the result of the episodes played so far"}},
      .parse = read_then_run<read_eval, check_eval>,
      .done_by = kLearnProgram};
}

}  // namespace troupe
