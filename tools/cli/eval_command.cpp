#include "tools/cli/eval_command.h"

#include <chrono>
#include <iostream>

#include <nlohmann/json.hpp>

#include "actors/experience/common/request_retry.h"
#include "actors/experience/kinds.h"
#include "runtime/base/output.h"
#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"
#include "tools/cli/background_evaluation.h"
#include "tools/cli/launch.h"
#include "tools/cli/stop_signals.h"
#include "tools/cli/trained_run.h"

namespace troupe {
namespace {

using OrderedJson = nlohmann::ordered_json;

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPoll{50};
// Of the lines that say how far it is: the first one comes after this time, then one each kBetweenLines.
constexpr std::chrono::seconds kFirstLine{5}, kBetweenLines{15};

struct Played {
  EpisodeSummary summary;
  std::string error;  // why they are not all; empty when they are
  int code = 0;       // exit code
};

// What it plays: episodes, or the prompts of a token run.
std::string how_many(const TrainedRun& run, const EpisodeSummary& so_far, int64_t episodes) {
  return format_count(so_far.ended()) + " of " +
         format_counted(static_cast<uint64_t>(episodes), kind_of(*run.context).words->episode);
}

// With the run's own seed and number of episodes, these are the same episodes as in the run's evaluations. A signal
// ends them, and so does a time `timeout` in which no episode ends; 0 = never.
Played play_episodes(const TrainedRun& run, int64_t episodes, uint64_t seed, std::chrono::milliseconds timeout,
                     const StopSignals& signals) {
  const BackgroundEvaluation evaluation(run.context, run.weights, seed, episodes);
  const auto started = Clock::now();
  auto last_end = started, next_line = started + kFirstLine;
  Played played;
  while (!evaluation.wait(kPoll)) {
    const EpisodeSummary now = evaluation.so_far();
    if (now.ended() > played.summary.ended()) last_end = Clock::now();
    played.summary = now;
    if (signals.asked()) {
      played.error = "stopped by " + signal_name(signals.first()) + " after " + how_many(run, now, episodes);
      played.code = kExitInterrupted;
      return played;
    }
    if (timeout.count() > 0 && Clock::now() - last_end >= timeout) {
      played.error = "no episode ended within " + std::to_string(timeout.count()) +
                     " ms (evaluation.timeout_ms of the run, --timeout-ms); " + how_many(run, now, episodes) +
                     (episodes == 1 ? " was" : " were") + " played";
      if (now.failures() > 0) played.error += "; " + environment_failed_text(now.failures(), now.last_error);
      played.code = kExitFailure;
      return played;
    }
    if (Clock::now() < next_line) continue;
    next_line += kBetweenLines;
    print_error("troupe: " + how_many(run, now, episodes) + " played after " +
                format_seconds(std::chrono::duration<double>(Clock::now() - started).count()));
  }
  played.summary = evaluation.so_far();
  return played;
}

void print_text(const std::string& folder, const TrainedRun& run, const EpisodeSummary& s) {
  const auto number = [](double x) { return format_number(x, 2); };
  const auto row = [](std::string name) {
    name.resize(9, ' ');
    return name;
  };
  const ExperienceWords& words = *kind_of(*run.context).words;
  std::cout << printable(folder, std::string::npos) << ": " << run.context->spec.id << " after "
            << format_counted(run.version.number, "update") << ", " << format_counted(run.env_steps, words.step) << '\n'
            << row(std::string(words.episode) + 's') << format_count(s.episodes) << '\n';
  if (s.failed > 0)
    std::cout << row(words.failed_row) << format_counted(s.failed, std::string("further ") + words.ended) << '\n';
  std::cout << row(words.episode_return) << number(s.return_mean) << " +- " << number(s.return_std) << ", from "
            << number(s.return_min) << " to " << number(s.return_max) << '\n'
            << row("length") << number(s.length_mean) << (words.tokens ? " tokens\n" : "\n");
  if (run.context->spec.reports_success)
    std::cout << row(words.evaluation_success) << number(100 * s.success_rate) << " %\n";
}

}  // namespace

int run_eval(const EvalOptions& options) try {
  StopSignals signals("stopped before the evaluation began");
  const TrainedRun run = load_trained_run(options.run_dir, options.checkpoint, options.device);
  const RunConfig& config = run.context->config;
  const uint64_t seed = options.seed.value_or(config.seed);
  const auto timeout = options.timeout_ms ? std::chrono::milliseconds(*options.timeout_ms) : config.evaluation.timeout;
  signals.begin({});
  const Played played =
      play_episodes(run, options.episodes.value_or(config.evaluation.episodes), seed, timeout, signals);
  signals.end();
  const EpisodeSummary& s = played.summary;
  if (!played.error.empty()) print_error("troupe: " + played.error);
  if (s.failed > 0) warn(kind_of(config).failed_text(s.failed, s.ended(), s.last_error));
  if (!options.json) {
    if (played.error.empty() || s.ended() > 0) print_text(options.run_dir, run, s);
    return played.code;
  }
  OrderedJson result{{"run", options.run_dir},        {"env", run.context->spec.id},  {"seed", seed},
                     {"updates", run.version.number}, {"env_steps", run.env_steps},   {"episodes", s.episodes},
                     {"failed_episodes", s.failed},   {"return_mean", s.return_mean}, {"return_std", s.return_std},
                     {"return_min", s.return_min},    {"return_max", s.return_max},   {"length_mean", s.length_mean},
                     {"success_rate", s.success_rate}};
  if (!played.error.empty()) result["error"] = played.error;
  std::cout << result.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) << '\n';
  return played.code;
} catch (const EnvironmentFailed& failure) {
  print_error(std::string("troupe: ") + failure.what());
  return kExitFailure;
} catch (const ScoringFailed& failure) {
  print_error(std::string("troupe: ") + failure.what());
  return kExitFailure;
} catch (const NotFinite& failure) {
  print_error(not_finite_line(options.run_dir, options.checkpoint, failure));
  return kExitFailure;
}

}  // namespace troupe
