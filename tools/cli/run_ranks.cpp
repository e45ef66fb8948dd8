#include "tools/cli/run_ranks.h"

#include "actors/config/config.h"
#include "runtime/base/log.h"
#include "runtime/base/output.h"
#include "tools/cli/launch.h"
#include "tools/cli/this_command.h"

namespace troupe {

TrainOptions options_of_launch(TrainOptions options, const Launch& launch) {
  options.ranks = launch.ranks;
  options.listen = launch.listen;
  return options;
}

std::string config_of_rank(const TrainOptions& options, const Launch& launch) {
  try {
    if (!options.config.empty()) find_config(options.config);
  } catch (const ConfigError&) {
    return {};
  }
  return to_json(config_to_train(options_of_launch(options, launch)));
}

void start_ranks(std::optional<ChildProcesses>& ranks, const Address& run, int64_t count) {
  const std::string host = is_any_address(run.host) ? kLoopbackAnyPort.host : run.host;
  ranks.emplace(ChildProcesses::Words{.parent = "ranks", .child = "rank", .self = "the run"});
  const auto started = ranks->start(
      {program_folder() + "/troupe", "rank", "--connect", Address{host, run.port}.text(), "--wait", "30", "--of-run"},
      static_cast<size_t>(count));
  if (!started.error.empty()) log_error("ranks", "a rank process cannot be started: " + started.error);
}

void announce_launch(const Launch& launch) {
  const std::string text = launch.text() + "; the others join at " + launch.rank0.text();
  log_info("train", text);
  print_line("ranks      " + text);
}

int tell_finished(JoinListener& listener, const Launch& launch, StopSignals& signals) {
  print_line(launch.text() + ": tells the other ranks that the run is finished, for at most " +
             std::to_string(kLaunchWait.count()) + " s");
  listener.turn_away(static_cast<size_t>(launch.ranks - 1), kLaunchWait, [&signals] { signals.end(); });
  return signals.wait() ? kExitInterrupted : 0;
}

std::string resume_line(const std::optional<Launch>& launch) {
  if (!launch) return this_command();
  return this_command() + "  # as each of " + std::to_string(launch->ranks) + " ranks (" + launch->found + ')';
}

}  // namespace troupe
