#pragma once
// `troupe play`: its flags, and what troupe checks before troupe-learn shows the run (tools/cli/play_command.cpp).

#include <cstdint>
#include <string>

#include "tools/cli/chosen_checkpoint.h"
#include "tools/cli/command.h"
#include "tools/cli/config_lookup.h"
#include "tools/cli/flag_values.h"
#include "tools/cli/machine_check.h"

namespace troupe {

struct PlayOptions {
  std::string run_dir;
  std::string checkpoint = "newest";
  std::string device;  // in place of the run's evaluation.device; may be empty
  int64_t episodes = 1;
};

// In troupe-learn.
int run_play(const PlayOptions& options);

inline PlayOptions read_play(Flags& flags) {
  PlayOptions options;
  flags.argument("RUN", options.run_dir, any_text, "folder of the run");
  flags.option("--episodes", "N", options.episodes, integer_in(1, 1'000'000), "episodes to show (default: 1)");
  flags.option("--checkpoint", "WHICH", options.checkpoint, parse_checkpoint,
               "newest, best (of a run with checkpoint.keep_best), or a number of updates (default: newest)");
  add_device_flag(flags, options.device, "evaluation.device");
  flags.read();
  return options;
}

inline void check_play(const PlayOptions& options) {
  require_device_of_build("--device", options.device);
  require_run_folder(options.run_dir);
}

inline Command play_command() {
  return {.name = "play",
          .summary = "show a run's policy acting in its environment, as text",
          .examples = "  troupe play runs/cartpole --episodes 3\n",
          .exit_codes = {{0, "all episodes were shown"},
                         {1,
                          "the environment failed, the policy computed numbers that are not finite, or the output "
                          "could not be written"},
                         {2, "a mistake in the command, or a run folder that cannot be used"},
                         {130, "stopped by a signal"}},
          .parse = read_then_run<read_play, check_play>,
          .done_by = kLearnProgram};
}

}  // namespace troupe
