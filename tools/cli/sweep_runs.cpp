#include "tools/cli/sweep_runs.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <list>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/base/child_process.h"
#include "runtime/base/errors.h"
#include "runtime/base/output.h"
#include "runtime/base/text_format.h"
#include "runtime/config/fixed_settings.h"
#include "runtime/run_folder/run_overview.h"
#include "runtime/stats/console.h"
#include "tools/cli/launch.h"
#include "tools/cli/sweep_progress.h"
#include "tools/cli/terminal.h"

namespace troupe {

namespace {

// Whether the run reached its limit with these settings.
bool is_complete(const SweepRun& run) {
  try {
    if (!posix_disk().exists(run.folder + "/config.json")) return false;
    const RunOverview overview = read_overview(posix_disk(), run.folder, held_locks());
    return overview.state == RunState::finished && changed_settings(overview.config, run.config).empty();
  } catch (const ConfigError&) {
    return false;  // the run itself says what is wrong
  } catch (const IoError&) {
    return false;
  }
}

std::string score_of(const std::string& folder) {
  try {
    const RunOverview run = read_overview(posix_disk(), folder, {});
    if (!run.score) return "";
    return (run.score->evaluation ? ", evaluation " : ", training return ") + format_figure(run.score->mean, 2);
  } catch (const ConfigError&) {
    return "";
  } catch (const IoError&) {
    return "";
  }
}

// Of the newest record; NaN without one.
double progress_of(const std::string& folder) {
  try {
    if (!posix_disk().exists(metrics_file(folder))) return NAN;
    return figure_at(read_last_records(posix_disk(), folder, false).last, "progress");
  } catch (const IoError&) {
    return NAN;
  }
}

class Sweep {
 public:
  Sweep(const std::vector<SweepRun>& runs, size_t jobs, const Descriptor& stop)
      : runs_(runs), jobs_(jobs), stop_(stop) {}

  SweepOutcome run() {
    for (;;) {
      while (!outcome_.stopped && running_.size() < jobs_ && next_ < runs_.size()) begin(runs_[next_++]);
      if (running_.empty()) return outcome_;
      wait();
      tell_progress();
      for (auto each = running_.begin(); each != running_.end();) {
        const bool ended = each->child->wait(std::chrono::milliseconds(0));
        if (ended) tell_end(*each);
        each = ended ? running_.erase(each) : std::next(each);
      }
    }
  }

 private:
  struct Running {
    const SweepRun* run;
    std::unique_ptr<ChildProcess> child;
    Descriptor ended;  // readable once it has ended; none if the system has no pidfd
    std::chrono::steady_clock::time_point begun;
  };

  void begin(const SweepRun& run) {
    if (is_complete(run)) {
      ++outcome_.finished;
      return tell(run, "had finished" + score_of(run.folder));
    }
    try {
      auto child = std::make_unique<ChildProcess>(run.command, std::span<const int>());
      Descriptor ended(static_cast<int>(syscall(SYS_pidfd_open, child->id(), 0)));
      running_.push_back({&run, std::move(child), std::move(ended), std::chrono::steady_clock::now()});
    } catch (const IoError& refused) {
      fail(run, refused.what());
    }
  }

  void wait() {
    constexpr std::chrono::milliseconds kLook{1000};  // also for ends, where there is no pidfd
    std::vector<pollfd> watched;
    if (!outcome_.stopped) watched.push_back({stop_.number(), POLLIN, 0});
    for (const Running& each : running_)
      if (each.ended.number() >= 0) watched.push_back({each.ended.number(), POLLIN, 0});
    running_.front().child->wait_for(watched, Deadline(kLook));
    if (outcome_.stopped || watched.front().revents == 0) return;
    outcome_.stopped = true;
    for (const Running& each : running_) ::kill(each.child->id(), SIGTERM);
  }

  void tell_end(const Running& ended) {
    using Seconds = std::chrono::duration<double>;
    const double seconds = Seconds(std::chrono::steady_clock::now() - ended.begun).count();
    if (ended.child->exit_code() == 0) {
      ++outcome_.finished;
      trained_seconds_ += seconds;
      ++trained_;
      return tell(*ended.run, "finished in " + format_number(seconds, 1) + " s" + score_of(ended.run->folder));
    }
    if (outcome_.stopped && ended.child->exit_code() == kExitInterrupted) return tell(*ended.run, "stopped");
    const std::string line = ended.child->last_line();
    fail(*ended.run, line.empty() ? ended.child->state() : line.starts_with("troupe: ") ? line.substr(8) : line);
  }

  void fail(const SweepRun& run, const std::string& why) {
    outcome_.failed.push_back(run.name + ": " + why);
    tell(run, "failed: " + why);
  }

  // In place on a terminal, elsewhere a line each half minute.
  void tell_progress() {
    const bool terminal = isatty(STDOUT_FILENO) != 0;
    const auto now = std::chrono::steady_clock::now();
    if (now < next_progress_) return;
    next_progress_ = now + (terminal ? std::chrono::seconds(1) : std::chrono::seconds(30));
    std::vector<SweptRunProgress> running;
    for (const Running& each : running_)
      running.push_back(
          {each.run->name, std::chrono::duration<double>(now - each.begun).count(), progress_of(each.run->folder)});
    const double mean = trained_ == 0 ? NAN : trained_seconds_ / static_cast<double>(trained_);
    const std::string text = sweep_progress_text(
        {.ended = ended_, .runs = runs_.size(), .jobs = jobs_, .running = running, .mean_seconds = mean});
    if (!terminal) return print_line(text);
    if (draw(console_redraw({fitted(text, terminal_size().columns)}, drawn_))) drawn_ = 1;
  }

  void tell(const SweepRun& run, const std::string& what) {
    if (drawn_ > 0) draw(console_redraw({}, std::exchange(drawn_, 0)));
    print_line(std::to_string(++ended_) + '/' + std::to_string(runs_.size()) + ' ' + run.name + ": " + what);
  }

  const std::vector<SweepRun>& runs_;
  const size_t jobs_;
  const Descriptor& stop_;
  size_t next_ = 0, ended_ = 0;
  size_t trained_ = 0;  // that finished now
  double trained_seconds_ = 0;
  size_t drawn_ = 0;  // lines of the progress on the terminal
  // Later than the first look, so that short runs are only told at their ends.
  std::chrono::steady_clock::time_point next_progress_ = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  std::list<Running> running_;
  SweepOutcome outcome_;
};

}  // namespace

SweepOutcome run_sweep(const std::vector<SweepRun>& runs, size_t jobs, const Descriptor& stop) {
  return Sweep(runs, jobs, stop).run();
}

}  // namespace troupe
