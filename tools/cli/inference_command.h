#pragma once
// `troupe inference` and `troupe scorer`: their flags, and what troupe does before troupe-learn joins the run
// (tools/cli/inference_command.cpp).

#include <cstdint>
#include <optional>
#include <string>

#include "tools/cli/address.h"
#include "tools/cli/command.h"
#include "tools/cli/flag_values.h"
#include "tools/cli/machine_check.h"
#include "tools/cli/stop_signals.h"

namespace troupe {

struct InferenceOptions {
  Address connect;
  std::optional<int64_t> wait;  // seconds
  std::string device;           // in place of the run's inference.device; may be empty
};

// In troupe-learn.
int run_inference(const InferenceOptions& options);
int run_scorer(const InferenceOptions& options);

inline InferenceOptions read_inference(Flags& flags) {
  InferenceOptions options;
  add_join_flags(flags, options.connect, options.wait);
  add_device_flag(flags, options.device, "inference.device");
  flags.read();
  return options;
}

inline InferenceOptions read_scorer(Flags& flags) {
  InferenceOptions options;
  add_join_flags(flags, options.connect, options.wait);
  flags.read();
  return options;
}

inline void check_inference(const InferenceOptions& options) {
  require_device_of_build("--device", options.device);
  hold_stop_signals();  // they stay pending until troupe-learn handles them
}

inline Command inference_command() {
  return {
      .name = "inference",
      .summary = "add an inference process to a run, at any time, from any machine",
      .examples =
          "  troupe inference --connect 127.0.0.1:5555\n"
          "  troupe inference --connect 127.0.0.1:5555 --device cpu\n",
      .exit_codes = {{0, "the run ended normally"},
                     {1, "the run was lost and did not come back within --wait"},
                     {2, "a mistake in the command, no run was found within --wait, or the run refused this process"},
                     {130, "stopped by a signal"}},
      .parse = read_then_run<read_inference, check_inference>,
      .done_by = kLearnProgram};
}

inline Command scorer_command() {
  Command command = inference_command();
  command.name = "scorer";
  command.summary = "add a scorer process to a token run, at any time, from any machine";
  command.examples = "  troupe scorer --connect 127.0.0.1:5555\n";
  command.parse = read_then_run<read_scorer, check_inference>;
  return command;
}

}  // namespace troupe
