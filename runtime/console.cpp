#include "runtime/console.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string_view>
#include <utility>

namespace troupe {

namespace {

constexpr double kBusyTrainer = 0.1;    // below this wait fraction the trainer sets the pace,
constexpr double kHungryTrainer = 0.3;  // above this one sampling does
constexpr double kMuchDropped = 0.05;   // of the samples produced

// At most 5 characters.
std::string percent(double fraction) {
  if (!std::isfinite(fraction)) return "-";
  return format_number(100 * std::clamp(fraction, -9.99, 9.99), 0) + " %";
}

std::string rate(double per_second) {
  if (!std::isfinite(per_second)) return "-";
  return format_short(static_cast<uint64_t>(std::clamp(std::round(per_second), 0.0, 1e18)));
}

// A figure of any size in at most 9 characters.
std::string figure(double value, int decimals) {
  if (!std::isfinite(value)) return "-";
  if (std::abs(value) < 99'999.0) return format_number(value, decimals);
  char text[32];
  std::snprintf(text, sizeof text, "%.2g", value);
  return text;
}

// KL and the like, which matter also when they are small.
std::string small_figure(double value) {
  if (!std::isfinite(value) || value == 0 || (std::abs(value) >= 0.001 && std::abs(value) < 1000))
    return figure(value, 4);
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", value);
  return text;
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

std::string progress_bar(double progress, size_t width) {
  const double known = std::isfinite(progress) ? std::clamp(progress, 0.0, 1.0) : 0.0;
  const auto filled = static_cast<size_t>(std::floor(known * static_cast<double>(width)));
  return '[' + std::string(filled, '#') + std::string(width - filled, '.') + ']';
}

// One character of UTF-8 text and the columns it takes; bytes that are none, and control characters, become "?".
struct Glyph {
  std::string bytes;
  size_t columns = 1;
};

bool is_wide(uint32_t code) {
  constexpr std::pair<uint32_t, uint32_t> kWide[] = {
      {0x1100, 0x115F}, {0x231A, 0x231B},   {0x23E9, 0x23F3},   {0x25FD, 0x2BFF},   {0x2E80, 0xA4CF},
      {0xA960, 0xA97F}, {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE10, 0xFE6F},   {0xFF00, 0xFF60},
      {0xFFE0, 0xFFE6}, {0x16FE0, 0x18DFF}, {0x1AFF0, 0x1B2FF}, {0x1F000, 0x1FAFF}, {0x20000, 0x3FFFD}};
  return std::ranges::any_of(kWide, [&](const auto& range) { return range.first <= code && code <= range.second; });
}

Glyph take_glyph(std::string_view& text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0x80 ? 1 : lead >= 0xF0 && lead < 0xF5 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC2 ? 2 : 0;
  uint32_t code = length == 0 ? 0 : length == 1 ? lead : lead & (0x7Fu >> length);
  bool whole = length > 0 && lead < 0xF5 && length <= text.size();
  for (size_t i = 1; whole && i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    whole = (next & 0xC0) == 0x80;
    code = code << 6 | (next & 0x3F);
  }
  const bool control = code < 0x20 || (code >= 0x7F && code < 0xA0) || (code >= 0x2028 && code <= 0x202E);
  Glyph glyph{whole && !control ? std::string(text.substr(0, length)) : "?", 1};
  if (whole && !control && is_wide(code)) glyph.columns = 2;
  text.remove_prefix(whole ? length : 1);
  return glyph;
}

// At most `width` columns, cut between characters, without control characters (names may hold anything).
std::string fitted(std::string_view line, size_t width) {
  std::string result;
  for (size_t columns = 0; !line.empty();) {
    const Glyph glyph = take_glyph(line);
    columns += glyph.columns;
    if (columns > width) break;
    result += glyph.bytes;
  }
  return result;
}

std::string head_line(const std::string& run, const StatsSnapshot& s, size_t width) {
  constexpr size_t kBarWidth = 12;
  const std::string rest = ' ' + progress_bar(s.progress, kBarWidth) + ' ' + percent(s.progress) + "  " +
                           format_seconds(s.elapsed_seconds) + "  ETA " + format_seconds(s.eta_seconds) + "  " +
                           format_bytes(s.rss_bytes);
  return fitted(run, width - std::min(width, rest.size())) + rest;
}

std::string steps_line(const StatsSnapshot& s) {
  return "  steps      " + format_short(s.env_steps) + " env-steps  " + rate(s.env_steps_per_second) +
         "/s (60 s: " + rate(s.env_steps_per_second_60s) + "/s)";
}

std::string workers_line(const StatsSnapshot& s) {
  const Ledger& ledger = s.ledger;
  return "  workers    " + format_short(s.workers_up) + " up of " + format_short(s.workers_total) + "  dropped " +
         format_short(ledger.dropped_stale) + " stale, " + format_short(ledger.dropped_full) + " full";
}

// Only when something failed.
std::string failures_line(const StatsSnapshot& s) {
  return "  failures   " + format_short(s.ledger.lost_in_crash) + " samples lost, " +
         format_short(sum(s.env_failures)) + " of environments";
}

std::string inference_line(const StatsSnapshot& s) {
  return "  inference  batch " + figure(s.batch_size_p50, 0) + "  p50 " + figure(s.inference_p50_ms, 2) + " ms  p99 " +
         figure(s.inference_p99_ms, 2) + " ms";
}

std::string batches_line(const StatsSnapshot& s) {
  const uint64_t batches = s.batches_full + s.batches_timeout + s.batches_all_waiting;
  return "  batches    " + share(s.batches_full, batches) + " left full, " + share(s.batches_timeout, batches) +
         " on timeout, " + share(s.batches_all_waiting, batches) + " with all workers waiting";
}

std::string training_line(const StatsSnapshot& s) {
  return "  training   " + format_short(s.updates) + " updates (" + figure(s.updates_per_second, 1) + "/s)  reuse " +
         figure(s.reuse, 1) + "  waits " + percent(s.trainer_wait_fraction);
}

std::string lag_line(const StatsSnapshot& s) {
  return "  lag        median " + figure(s.lag_p50, 0) + "  p95 " + figure(s.lag_p95, 0) + "  max " +
         figure(s.lag_max, 0) + "  bound " + format_short(s.lag_bound);
}

// Only when a receiver has not applied the newest weights.
std::string weights_line(const StatsSnapshot& s) {
  return "  weights    " + format_short(most_behind(s)) + " versions behind at one inference actor";
}

std::string return_line(const StatsSnapshot& s) {
  return "  return     " + figure(s.return_mean, 1) + " +- " + figure(s.return_std, 1) + "  length " +
         figure(s.length_mean, 0) + "  success " + percent(s.success_rate);
}

std::string learning_line(const StatsSnapshot& s) {
  return "  learning   KL " + small_figure(learner_metric(s, "kl")) + "  clipped " +
         percent(learner_metric(s, "clip_fraction")) + "  ESS " + figure(learner_metric(s, "ess"), 2);
}

std::string evaluation_line(const EvaluationResult& e) {
  return "  evaluation at update " + format_short(e.updates) + ": return " + figure(e.return_mean, 1) + " +- " +
         figure(e.return_std, 1) + ", success " + percent(e.success_rate);
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
  if (s.training_ended) return "none (training has ended)";
  const bool sampling = s.env_steps > 0 && (s.env_steps_per_second != 0 || s.trainer_wait_fraction < kHungryTrainer);
  if (const uint64_t failures = sum(s.env_failures); failures > 0 && !sampling)
    return "environments fail (" + format_count(failures) + " failures, the last: " + fitted(s.last_error, 60) + ')';
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
  return "none (sampling and training keep pace; the trainer waits " + percent(s.trainer_wait_fraction) +
         " of the time)";
}

std::vector<std::string> console_block(const std::string& run, const StatsSnapshot& s, size_t width) {
  std::vector<std::string> lines = {head_line(run, s, width), steps_line(s), workers_line(s)};
  if (s.ledger.lost_in_crash + sum(s.env_failures) > 0) lines.push_back(failures_line(s));
  for (const auto line : {inference_line, batches_line, training_line, lag_line}) lines.push_back(line(s));
  if (most_behind(s) > 1) lines.push_back(weights_line(s));
  for (const auto line : {return_line, learning_line}) lines.push_back(line(s));
  if (s.evaluation) lines.push_back(evaluation_line(*s.evaluation));
  const std::string verdict = bottleneck(s);
  const size_t because = verdict.find("; ");  // on a line of its own
  lines.push_back("  bottleneck " + verdict.substr(0, because) + (because == std::string::npos ? "" : ")"));
  if (because != std::string::npos)
    lines.push_back("             " + verdict.substr(because + 2, verdict.size() - because - 3));
  for (std::string& line : lines) line = fitted(line, width);
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
  const std::string verdict = bottleneck(s);
  std::vector<std::string> parts = {
      format_seconds(s.elapsed_seconds) + "  " + percent(s.progress),
      "steps " + format_short(s.env_steps) + " (" + rate(s.env_steps_per_second) + "/s)",
      "updates " + format_short(s.updates) + " (" + figure(s.updates_per_second, 1) + "/s)",
      "return " + figure(s.return_mean, 1)};
  if (std::isfinite(s.success_rate)) parts.push_back("success " + percent(s.success_rate));
  parts.push_back("KL " + small_figure(learner_metric(s, "kl")));
  parts.push_back("bottleneck: " + verdict.substr(0, verdict.find(" (")));
  parts.push_back("workers " + format_short(s.workers_up) + '/' + format_short(s.workers_total));
  parts.push_back("ETA " + format_seconds(s.eta_seconds));
  parts.push_back("lag p95 " + figure(s.lag_p95, 0) + " of " + format_short(s.lag_bound));
  parts.push_back("dropped " + format_short(ledger.dropped_stale + ledger.dropped_full + ledger.lost_in_crash));
  std::string line;
  for (const std::string& part : parts)
    if (line.size() + 2 + part.size() < kLineColumns) line += (line.empty() ? "" : "  ") + part;
  return line;
}

size_t display_width(std::string_view text) {
  size_t columns = 0;
  while (!text.empty()) columns += take_glyph(text).columns;
  return columns;
}

std::string format_short(uint64_t value) {
  if (value < 10'000'000) return format_count(value);
  auto scaled = static_cast<double>(value);
  size_t unit = 0;
  for (; scaled >= 999.5 && unit < 6; ++unit) scaled /= 1000;
  char text[32];
  std::snprintf(text, sizeof text, "%.3g%c", scaled, " kMGTPE"[unit]);
  return text;
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
