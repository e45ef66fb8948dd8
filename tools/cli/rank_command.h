#pragma once
// `troupe rank`: its flags, and what troupe does before troupe-learn joins the run (tools/cli/rank_command.cpp).

#include <cstdint>
#include <optional>
#include <string>

#include "tools/cli/address.h"
#include "tools/cli/command.h"
#include "tools/cli/flag_values.h"
#include "tools/cli/launcher.h"
#include "tools/cli/stop_signals.h"

namespace troupe {

struct RankOptions {
  Address connect;
  std::optional<int64_t> wait;  // seconds
  bool of_run = false;          // started by the run itself
};

// In troupe-learn.
int run_rank(const RankOptions& options);
// The same for `troupe train` as another rank than 0 of a launcher. `config` (JSON) is that of its command line, which
// the run compares with its own; empty: there is none on this machine.
int run_launched_rank(const Launch& launch, const std::string& config);

inline RankOptions read_rank(Flags& flags) {
  RankOptions options;
  add_join_flags(flags, options.connect, options.wait);
  flags.toggle(
      "--of-run", options.of_run,
      "the run has started this process: a signal that asks to stop comes to both, so this one waits until the "
      "run has ended, for at most 30 s");
  flags.read();
  return options;
}

inline void check_rank(const RankOptions& /*options*/) {
  hold_stop_signals();  // they stay pending until troupe-learn handles them
}

inline Command rank_command() {
  return {
      .name = "rank",
      .summary = "compute a part of each update of a run on several ranks, from any machine",
      .examples = "  troupe rank --connect 127.0.0.1:5555\n",
      .exit_codes = {{0, "the run ended normally"},
                     {1, "the run was lost and did not come back within --wait, or the rank failed"},
                     {2, "a mistake in the command, no run was found within --wait, or the run refused this process"},
                     {130, "stopped by a signal"}},
      .parse = read_then_run<read_rank, check_rank>,
      .done_by = kLearnProgram};
}

}  // namespace troupe
