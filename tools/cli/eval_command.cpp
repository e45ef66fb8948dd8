#include "tools/cli/eval_command.h"

#include <algorithm>
#include <chrono>
#include <iostream>
#include <utility>

#include <nlohmann/json.hpp>

#include "actors/experience/common/request_retry.h"
#include "actors/experience/grid/episode_player.h"
#include "actors/experience/kinds.h"
#include "runtime/base/errors.h"
#include "runtime/base/file.h"
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
  std::string answers;  // lines of answers.jsonl
  std::string error;    // why they are not all; empty when they are
  int code = 0;         // exit code
};

// What it plays: episodes, or the prompts of a token run.
const char* played_what(const TrainedRun& run, const EvaluationPlan& plan) {
  const ExperienceWords& words = *kind_of(*run.context).words;
  return plan.answers == 1 ? words.episode : words.ended;
}

// `planned` is less than the plan asks for if the task has fewer prompts, and 0 if that is not known yet.
std::string how_many(const TrainedRun& run, const EpisodeSummary& so_far, const EvaluationPlan& plan,
                     uint64_t planned) {
  const uint64_t of = planned > 0 ? planned : static_cast<uint64_t>(plan.ends());
  return format_count(so_far.ended()) + " of " + format_counted(of, played_what(run, plan));
}

// Throws ConfigError if the run has no answers, or cannot give several different ones to a prompt.
EvaluationPlan plan_of(const EvalOptions& options, const TrainedRun& run) {
  for (const auto& [flag, given] : {std::pair("--answers", options.answers.has_value()),
                                    std::pair("--temperature", options.temperature.has_value()),
                                    std::pair("--answers-file", options.answers_file.has_value())})
    if (given && !run.context->tokens)
      refuse_flag(flag, printable(options.run_dir, 200) + " is not a token run; leave it out");
  EvaluationPlan plan = evaluation_plan(run.context->config);
  plan.reference = run.reference;
  plan.seed = options.seed.value_or(plan.seed);
  plan.episodes = options.episodes.value_or(plan.episodes);
  plan.answers = options.answers.value_or(plan.answers);
  plan.temperature = options.temperature.value_or(plan.temperature);
  if (plan.temperature == 0 && !options.answers) plan.answers = 1;
  if (plan.answers > 1 && plan.temperature == 0)
    refuse_flag("--answers",
                std::to_string(plan.answers) + ", but " +
                    (options.temperature ? "--temperature" : "the evaluation.temperature of the run") +
                    " is 0, so that all answers to a prompt would be the same; give --temperature, like 1");
  return plan;
}

// Throws ConfigError if the file cannot be written, so that no evaluation is made for nothing.
void require_writable(const std::string& file) {
  try {
    posix_disk().open_append(file);
  } catch (const IoError& refused) {
    throw ConfigError(std::string("--answers-file: ") + refused.what());
  }
}

bool write_answers(const std::string& file, const std::string& lines) {
  try {
    posix_disk().write_atomic(file, lines);
    return true;
  } catch (const IoError& refused) {
    print_error(std::string("troupe: --answers-file: ") + refused.what());
    return false;
  }
}

// With the plan of the run, these are the same episodes as in the run's evaluations. A signal ends them, and so does a
// time `timeout` in which no episode ends; 0 = never.
Played play_episodes(const TrainedRun& run, const EvaluationPlan& plan, std::chrono::milliseconds timeout,
                     const StopSignals& signals) {
  const BackgroundEvaluation evaluation(run.context, run.weights, plan);
  const auto started = Clock::now();
  auto last_end = started, next_line = started + kFirstLine;
  Played played;
  while (!evaluation.wait(kPoll)) {
    const EpisodeSummary now = evaluation.so_far();
    if (now.ended() > played.summary.ended()) last_end = Clock::now();
    played.summary = now;
    if (signals.asked()) {
      played.error =
          "stopped by " + signal_name(signals.first()) + " after " + how_many(run, now, plan, evaluation.planned());
      played.code = kExitInterrupted;
      played.answers = evaluation.answers();
      return played;
    }
    if (timeout.count() > 0 && Clock::now() - last_end >= timeout) {
      played.error = "no episode ended within " + std::to_string(timeout.count()) +
                     " ms (evaluation.timeout_ms of the run, --timeout-ms); " +
                     how_many(run, now, plan, evaluation.planned()) + (plan.ends() == 1 ? " was" : " were") + " played";
      if (now.failures() > 0) played.error += "; " + environment_failed_text(now.failures(), now.last_error);
      played.code = kExitFailure;
      played.answers = evaluation.answers();
      return played;
    }
    if (Clock::now() < next_line) continue;
    next_line += kBetweenLines;
    print_error("troupe: " + how_many(run, now, plan, evaluation.planned()) + " played after " +
                format_seconds(std::chrono::duration<double>(Clock::now() - started).count()));
  }
  played.summary = evaluation.so_far();
  played.answers = evaluation.answers();
  return played;
}

void print_text(const std::string& folder, const TrainedRun& run, const EvaluationPlan& plan, const EpisodeSummary& s) {
  const auto number = [](double x) { return format_number(x, 2); };
  const auto row = [](std::string name) {
    name.resize(std::max<size_t>(9, name.size() + 1), ' ');
    return name;
  };
  const ExperienceWords& words = *kind_of(*run.context).words;
  std::cout << printable(folder, std::string::npos) << ": " << run.context->spec.id << " after "
            << trained_text(run.version.number, run.warmup_steps) << ", " << format_counted(run.env_steps, words.step)
            << '\n'
            << row(std::string(played_what(run, plan)) + 's') << format_count(s.episodes)
            << (plan.answers > 1 ? ", " + std::to_string(plan.answers) + " to each prompt" : "") << '\n';
  if (s.failed > 0)
    std::cout << row(words.failed_row) << format_counted(s.failed, std::string("further ") + words.ended) << '\n';
  std::cout << row(words.episode_return) << number(s.return_mean) << " +- " << number(s.return_std) << ", from "
            << number(s.return_min) << " to " << number(s.return_max) << '\n'
            << row("length") << number(s.length_mean) << (words.tokens ? " tokens\n" : "\n");
  if (run.context->spec.reports_success)
    std::cout << row(words.evaluation_success) << number(100 * s.success_rate) << " %\n";
  for (const auto& [k, passed] : s.pass_at)
    if (k > 1) std::cout << row("pass@" + std::to_string(k)) << number(100 * passed) << " %\n";
}

}  // namespace

int run_eval(const EvalOptions& options) try {
  StopSignals signals("stopped before the evaluation began");
  const TrainedRun run = load_trained_run(options.run_dir, options.checkpoint, options.device, options.moved);
  const RunConfig& config = run.context->config;
  read_reward_model(run, options.run_dir);
  const EvaluationPlan plan = plan_of(options, run);
  if (options.answers_file) require_writable(*options.answers_file);
  const auto timeout = options.timeout_ms ? std::chrono::milliseconds(*options.timeout_ms) : config.evaluation.timeout;
  signals.begin({});
  Played played = play_episodes(run, plan, timeout, signals);
  signals.end();
  if (options.answers_file && !write_answers(*options.answers_file, played.answers)) played.code = kExitFailure;
  const EpisodeSummary& s = played.summary;
  if (!played.error.empty()) print_error("troupe: " + played.error);
  if (s.failed > 0) warn(kind_of(config).failed_text(s.failed, s.ended(), s.last_error));
  if (!options.json) {
    if (played.error.empty() || s.ended() > 0) print_text(options.run_dir, run, plan, s);
    return played.code;
  }
  OrderedJson result{{"run", options.run_dir},        {"env", run.context->spec.id},  {"seed", plan.seed},
                     {"updates", run.version.number}, {"env_steps", run.env_steps},   {"episodes", s.episodes},
                     {"failed_episodes", s.failed},   {"return_mean", s.return_mean}, {"return_std", s.return_std},
                     {"return_min", s.return_min},    {"return_max", s.return_max},   {"length_mean", s.length_mean},
                     {"success_rate", s.success_rate}};
  for (const auto& [k, passed] : s.pass_at) result["pass_at"][std::to_string(k)] = passed;
  if (run.warmup_steps > 0) result["warmup_steps"] = run.warmup_steps;
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
