#pragma once
// `troupe play`: its flags, and what troupe checks before troupe-learn shows the run (tools/cli/play_command.cpp).

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "tools/cli/chosen_checkpoint.h"
#include "tools/cli/command.h"
#include "tools/cli/config_lookup.h"
#include "tools/cli/flag_values.h"
#include "tools/cli/machine_check.h"
#include "tools/cli/moved_files.h"

namespace troupe {

struct PlayOptions {
  std::string run_dir;
  std::string checkpoint = "newest";
  Words moved;         // where files of the run are now
  std::string device;  // in place of the run's evaluation.device; may be empty
  int64_t episodes = 1;
  // Token runs: what to ask in place of held-out prompts. Its answers are sampled, at the run's temperature or another.
  std::optional<std::string> prompt;
  bool greedy = false;
  std::optional<double> temperature;
};

// In troupe-learn.
int run_play(const PlayOptions& options);

inline PlayOptions read_play(Flags& flags) {
  PlayOptions options;
  flags.argument("RUN", options.run_dir, path_to(kRunFolder), "folder of the run");
  flags.option("--episodes", "N", options.episodes, integer_in(1, 1'000'000),
               "episodes, prompts or answers to show (default: 1)");
  flags.option("--prompt", "TEXT", options.prompt, any_text,
               "token runs: print answers to this prompt in place of prompts of the task");
  flags.toggle("--greedy", options.greedy, "with --prompt: print the most likely answer");
  flags.option("--temperature", "T", options.temperature, parse_temperature,
               "with --prompt: sample at this temperature (default: the run's generation.temperature)");
  add_checkpoint_flag(flags, options.checkpoint);
  add_moved_files(flags, options.moved);
  add_device_flag(flags, options.device, "evaluation.device");
  flags.read();
  for (const auto& [flag, used] :
       {std::pair("--greedy", options.greedy), std::pair("--temperature", options.temperature.has_value())})
    if (used && !options.prompt) refuse_flag(flag, "has no effect without --prompt");
  if (options.greedy && options.temperature) refuse_flag("--temperature", "cannot go with --greedy; leave one out");
  if (options.greedy && options.episodes > 1)
    refuse_flag("--episodes", std::to_string(options.episodes) + ", but there is one most likely answer; use 1");
  return options;
}

inline void check_play(const PlayOptions& options) {
  require_device_of_build("--device", options.device);
  require_run_folder(options.run_dir);
}

inline Command play_command() {
  return {.name = "play",
          .summary = "show a run's policy acting in its environment, or its answers, as text",
          .examples =
              "  troupe play runs/cartpole --episodes 3\n"
              "  troupe play runs/reverse --prompt '46690539>' --greedy\n",
          .exit_codes = {{0, "all episodes or answers were shown"},
                         {1,
                          "the environment failed, the policy computed numbers that are not finite, or the output "
                          "could not be written"},
                         {2, "a mistake in the command, or a run folder that cannot be used"},
                         {130, "stopped by a signal"}},
          .parse = read_then_run<read_play, check_play>,
          .done_by = kLearnProgram};
}

}  // namespace troupe
