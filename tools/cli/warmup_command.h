#pragma once
// `troupe warmup`: a run of `troupe train` that ends when its warm-up is over. In troupe-learn it is run_train().

#include "tools/cli/train_command.h"

namespace troupe {

inline TrainOptions read_warmup(Flags& flags) {
  TrainOptions options = read_train(flags);
  options.overrides.emplace_back("stop.after_warmup=true");
  return options;
}

inline Command warmup_command() {
  return {.name = "warmup",
          .summary = "train a language model on demonstrations alone",
          .examples =
              "  troupe warmup tokens/reverse\n"
              "  troupe warmup tokens/reverse --set warmup.steps=500\n",
          .exit_codes = {{0, "the warm-up is over, now or before"},
                         {1, "the run failed, or its last checkpoint could not be written"},
                         {2, "a mistake in the command or the config, or a machine that cannot hold the run"},
                         {130, "stopped by a signal"}},
          .parse = read_then_run<read_warmup, check_train>,
          .done_by = kLearnProgram};
}

}  // namespace troupe
