#include "runtime/console.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>

namespace troupe {

namespace {

constexpr double kBusyTrainer = 0.1;    // below this wait fraction the trainer sets the pace,
constexpr double kHungryTrainer = 0.3;  // above this one sampling does
constexpr double kMuchDropped = 0.05;   // of the samples produced

std::string percent(double fraction) { return std::isfinite(fraction) ? format_number(100 * fraction, 0) + " %" : "-"; }

std::string rate(double per_second) {
  return std::isfinite(per_second) ? format_count(static_cast<uint64_t>(std::max(0.0, std::round(per_second)))) : "-";
}

std::string share(uint64_t part, uint64_t whole) {
  return whole == 0 ? "-" : percent(static_cast<double>(part) / static_cast<double>(whole));
}

double learner_metric(const StatsSnapshot& s, const char* name) {
  const auto found = s.learner.find(name);
  return found != s.learner.end() ? found->second : kUnknown;
}

uint64_t most_behind(const StatsSnapshot& s) {
  uint64_t most = 0;
  for (const auto& [receiver, behind] : s.weights_behind) most = std::max(most, behind);
  return most;
}

uint64_t sum(const std::map<std::string, uint64_t>& counts) {
  uint64_t total = 0;
  for (const auto& [name, count] : counts) total += count;
  return total;
}

std::string lag_text(const StatsSnapshot& s) {
  return format_number(s.lag_p50, 0) + '/' + format_number(s.lag_p95, 0) + '/' + format_number(s.lag_max, 0) + " of " +
         std::to_string(s.lag_bound);
}

std::string progress_bar(double progress, size_t width) {
  const double known = std::isfinite(progress) ? std::clamp(progress, 0.0, 1.0) : 0.0;
  const auto filled = static_cast<size_t>(std::floor(known * static_cast<double>(width)));
  return '[' + std::string(filled, '#') + std::string(width - filled, '.') + ']';
}

// At most `width` bytes, cut between characters, without control bytes (names may hold anything).
std::string fitted(std::string line, size_t width) {
  std::replace_if(line.begin(), line.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, '?');
  if (line.size() <= width) return line;
  while (width > 0 && (static_cast<unsigned char>(line[width]) & 0xC0) == 0x80) --width;
  return line.substr(0, width);
}

std::string sampling_line(const StatsSnapshot& s) {
  const Ledger& ledger = s.ledger;
  std::string line = "  sampling   " + rate(s.env_steps_per_second) +
                     " env-steps/s (60 s: " + rate(s.env_steps_per_second_60s) + ")  workers " +
                     std::to_string(s.workers_up) + '/' + std::to_string(s.workers_total) + "  dropped " +
                     format_count(ledger.dropped_stale) + " stale, " + format_count(ledger.dropped_full) + " full, " +
                     format_count(ledger.lost_in_crash) + " crashed";
  if (const uint64_t failures = sum(s.env_failures)) line += "  env failures " + format_count(failures);
  return line;
}

std::string inference_line(const StatsSnapshot& s) {
  const uint64_t batches = s.batches_full + s.batches_timeout + s.batches_all_waiting;
  return "  inference  batch " + format_number(s.batch_size_p50, 0) + " (full " + share(s.batches_full, batches) +
         ", timeout " + share(s.batches_timeout, batches) + ", all waiting " + share(s.batches_all_waiting, batches) +
         ")  p50 " + format_number(s.inference_p50_ms, 2) + " ms  p99 " + format_number(s.inference_p99_ms, 2) + " ms";
}

std::string training_line(const StatsSnapshot& s) {
  return "  training   " + format_count(s.updates) + " updates (" + format_number(s.updates_per_second, 1) +
         "/s)  reuse " + format_number(s.reuse, 1) + "  lag " + lag_text(s) + "  waits " +
         percent(s.trainer_wait_fraction) + "  weights behind " + std::to_string(most_behind(s));
}

std::string learning_line(const StatsSnapshot& s) {
  return "  learning   return " + format_number(s.return_mean, 1) + " +- " + format_number(s.return_std, 1) +
         "  length " + format_number(s.length_mean, 0) + "  success " + percent(s.success_rate) + "  KL " +
         format_number(learner_metric(s, "kl"), 4) + "  clipped " + percent(learner_metric(s, "clip_fraction")) +
         "  ESS " + format_number(learner_metric(s, "ess"), 2);
}

std::string evaluation_text(const EvaluationResult& e) {
  return "evaluation at update " + format_count(e.updates) + ": return " + format_number(e.return_mean, 1) + " +- " +
         format_number(e.return_std, 1) + ", success " + percent(e.success_rate) + " (" + format_count(e.episodes) +
         " episodes)";
}

// Why sampling is slow, by what made the batches leave.
std::string sampling_reason(const StatsSnapshot& s) {
  const uint64_t batches = s.batches_full + s.batches_timeout + s.batches_all_waiting;
  if (batches == 0) return "";
  if (2 * s.batches_timeout > batches) return "; batches leave on timeout: more workers, or a smaller batch_size";
  if (2 * s.batches_full > batches) return "; batches leave full: more inference actors, or a larger batch_size";
  return "; workers wait for their actions: more workers or groups";
}

}  // namespace

std::string bottleneck(const StatsSnapshot& s) {
  if (s.env_steps == 0 && s.updates == 0)
    return s.workers_up == 0 ? "starting (no worker is up yet)" : "starting (no data yet)";
  if (s.workers_up == 0) return "no worker is up: nothing is sampled";
  const uint64_t dropped = s.ledger.dropped_stale + s.ledger.dropped_full;
  if (s.ledger.produced > 0 && static_cast<double>(dropped) > kMuchDropped * static_cast<double>(s.ledger.produced))
    return "waste (" + share(dropped, s.ledger.produced) + " of the samples are dropped, " +
           (s.ledger.dropped_stale >= s.ledger.dropped_full ? "most as stale)" : "most for want of room)");
  if (!std::isfinite(s.trainer_wait_fraction))
    return s.updates == 0 ? "starting (no update yet)" : "unknown (a deterministic run does one thing at a time)";
  if (s.trainer_wait_fraction > kHungryTrainer)
    return "sampling (the trainer waits " + percent(s.trainer_wait_fraction) + " of the time" + sampling_reason(s) +
           ')';
  if (s.trainer_wait_fraction < kBusyTrainer)
    return "training (the trainer is busy " + percent(1 - s.trainer_wait_fraction) + " of the time)";
  return "none (sampling and training keep pace, the trainer waits " + percent(s.trainer_wait_fraction) +
         " of the time)";
}

std::vector<std::string> console_block(const std::string& run, const StatsSnapshot& s, size_t width) {
  constexpr size_t kBarWidth = 24;
  std::vector<std::string> lines = {run + ' ' + progress_bar(s.progress, kBarWidth) + ' ' + percent(s.progress) + "  " +
                                        format_count(s.env_steps) + " env-steps  " + format_seconds(s.elapsed_seconds) +
                                        "  ETA " + format_seconds(s.eta_seconds) + "  " + format_bytes(s.rss_bytes),
                                    sampling_line(s), inference_line(s), training_line(s), learning_line(s)};
  if (s.evaluation) lines.push_back("  " + evaluation_text(*s.evaluation));
  lines.push_back("  bottleneck: " + bottleneck(s));
  for (std::string& line : lines) line = fitted(std::move(line), width);
  return lines;
}

std::string console_redraw(const std::vector<std::string>& lines, size_t lines_before) {
  std::string out = lines_before > 0 ? "\x1b[" + std::to_string(lines_before) + "A" : "";
  for (const std::string& line : lines) out += "\r\x1b[2K" + line + '\n';
  // A block that has become shorter leaves nothing of the old one below.
  return out + "\x1b[J";
}

std::string console_line(const StatsSnapshot& s) {
  const Ledger& ledger = s.ledger;
  std::string line = format_seconds(s.elapsed_seconds) + "  " + percent(s.progress) + "  steps " +
                     format_count(s.env_steps) + " (" + rate(s.env_steps_per_second) + "/s)  updates " +
                     format_count(s.updates) + " (" + format_number(s.updates_per_second, 1) + "/s)  return " +
                     format_number(s.return_mean, 1);
  if (std::isfinite(s.success_rate)) line += "  success " + percent(s.success_rate);
  line += "  KL " + format_number(learner_metric(s, "kl"), 4) + "  lag " + lag_text(s) + "  dropped " +
          format_count(ledger.dropped_stale + ledger.dropped_full + ledger.lost_in_crash) + "  workers " +
          std::to_string(s.workers_up) + '/' + std::to_string(s.workers_total) + "  ETA " +
          format_seconds(s.eta_seconds) + "  bottleneck: " + bottleneck(s);
  return line;
}

std::string format_count(uint64_t value) {
  const std::string digits = std::to_string(value);
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) out += ',';
    out += digits[i];
  }
  return out;
}

std::string format_number(double value, int decimals) {
  if (!std::isfinite(value)) return "-";
  char text[64];
  const bool large = std::abs(value) >= 1e9;
  std::snprintf(text, sizeof text, large ? "%.*g" : "%.*f", large ? 4 : decimals, value);
  // "-0.0" would look like a sign that means something.
  const std::string_view digits(text);
  if (digits.starts_with('-') && digits.find_first_not_of("-0.") == std::string_view::npos) return text + 1;
  return text;
}

std::string format_seconds(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e9) return "-";
  const auto whole = static_cast<uint64_t>(std::llround(seconds));
  char text[32];
  const unsigned minutes = whole / 60 % 60, rest = whole % 60;
  if (whole >= 3600)
    std::snprintf(text, sizeof text, "%llu:%02u:%02u", static_cast<unsigned long long>(whole / 3600), minutes, rest);
  else
    std::snprintf(text, sizeof text, "%u:%02u", minutes, rest);
  return text;
}

std::string format_bytes(uint64_t bytes) {
  if (bytes >= 10'000'000'000) return format_count(bytes / 1'000'000'000) + " GB";
  return bytes == 0 ? "- MB" : format_count((bytes + 500'000) / 1'000'000) + " MB";
}

}  // namespace troupe
