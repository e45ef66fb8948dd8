#include "runtime/stats/console.h"

#include <algorithm>
#include <climits>
#include <cmath>

#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"
#include "runtime/stats/bottleneck.h"
#include "runtime/stats/figure.h"

namespace troupe {

namespace {

// The rate as text, written by `format`; "-" if it is unknown.
std::string rate(double per_second, std::string (*format)(uint64_t) = format_short) {
  if (!std::isfinite(per_second)) return "-";
  return format(static_cast<uint64_t>(std::clamp(std::round(per_second), 0.0, 1e18)));
}

std::string compact_lag(double lag) {
  return lag >= 0 && lag < 1e18 ? format_compact(static_cast<uint64_t>(std::llround(lag))) : format_compact_figure(lag);
}

// Small returns need more decimals. `of` is the mean return, which decides on their number.
std::string return_figure(double value, double of) { return format_figure(value, std::abs(of) < 10 ? 3 : 1); }

std::string share(uint64_t part, uint64_t whole) {
  return whole == 0 ? "-" : format_percent(static_cast<double>(part) / static_cast<double>(whole));
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

std::string progress_bar(double progress, size_t width) {
  const double known = std::isfinite(progress) ? std::clamp(progress, 0.0, 1.0) : 0.0;
  const auto filled = static_cast<size_t>(std::floor(known * static_cast<double>(width)));
  return '[' + std::string(filled, '#') + std::string(width - filled, '.') + ']';
}

// The name of the run and the figures of the first line. If the width is too small, figures are left out to make room
// for the name, the least important first.
std::string head_line(const std::string& run, const StatsSnapshot& s, size_t width) {
  constexpr size_t kBarWidth = 12;
  std::vector<std::string> figures = {progress_bar(s.progress, kBarWidth) + ' ' + text_at(s, "progress"),
                                      text_at(s, "elapsed_seconds")};
  if (!s.training_ended) figures.push_back("ETA " + text_at(s, "eta_seconds"));
  figures.push_back(format_bytes(s.rss_bytes));
  const auto rest = [&] {
    std::string text;
    for (const std::string& figure : figures) text += (text.empty() ? " " : "  ") + figure;
    return text;
  };
  const size_t name = std::min(display_width(run), std::max<size_t>(width / 3, 8));
  if (name + rest().size() > width) figures[0] = text_at(s, "progress");
  while (!figures.empty() && name + rest().size() > width) figures.pop_back();
  return fitted(run, width - std::min(width, rest().size())) + rest();
}

std::string steps_line(const StatsSnapshot& s) {
  if (s.words->tokens)
    return "  answers    " + text_at(s, "env_steps") + "  " + rate(s.env_steps_per_second) + "/s  tokens " +
           rate(s.answer_tokens_per_second) + "/s, trained " + rate(s.trained_tokens_per_second) + "/s";
  return "  steps      " + text_at(s, "env_steps") + " env steps  " + rate(s.env_steps_per_second) +
         "/s (60 s: " + rate(s.env_steps_per_second_60s) + "/s)";
}

std::string workers_line(const StatsSnapshot& s) {
  const Ledger& ledger = s.ledger;
  const auto dropped = [](uint64_t count) { return count < 1'000'000 ? format_short(count) : format_compact(count); };
  const std::string joined = s.workers_total > s.workers_up ? ", " + format_compact(s.workers_total) + " joined" : "";
  return "  workers    " + format_compact(s.workers_up) + " up" + joined + "  dropped " +
         dropped(ledger.dropped_stale) + " stale, " + dropped(ledger.dropped_full) + " buffer full";
}

std::string times(uint64_t count) { return format_short(count) + (count == 1 ? " time" : " times"); }

// Empty unless something failed.
std::string failures_line(const StatsSnapshot& s) {
  std::string text;
  if (const uint64_t failures = env_failures_of(s)) text = std::string(s.words->failing) + " failed " + times(failures);
  if (s.ledger.lost_in_crash > 0)
    text += (text.empty() ? "" : ", ") + format_short_counted(s.ledger.lost_in_crash, "sample") + " lost";
  return text.empty() ? "" : "  failures   " + text;
}

uint64_t without_score(const StatsSnapshot& s) { return s.ledger.unscored + s.ledger.verifier_failed; }

// That leaves answers without a score.
std::string failing_function(const StatsSnapshot& s) {
  return s.verifier && s.verifier->failed_replies > 0 ? "verifier or the reply" : "verifier";
}

// Empty unless answers got no score.
std::string unscored_line(const StatsSnapshot& s) {
  if (without_score(s) == 0) return "";
  return "  no score   " + format_short_counted(without_score(s), "answer") +
         (s.ledger.verifier_failed > 0
              ? ", the " + failing_function(s) + " failed on " + text_at(s, "ledger.verifier_failed")
              : "");
}

// Empty unless answers were filtered.
std::string filtered_line(const StatsSnapshot& s) {
  if (s.ledger.filtered == 0) return "";
  return "  filtered   " + format_short_counted(s.ledger.filtered, "answer") + " (" +
         share(std::min(s.ledger.filtered, s.ledger.produced), s.ledger.produced) + "), whose group has equal rewards";
}

// Empty unless answers came too late to be trained on as a whole.
std::string late_line(const StatsSnapshot& s) {
  if (!std::isfinite(s.dropped_length) && s.masked_tokens == 0) return "";
  return "  lengths    answers " + format_figure(s.produced_length, 1) + "  trained " +
         format_figure(s.trained_length, 1) + "  dropped " + format_figure(s.dropped_length, 1) +
         (s.masked_tokens > 0 ? "  masked " + format_short_counted(s.masked_tokens, "token") : "");
}

std::string inference_line(const StatsSnapshot& s) {
  return "  inference  batch " + format_figure(s.batch_size_p50, 0) + "  p50 " + format_figure(s.inference_p50_ms, 2) +
         " ms  p99 " + format_figure(s.inference_p99_ms, 2) + " ms";
}

// Empty in a token run, whose inference actors compute whatever is in progress.
std::string batches_line(const StatsSnapshot& s) {
  if (s.words->tokens) return "";
  const uint64_t batches = s.batches_full + s.batches_timeout + s.batches_all_waiting;
  return "  batches    started full " + share(s.batches_full, batches) + ", at timeout " +
         share(s.batches_timeout, batches) + ", all workers waiting " + share(s.batches_all_waiting, batches);
}

std::string training_line(const StatsSnapshot& s) {
  return "  training   " + format_short_counted(s.updates, "update") + " (" + format_figure(s.updates_per_second, 1) +
         "/s)  reuse " + format_figure(s.reuse, 1) + "  waits " + text_at(s, "trainer_wait_fraction");
}

std::string ranks_text(const StatsSnapshot& s) {
  return format_short(s.ranks_up) + " of " + format_short(s.ranks_total);
}

// Empty with one rank.
std::string ranks_line(const StatsSnapshot& s) {
  return s.ranks_total > 1 ? "  ranks      " + ranks_text(s) + " up" : "";
}

std::string lag_line(const StatsSnapshot& s) {
  return "  lag        median " + format_figure(s.lag_p50, 0) + "  p95 " + format_figure(s.lag_p95, 0) + "  max " +
         format_figure(s.lag_max, 0) + "  cap " + text_at(s, "lag.cap");
}

// Empty unless a receiver has not applied the newest weights.
std::string weights_line(const StatsSnapshot& s) {
  if (most_behind(s) <= 1) return "";
  return "  weights    " + format_short(most_behind(s)) + " versions behind at one inference actor";
}

std::string return_line(const StatsSnapshot& s) {
  if (!std::isfinite(s.return_mean))
    return std::string("  ") + s.words->episode_return + "     no " + s.words->ended + " is complete yet";
  if (s.words->tokens)
    return "  reward     " + format_figure(s.return_mean, 3) + "  right " + text_at(s, "episodes.success_rate") +
           "  length " + format_figure(s.length_mean, 1) +
           (s.answers.turns_max > 1 ? "  turns " + format_figure(s.answers.turns_mean, 1) : "") + "  cut off " +
           text_at(s, "answers.cut_fraction");
  return "  return     " + return_figure(s.return_mean, s.return_mean) + " +- " +
         return_figure(s.return_std, s.return_mean) + "  length " + format_figure(s.length_mean, 0) + "  success " +
         text_at(s, "episodes.success_rate");
}

std::string learning_line(const StatsSnapshot& s) {
  const double reference_kl = learner_metric(s, "reference_kl");
  return "  learning   KL " + small_figure(learner_metric(s, "kl")) + "  clipped " +
         format_percent(learner_metric(s, "clip_fraction")) + "  ESS " + format_figure(learner_metric(s, "ess"), 2) +
         (std::isfinite(reference_kl) ? "  reference KL " + small_figure(reference_kl) : "");
}

std::string evaluation_line(const StatsSnapshot& s) {
  if (!s.evaluation) return "";
  const EvaluationResult& e = *s.evaluation;
  const ExperienceWords& words = *s.words;
  const bool several = e.pass_at.size() > 1;  // answers to each prompt
  const std::string success = std::string(words.evaluation_success) + ' ' + format_percent(e.success_rate);
  return "  evaluation at update " + format_short(e.updates) + ": " +
         (words.success_key != nullptr
              ? success +
                    (several ? ", pass@" + std::to_string(e.pass_at.back().first) + " " +
                                   format_percent(e.pass_at.back().second)
                             : "") +
                    " of " + format_short_counted(e.episodes, several ? words.ended : words.episode)
              : std::string(words.episode_return) + ' ' + return_figure(e.return_mean, e.return_mean) + " +- " +
                    return_figure(e.return_std, e.return_mean) + ", " + success) +
         (e.failed_episodes > 0 ? ", " + format_short(e.failed_episodes) + ' ' + words.failed : "");
}

// Empty unless the newest evaluation failed.
std::string failed_evaluation_line(const StatsSnapshot& s) {
  const FailedEvaluations& failed = s.failed_evaluations;
  if (failed.error.empty() || (s.evaluation && s.evaluation->updates >= failed.updates)) return "";
  return "  evaluation at update " + format_short(failed.updates) + " failed (" + format_short(failed.count) +
         " so far): " + printable(failed.error, std::string::npos);
}

// Empty unless an evaluation is under way.
std::string evaluating_line(const StatsSnapshot& s) {
  if (!s.evaluating) return "";
  const EvaluationUnderWay& e = *s.evaluating;
  return "  evaluating the policy after update " + format_short(e.updates) + ": " + format_short(e.episodes) + " of " +
         format_short_counted(e.of, s.words->episode) + ", " + format_seconds(e.seconds) +
         (e.waiting > 0 ? ", " + format_short(e.waiting) + " more to do" : "");
}

// Errors come first.
std::string alarm_names(const StatsSnapshot& s) {
  std::string errors, warnings;
  for (const auto& [name, alarm] : s.alarms) {
    std::string& list = alarm.level == AlarmLevel::error ? errors : warnings;
    list += (list.empty() ? "" : ", ") + name;
  }
  return (errors.empty() ? "" : "ERROR " + errors) + (errors.empty() || warnings.empty() ? "" : "; ") + warnings;
}

// Empty unless an alarm is raised.
std::string alarms_line(const StatsSnapshot& s) { return s.alarms.empty() ? "" : "  alarms     " + alarm_names(s); }

std::string bottleneck_line(const StatsSnapshot& s) {
  const Bottleneck verdict = find_bottleneck(s);
  return verdict.what.empty() ? "" : "  bottleneck " + text_of({verdict.what, verdict.why, ""});
}

std::string advice_line(const StatsSnapshot& s) {
  const std::string advice = find_bottleneck(s).advice;
  return advice.empty() ? "" : "             " + advice;
}

// An item of the line for files, with a shorter form. Those with the highest rank are left out first, those with rank 0
// never. In a narrow line the items get room in the order of `narrow`; 0 gets none.
struct LineItem {
  int rank, narrow;
  std::string full, compact;
  bool close = false;  // follows its neighbour after one space
};

std::string evaluating_text(const EvaluationUnderWay& e, std::string (*format)(uint64_t)) {
  return "evaluating update " + format(e.updates) + ", " + format(e.episodes) + " of " + format(e.of) + ", " +
         format_seconds(e.seconds) + (e.waiting > 0 ? ", " + format(e.waiting) + " more" : "");
}

// From 100 hours on without minutes.
std::string compact_seconds(double seconds) {
  constexpr double kHour = 3600;
  return seconds >= 100 * kHour && seconds < 1e9 ? format_compact(static_cast<uint64_t>(seconds / kHour)) + " h"
                                                 : format_seconds(seconds);
}

LineItem counted(int rank, int narrow, const std::string& name, uint64_t count) {
  return {rank, narrow, name + ' ' + format_short(count), name + ' ' + format_compact(count)};
}

// With `names`, there is room for the names of alarms.
std::vector<LineItem> line_items(const StatsSnapshot& s, bool names) {
  const auto same = [](int rank, int narrow, const std::string& text) { return LineItem{rank, narrow, text, text}; };
  const auto steps = [&](auto format) {
    return std::string(s.words->steps) + ' ' + format(s.env_steps) + " (" + rate(s.env_steps_per_second, format) +
           "/s)";
  };
  const std::string return_name = std::string(s.words->episode_return) + ' ';
  const std::string updates_rate = "(" + format_figure(s.updates_per_second, 1) + "/s)";
  const std::string lag = "lag p95 ", cap = " cap ";
  std::vector<LineItem> items = {{0, 1, text_at(s, "elapsed_seconds"), compact_seconds(s.elapsed_seconds)},
                                 same(3, 6, text_at(s, "progress")),
                                 {0, 1, steps(format_short), steps(format_compact)},
                                 counted(0, 5, "updates", s.updates),
                                 {6, 0, updates_rate, updates_rate, true},
                                 {0, 2, return_name + return_figure(s.return_mean, s.return_mean),
                                  return_name + format_compact_figure(s.return_mean)}};
  if (std::isfinite(s.success_rate))
    items.push_back(same(s.words->success_key != nullptr ? 2 : 5, 9,
                         std::string(s.words->success) + ' ' + text_at(s, "episodes.success_rate")));
  if (s.words->tokens) items.push_back(same(3, 10, "tokens " + rate(s.answer_tokens_per_second) + "/s"));
  items.push_back(same(7, 15, "KL " + small_figure(learner_metric(s, "kl"))));
  if (const double kl = learner_metric(s, "reference_kl"); std::isfinite(kl))
    items.push_back(same(7, 16, "reference KL " + small_figure(kl)));
  if (const uint64_t failures = env_failures_of(s)) items.push_back(counted(1, 4, s.words->failures, failures));
  if (s.ledger.lost_in_crash > 0) items.push_back(counted(1, 11, "lost", s.ledger.lost_in_crash));
  if (without_score(s) > 0) items.push_back(counted(1, 11, "no score", without_score(s)));
  if (const std::string what = find_bottleneck(s).what; !what.empty())
    items.push_back(same(0, 8, "bottleneck: " + what));
  if (s.training_ended) items.push_back(same(0, 8, "training has ended"));
  if (s.evaluating)
    items.push_back(
        {0, 8, evaluating_text(*s.evaluating, format_short), evaluating_text(*s.evaluating, format_compact)});
  if (!s.alarms.empty())
    items.push_back(names ? same(1, 3, "alarms: " + alarm_names(s)) : counted(1, 3, "alarms", s.alarms.size()));
  items.push_back(counted(0, 12, "workers", s.workers_up));
  if (s.ranks_total > 1) items.push_back(same(s.ranks_up < s.ranks_total ? 1 : 7, 12, "ranks " + ranks_text(s)));
  if (!s.training_ended) items.push_back(same(4, 14, "ETA " + text_at(s, "eta_seconds")));
  items.push_back({0, 13, lag + format_figure(s.lag_p95, 0) + cap + text_at(s, "lag.cap"),
                   lag + compact_lag(s.lag_p95) + cap + format_compact(s.lag_cap)});
  if (s.ledger.filtered > 0) items.push_back(counted(1, 11, "filtered", s.ledger.filtered));
  items.push_back(counted(0, 11, "dropped", s.ledger.dropped_stale + s.ledger.dropped_full));
  return items;
}

std::string joined(const std::vector<LineItem>& items, bool compact, int highest_rank) {
  std::string line;
  for (const LineItem& item : items)
    if (item.rank <= highest_rank)
      line += (line.empty() ? "" : item.close ? " " : "  ") + (compact ? item.compact : item.full);
  return line;
}

// The most important items that fit into fewer than `columns` columns, in the usual order.
std::string narrow_line(std::vector<LineItem> items, size_t columns) {
  std::vector<LineItem*> by_importance;
  for (LineItem& item : items) by_importance.push_back(&item);
  std::ranges::stable_sort(by_importance, {}, &LineItem::narrow);
  size_t used = 0;
  for (LineItem* item : by_importance) {
    const size_t needed = item->compact.size() + (used > 0 ? 2 : 0);
    if (item->narrow > 0 && used + needed < columns)
      used += needed;
    else
      item->narrow = 0;
  }
  std::erase_if(items, [](const LineItem& item) { return item.narrow == 0; });
  return joined(items, /*compact=*/true, INT_MAX);
}

}  // namespace

std::vector<ConsoleLine> console_lines(const std::string& run, const StatsSnapshot& s, size_t width) {
  using enum ConsolePart;
  std::vector<ConsoleLine> lines = {
      {head, 0, head_line(run, s, width)},
      {samples, 1, steps_line(s)},
      {flow, 4, workers_line(s)},
      {flow, 5, failures_line(s)},
      {flow, 5, unscored_line(s)},
      {flow, 5, filtered_line(s)},
      {flow, 7, late_line(s)},
      {flow, 11, inference_line(s)},
      {flow, 12, batches_line(s)},
      {flow, 3, training_line(s)},
      {flow, s.ranks_up < s.ranks_total ? 3 : 8, ranks_line(s)},
      {flow, 6, lag_line(s)},
      {flow, 8, weights_line(s)},
      {result, 2, return_line(s)},
      {learning, 9, learning_line(s)},
      {result, 7, evaluation_line(s)},
      {result, 2, failed_evaluation_line(s)},
      {result, 2, evaluating_line(s)},
      {alarms, 1, alarms_line(s)},
      {verdict, 1, bottleneck_line(s)},
      {verdict, 10, advice_line(s)},
  };
  std::erase_if(lines, [](const ConsoleLine& line) { return line.text.empty() && line.rank > 0; });
  return lines;
}

std::vector<std::string> console_block(const std::string& run, const StatsSnapshot& s, size_t width, size_t height) {
  std::vector<ConsoleLine> lines = console_lines(run, s, width);
  while (lines.size() > std::max<size_t>(height, 1))
    lines.erase(std::ranges::max_element(lines, {}, &ConsoleLine::rank));
  std::vector<std::string> result;
  for (const ConsoleLine& line : lines) result.push_back(fitted(line.text, width));
  return result;
}

std::string console_redraw(const std::vector<std::string>& lines, size_t lines_before) {
  std::string out = lines_before > 0 ? "\x1b[" + std::to_string(lines_before) + "A" : "";
  for (const std::string& line : lines) out += "\r\x1b[2K" + line + '\n';
  // Clears what is left of a longer old block.
  return out + "\x1b[J";
}

std::string console_line(const StatsSnapshot& s, size_t columns) {
  const std::vector<LineItem> items = line_items(s, /*names=*/columns > kLineColumns);
  if (columns > kLineColumns) return joined(items, /*compact=*/false, INT_MAX);
  if (columns < kLineColumns) return narrow_line(items, columns);
  constexpr int kHighestRank = 7, kFailures = 1;
  std::string line = joined(items, /*compact=*/false, kHighestRank);
  // Numbers are abbreviated only if failures would be left out otherwise, so that most lines of a run look alike.
  for (int rank = kHighestRank; line.size() >= kLineColumns && rank >= kFailures; --rank)
    line = joined(items, /*compact=*/false, rank);
  for (int rank = kHighestRank; line.size() >= kLineColumns && rank >= 0; --rank)
    line = joined(items, /*compact=*/true, rank);
  return line.size() < kLineColumns ? line : narrow_line(items, kLineColumns);
}

}  // namespace troupe
