#include "tools/run_report.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <iostream>

#include <nlohmann/json.hpp>

#include "runtime/console.h"
#include "runtime/process_stats.h"

namespace troupe {

namespace {

using Json = nlohmann::ordered_json;

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

size_t terminal_width() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 100;
}

// nlohmann writes NaN and infinities as null.
Json evaluation_of(const Evaluation& e) {
  Json result{{"episodes", e.episodes},         {"return_mean", e.return_mean}, {"return_std", e.return_std},
              {"success_rate", e.success_rate}, {"length_mean", e.length_mean}, {"updates", e.version.number}};
  if (!e.error.empty()) result["error"] = e.error;
  return result;
}

std::string success_text(double rate) {
  return std::isfinite(rate) ? ", success " + format_number(100 * rate, 1) + " %" : "";
}

}  // namespace

RunReport::RunReport(RunFolder& folder, StatsSocket* socket, const RunConfig& config, uint64_t first_env_steps)
    : folder_(folder),
      socket_(socket),
      config_(config),
      first_env_steps_(first_env_steps),
      terminal_(isatty(STDOUT_FILENO) != 0) {}

void RunReport::save(const Checkpoint& checkpoint) {
  Checkpoint complete = checkpoint;
  if (config_.deterministic) complete.scalars[kMetricsLines] = static_cast<double>(folder_.metrics_lines());
  folder_.checkpoints().save(checkpoint.updates, complete);
  folder_.checkpoints().prune(static_cast<uint64_t>(config_.checkpoint.keep));
}

void RunReport::report(const StatsSnapshot& snapshot) {
  last_ = snapshot;
  const std::string json = to_json(snapshot);
  folder_.write_metrics(json);
  folder_.write_scalars(wall_clock(), static_cast<int64_t>(snapshot.env_steps), scalars_of(snapshot));
  if (socket_ != nullptr) socket_->publish(json);
  const StatsSnapshot shown = config_.deterministic ? with_times(snapshot) : snapshot;
  if (terminal_) {
    const std::vector<std::string> lines = console_block(config_.name, shown, terminal_width());
    std::cout << console_redraw(lines, lines_drawn_) << std::flush;
    lines_drawn_ = lines.size();
  } else {
    std::cout << console_line(shown) << std::endl;
  }
}

// The actors of a deterministic run have no clock; who watches it has one.
StatsSnapshot RunReport::with_times(StatsSnapshot s) {
  const auto now = std::chrono::steady_clock::now();
  const double span = std::chrono::duration<double>(now - std::exchange(reported_, now)).count();
  s.elapsed_seconds = std::chrono::duration<double>(now - begun_).count();
  s.rss_bytes = resident_bytes();
  const auto before = std::exchange(shown_, std::pair(s.env_steps, s.updates));
  if (!before || span <= 0) return s;
  s.env_steps_per_second = static_cast<double>(s.env_steps - before->first) / span;
  s.updates_per_second = static_cast<double>(s.updates - before->second) / span;
  if (s.updates_per_second > 0 && s.progress > 0)
    s.eta_seconds = static_cast<double>(s.updates) * (1 - s.progress) / s.progress / s.updates_per_second;
  return s;
}

void RunReport::finish(const RunOutcome& outcome, double wall_seconds) {
  Json summary{{"env", config_.env.id}, {"seed", config_.seed}, {"reason", outcome.reason}};
  if (!outcome.error.empty()) summary["error"] = outcome.error;
  summary["wall_seconds"] = wall_seconds;
  summary["seconds_to_first_update"] = last_.seconds_to_first_update;
  summary["env_steps"] = last_.env_steps;
  summary["env_steps_per_second"] = static_cast<double>(last_.env_steps - first_env_steps_) /
                                    (config_.deterministic ? wall_seconds : last_.elapsed_seconds);
  summary["updates"] = outcome.version.number;
  summary["eval"] = outcome.evaluation ? evaluation_of(*outcome.evaluation) : Json(nullptr);
  summary["episodes"] = {
      {"count", last_.episodes}, {"return_mean", last_.return_mean}, {"success_rate", last_.success_rate}};
  summary["lag"] = {{"p50", last_.lag_p50}, {"p95", last_.lag_p95}, {"max", last_.lag_max}, {"bound", last_.lag_bound}};
  summary["ledger"] = Json::parse(to_json(last_.ledger));
  summary["trainer_wait_fraction"] = last_.trainer_wait_fraction;
  summary["env_failures"] = last_.env_failures;
  summary["skipped_steps"] = last_.skipped_steps;
  summary["lost_writes"] = folder_.lost_writes();
  if (!outcome.checkpoint_error.empty()) summary["checkpoint_error"] = outcome.checkpoint_error;
  summary["peak_rss_bytes"] = peak_resident_bytes();
  folder_.write_summary(summary.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  std::cout << outcome.reason << " after " << format_count(last_.env_steps) << " environment steps, "
            << format_count(outcome.version.number) << " updates, " << format_seconds(wall_seconds) << '\n';
  if (outcome.evaluation && !outcome.evaluation->error.empty())
    std::cout << "evaluation failed after " << outcome.evaluation->episodes
              << " episodes: " << outcome.evaluation->error << '\n';
  else if (outcome.evaluation)
    std::cout << "evaluation: return " << format_number(outcome.evaluation->return_mean, 2) << " +- "
              << format_number(outcome.evaluation->return_std, 2) << success_text(outcome.evaluation->success_rate)
              << " over " << outcome.evaluation->episodes << " episodes\n";
  std::cout << "the run lies in " << folder_.path() << std::endl;
}

}  // namespace troupe
