#include "tools/cli/play_command.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <sstream>

#include "actors/experience/grid/episode_player.h"
#include "envs/make/make_env.h"
#include "runtime/base/errors.h"
#include "runtime/base/file.h"
#include "runtime/base/output.h"
#include "runtime/base/rng.h"
#include "runtime/base/suggest.h"
#include "runtime/stats/console.h"
#include "tools/cli/launch.h"
#include "tools/cli/terminal.h"
#include "tools/cli/token_context.h"
#include "tools/cli/trained_run.h"

namespace troupe {
namespace {

constexpr timespec kFrame{0, 50'000'000};  // 20 frames per second
constexpr timespec kAtOnce{0, 0};
constexpr uint64_t kMostFailures = 5;  // within one episode

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int signal : {SIGINT, SIGTERM}) sigaddset(&set, signal);
  return set;
}

// Prints frames. On a terminal, each replaces the one before, slowly enough to watch. Elsewhere, each is printed below
// the one before, without a pause.
class Screen {
 public:
  Screen() : terminal_(isatty(STDOUT_FILENO) != 0) {}

  // False when the user wants to stop.
  bool show(const std::string& title, const std::string& picture) {
    std::vector<std::string> lines{title};
    std::istringstream in(picture);
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    if (terminal_) {
      const TerminalSize size = terminal_size();
      if (lines.size() > size.drawable_rows()) lines.resize(size.drawable_rows());
      // The end of a wrapped line would stay on the screen.
      for (std::string& line : lines) line = line.substr(0, size.columns);
      std::cout << console_redraw(lines, std::min(drawn_, size.drawable_rows())) << std::flush;
      drawn_ = lines.size();
    } else {
      for (const std::string& line : lines) std::cout << line << '\n';
      std::cout << '\n';
    }
    const sigset_t signals = stop_signals();
    return std::cout && sigtimedwait(&signals, nullptr, terminal_ ? &kFrame : &kAtOnce) < 0;
  }

  // A line that stays; the next frame begins below it.
  void say(const std::string& line) {
    std::cout << printable(line, std::string::npos) << '\n' << std::flush;
    drawn_ = 0;
  }

 private:
  bool terminal_;
  size_t drawn_ = 0;
};

std::string title(int64_t episode, int64_t episodes, int64_t steps, double score) {
  return "episode " + std::to_string(episode) + '/' + std::to_string(episodes) + "  step " + std::to_string(steps) +
         "  return " + format_number(score, 2);
}

// Shows answers to prompts of the task with their scores: without that of the reward model, which is said, if its
// folder is gone.
void play_prompts(const TrainedRun& run, const PlayOptions& options) {
  const std::string& rewards = run.context->config.reward_model.path;
  if (rewards.empty() || posix_disk().exists(rewards))
    read_reward_model(run, options.run_dir);
  else
    warn("reward_model.path: " + printable(rewards, 200) +
         ": there is no such folder; the answers are shown without rewards");
  print_answers(*run.context, *run.weights, options.episodes);
}

// Plays until all episodes are over (true) or the user stops (false).
bool play(const TrainedRun& run, int64_t episodes, Screen& screen) {
  EnvConfig one = run.context->config.env;
  one.rows = rows_per_world(one);
  const std::unique_ptr<Env> env = run.context->make_env(one);
  const std::unique_ptr<Policy> policy = run.context->make_evaluation_policy();
  policy->load(*run.weights);
  EnvStep step = EnvStep::allocate(env->spec(), one.rows);
  LikelyActions actions(run.context->recurrence.state_size, one.rows);
  env->reset(derive_key(run.context->config.seed, "play"), 0, step);
  for (int64_t episode = 1; episode <= episodes; ++episode) {
    double score = 0;
    int64_t steps = 0;
    uint64_t failures = 0;
    for (bool over = false; !over;) {
      if (!screen.show(title(episode, episodes, steps, score), env->render(0))) return false;
      env->step(actions.next(*policy, env->spec(), step), step);
      if (step.failed.view<uint8_t>()[0] != 0) {
        const std::string error = step.errors.empty() ? "" : step.errors.front();
        const bool now = step.failed.view<uint8_t>()[0] == static_cast<uint8_t>(Failed::now);
        failures += now;
        if (now && failures >= kMostFailures) throw EnvironmentFailed(failures, error);
        if (!error.empty()) screen.say("the environment failed: " + error);
        score = 0;
        steps = 0;
        continue;
      }
      score += step.rewards.view<float>()[0];
      steps += step.executed.view<int32_t>()[0];
      over = step.terminated.view<uint8_t>()[0] != 0 || step.truncated.view<uint8_t>()[0] != 0;
    }
    const bool succeeded = env->spec().reports_success && step.success.view<uint8_t>()[0] != 0;
    screen.say(title(episode, episodes, steps, score) + (succeeded ? "  success" : "") + "  over");
  }
  return true;
}

}  // namespace

int run_play(const PlayOptions& options) try {
  const sigset_t signals = stop_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // before any thread starts: threads inherit it
  const TrainedRun run = load_trained_run(options.run_dir, options.checkpoint, options.device, options.moved);
  if (options.prompt && !is_token_run(run.context->config))
    throw ConfigError("--prompt: " + printable(options.run_dir, 200) + " is not a token run; leave it out");
  if (is_token_run(run.context->config)) {
    if (options.prompt)
      print_answers_to(*run.context, *run.weights,
                       {*options.prompt, options.greedy, options.temperature, options.episodes});
    else
      play_prompts(run, options);
    return 0;
  }
  Screen screen;
  return play(run, options.episodes, screen) || !std::cout ? 0 : kExitInterrupted;
} catch (const EnvironmentFailed& failure) {
  std::cout.flush();
  print_error(std::string("troupe: ") + failure.what());
  return kExitFailure;
} catch (const NotFinite& failure) {
  std::cout.flush();
  print_error(not_finite_line(options.run_dir, options.checkpoint, failure));
  return kExitFailure;
}

}  // namespace troupe
