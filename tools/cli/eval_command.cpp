#include "tools/cli/eval_command.h"

#include <algorithm>
#include <iostream>

#include <nlohmann/json.hpp>

#include "actors/evaluation_player.h"
#include "runtime/base/output.h"
#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"
#include "tools/cli/launch.h"
#include "tools/cli/trained_run.h"

namespace troupe {
namespace {

using OrderedJson = nlohmann::ordered_json;

// With the run's own seed and number of episodes, these are the same episodes as in the run's evaluations.
EpisodeSummary play_episodes(const TrainedRun& run, int64_t episodes, uint64_t seed) {
  const std::unique_ptr<EvaluationPlayer> player = make_evaluation_player(run.context);
  player->begin(*run.weights, seed, episodes);
  while (!player->complete()) player->step();
  return player->summary();
}

void print_text(const std::string& folder, const TrainedRun& run, const EpisodeSummary& s) {
  const auto number = [](double x) { return format_number(x, 2); };
  std::cout << printable(folder, std::string::npos) << ": " << run.context->spec.id << " after "
            << format_counted(run.version.number, "update") << ", " << format_counted(run.env_steps, "environment step")
            << '\n'
            << "episodes " << format_count(s.episodes) << '\n'
            << "return   " << number(s.return_mean) << " +- " << number(s.return_std) << ", from "
            << number(s.return_min) << " to " << number(s.return_max) << '\n'
            << "length   " << number(s.length_mean) << '\n';
  if (run.context->spec.reports_success) std::cout << "success  " << number(100 * s.success_rate) << " %\n";
}

}  // namespace

int run_eval(const EvalOptions& options) try {
  const TrainedRun run = load_trained_run(options.run_dir, options.checkpoint, options.device);
  const RunConfig& config = run.context->config;
  const uint64_t seed = options.seed.value_or(config.seed);
  const EpisodeSummary s = play_episodes(run, options.episodes.value_or(config.evaluation.episodes), seed);
  if (!options.json) {
    print_text(options.run_dir, run, s);
    return 0;
  }
  const OrderedJson result{
      {"run", options.run_dir},        {"env", run.context->spec.id},  {"seed", seed},
      {"updates", run.version.number}, {"env_steps", run.env_steps},   {"episodes", s.episodes},
      {"return_mean", s.return_mean},  {"return_std", s.return_std},   {"return_min", s.return_min},
      {"return_max", s.return_max},    {"length_mean", s.length_mean}, {"success_rate", s.success_rate}};
  std::cout << result.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) << '\n';
  return 0;
} catch (const EnvironmentFailed& failure) {
  print_error(std::string("troupe: ") + failure.what());
  return kExitFailure;
} catch (const NotFinite& failure) {
  print_error(not_finite_line(options.run_dir, options.checkpoint, failure));
  return kExitFailure;
}

}  // namespace troupe
