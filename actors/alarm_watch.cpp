#include "actors/alarm_watch.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/base/text_format.h"

namespace troupe {

namespace {

constexpr size_t kWindow = 200, kLeastUpdates = 20;  // with which the figures of an update are compared
// In which values are not expected to be good: while the policy improves fast, they are behind it.
constexpr uint64_t kFirstUpdates = 30, kFirstUpdatesOfMany = 200;
constexpr double kFirstPart = 0.25;
constexpr uint32_t kMostDoublings = 20;
constexpr double kLeastOff = 0.05;  // of the returns: values of a solved task are off by tiny amounts
constexpr double kErrors = 10;      // standard errors of a mean return that are no chance
constexpr std::chrono::seconds kMinute{60};
constexpr size_t kMinutes = 10;
constexpr double kLeastGrowth = 100e6;
constexpr int64_t kEnoughGroups = 64, kFewestUpdates = 5;  // in a row without a signal

double figure(const std::map<std::string, double>& metrics, const std::string& name) {
  const auto found = metrics.find(name);
  return found == metrics.end() ? kUnknown : found->second;
}

// kUnknown for fewer values than kLeastUpdates.
double median(const std::vector<WireDouble>& values) {
  if (values.size() < kLeastUpdates) return kUnknown;
  std::vector<double> sorted(values.begin(), values.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::ranges::nth_element(sorted, middle);
  return *middle;
}

void remember(double value, std::vector<WireDouble>& values) {
  if (!std::isfinite(value)) return;
  values.push_back(value);
  if (values.size() > kWindow) values.erase(values.begin());
}

// Many groups of answers that are all alike are no chance, so that few updates are enough. Where it is not known how
// many answers are right, all may be, and the alarm waits as in other runs.
uint32_t no_signal_hold(int64_t compared_groups, bool success_known) {
  if (compared_groups == 0 || !success_known) return 0;
  const auto most = int64_t{alarm_rule("no_signal").hold};
  return static_cast<uint32_t>(
      std::clamp((kEnoughGroups + compared_groups - 1) / compared_groups, kFewestUpdates, most));
}

std::string says(const std::string& name, double value) { return name + " is " + format_figure(value, 4); }

}  // namespace

std::string AlarmWatch::advice(const AlarmRule& rule, uint64_t update) const {
  const uint64_t since = update - std::min<uint64_t>(update, rule.hold - 1);  // the first update of those that count
  std::string begin;
  if (rule.checkpoint == AdvisedCheckpoint::earlier)
    begin = facts_.first_checkpoint < since ? "begin again from a checkpoint of before update " + std::to_string(since)
                                            : "begin a new run, since no checkpoint is from before";
  if (rule.checkpoint == AdvisedCheckpoint::best && !facts_.keeps_best)
    begin = "begin a new run (checkpoint.keep_best would have kept the best checkpoint)";
  return advice_of(rule, facts_.token_run, begin);
}

// A condition on a figure that is unknown does not hold.
void AlarmWatch::check(std::string_view name, bool holds, uint64_t update, const std::string& measured, uint32_t hold) {
  const AlarmRule& rule = alarm_rule(name);
  if (hold == 0) hold = rule.hold;
  Streak& streak = streaks_[std::string(name)];
  streak.holds = holds ? streak.holds + 1 : 0;
  streak.clear = holds ? 0 : streak.clear + 1;
  const auto alarm_now = raised_.find(std::string(name));
  if (alarm_now == raised_.end()) {
    if (streak.holds < hold) return;
    const Alarm alarm{rule.level, update, measured + ": " + advice(rule, update)};
    lines_.push_back({true, "alarm " + std::string(name) + " (" + std::string(text_of(rule.level)) + ") at update " +
                                std::to_string(update) + ": " + alarm.text});
    raised_.emplace(name, alarm);
    new_.push_back({std::string(name), alarm});
    if (rule.level == AlarmLevel::error && new_error_.empty()) new_error_ = name;
    ++streak.times_raised;
  } else if (streak.clear >= uint64_t{std::max(hold, kLeastClear)}
                                 << std::min(streak.times_raised - 1, kMostDoublings)) {
    lines_.push_back({false, "alarm " + std::string(name) + " is over at update " + std::to_string(update)});
    raised_.erase(alarm_now);
  }
}

void AlarmWatch::check_policy(const Update& u) {
  const double kl = figure(u.metrics, "kl"), entropy = figure(u.metrics, "entropy");
  const double log_std = figure(u.metrics, "log_std");
  const double median_kl = median(kl_), usual = std::isfinite(median_kl) ? median_kl : 0;
  check("kl_high", kl > std::max(0.1, 5 * usual), u.number, says("learner.kl", kl));
  check("kl_extreme", kl > std::max(1.0, 20 * usual), u.number, says("learner.kl", kl));
  remember(kl, kl_);

  const bool discrete = std::isfinite(entropy) && !std::isfinite(log_std);
  if (discrete && !(most_entropy_ >= entropy)) most_entropy_ = entropy;
  const bool known = std::isfinite(facts_.most_entropy);
  const double most = known ? facts_.most_entropy : static_cast<double>(most_entropy_);
  const std::string from = " of " + format_figure(most, 4) + (known ? " that are possible" : " at most so far");
  // The policy may have collapsed in the first update, so that the largest value so far is small too.
  const double dead = known ? 1e-3 * most : std::max(1e-3 * most, 1e-3);
  // It is not over because the first half of the run is.
  const bool counts = u.progress < 0.5 || raised_.contains("entropy_low");
  check("entropy_low", discrete && entropy < 0.02 * most && counts, u.number, says("learner.entropy", entropy) + from);
  check("entropy_dead", discrete && entropy < dead, u.number, says("learner.entropy", entropy) + from);
  check("noise_low", log_std < -4, u.number, says("learner.log_std", log_std));
  check("noise_high", log_std > 1.5, u.number, says("learner.log_std", log_std));
}

void AlarmWatch::check_values(const Update& u) {
  const double explained = figure(u.metrics, "explained_variance");
  const double mean = figure(u.metrics, "return_mean"), std = figure(u.metrics, "return_std");
  const bool early = u.number <= kFirstUpdates ||
                     (std::isfinite(u.progress) ? u.progress < kFirstPart : u.number <= kFirstUpdatesOfMany);
  check("value_useless", facts_.uses_values && explained <= 0 && !early && std > 0.02 * std::abs(mean), u.number,
        says("learner.explained_variance", explained));

  // Values that are behind a policy that improves give advantages above 0, but not suddenly.
  const double off = figure(u.metrics, "advantage_mean"), spread = figure(u.metrics, "advantage_std");
  const double usual = median(advantages_), matters = kLeastOff * std::max(std::abs(mean), std);
  const bool is_off = std::abs(off) > 2 * std::max(usual, spread) && std::abs(off) > matters;
  check("values_off", facts_.uses_values && is_off, u.number,
        says("learner.advantage_mean", off) + ", the advantages are usually about " + format_figure(usual, 4));
  remember(std::hypot(off, spread), advantages_);
}

void AlarmWatch::check_returns(const Update& u) {
  if (std::isfinite(u.return_mean)) {
    if (!std::isfinite(first_return_)) first_return_ = u.return_mean;
    if (!(best_return_ >= u.return_mean)) {
      best_return_ = u.return_mean;
      best_std_ = u.return_std;
    }
  }
  const double gain = best_return_ - first_return_, lost = best_return_ - u.newest_return_mean;
  // Rare rewards make some windows better than others by chance, and the present one may have none.
  const double chance = kErrors * best_std_ / std::sqrt(static_cast<double>(facts_.window));
  const bool gained = gain > 0 && gain > 2 * u.return_std && gain > chance;
  const std::string measured = "the newest episodes return " + format_figure(u.newest_return_mean, 3) +
                               ", the best window returned " + format_figure(best_return_, 3);
  check("return_drop", gained && lost > 0.5 * gain, u.number, measured);
  check("return_collapse", gained && lost > 0.75 * gain, u.number, measured);
}

void AlarmWatch::add(const Update& u) {
  const std::string skipped = "an update skipped optimizer steps";
  check("steps_skipped", u.skipped_steps, u.number, skipped);
  check("non_finite", u.skipped_steps, u.number, skipped);
  check_policy(u);
  const auto above = [&](std::string_view name, const std::string& metric, double limit) {
    check(name, figure(u.metrics, metric) > limit, u.number, says("learner." + metric, figure(u.metrics, metric)));
  };
  above("clip_high", "clip_fraction", 0.5);
  above("dead_gradients", "dead_gradient_fraction", 0.5);
  const double ess = figure(u.metrics, "ess");
  check("ess_low", ess < 0.2, u.number, says("learner.ess", ess));
  check_values(u);
  // Where everything succeeds there is nothing left to learn.
  const bool solved = u.success_rate > 0.95;
  const bool no_token = figure(u.metrics, "masked_fraction") == 1;  // there are no advantages then
  check("no_signal", (no_token || figure(u.metrics, "advantage_std") == 0) && !solved, u.number,
        std::string(no_token ? "no token has a loss" : "all advantages are 0") + ", so that the policy learns nothing",
        no_signal_hold(facts_.compared_groups, std::isfinite(u.success_rate)));
  check_returns(u);
}

void AlarmWatch::check_drops(const StatsSnapshot& s, Clock::time_point now) {
  const Point newest{now, s.ledger.produced, s.ledger.dropped_stale + s.ledger.dropped_full, s.ledger.verifier_failed};
  samples_.push_back(newest);
  while (samples_.size() > 2 && now - samples_[1].at >= kMinute) samples_.pop_front();
  const uint64_t produced = newest.produced - samples_.front().produced;
  const auto share_of = [&](uint64_t Point::* count) {
    const uint64_t grown = newest.*count - std::min(newest.*count, samples_.front().*count);
    return produced == 0 ? 0 : static_cast<double>(grown) / static_cast<double>(produced);
  };
  const double dropped = share_of(&Point::dropped), failed = share_of(&Point::verifier_failed);
  check("samples_dropped", dropped > 0.05, s.updates, format_percent(dropped) + " of the samples were dropped");
  check("verifier_fails", failed > 0.05, s.updates,
        format_percent(failed) + " of the answers got no score because the verifier " +
            (s.verifier && s.verifier->failed_replies > 0 ? "or the reply to them failed" : "failed"));
}

// One alarm for all kinds of processes: the text names the one that has grown.
void AlarmWatch::check_memory(const StatsSnapshot& s, Clock::time_point now) {
  if (s.rss_bytes == 0 || (!memory_.empty() && now - memory_.back().first < kMinute)) return;
  memory_.emplace_back(now, Memory{s.rss_bytes, s.worker_bytes, s.environment_bytes, s.verifier_bytes});
  if (memory_.size() > kMinutes + 1) memory_.pop_front();
  constexpr const char* kWhose[] = {"the trainer's process", "the workers' processes", "the environments' processes",
                                    "the verifiers' processes"};
  std::string text;
  for (size_t kind = 0; kind < std::size(kWhose) && text.empty(); ++kind) {
    const uint64_t first = memory_.front().second[kind], last = memory_.back().second[kind];
    const auto shrinks = [&](const auto& a, const auto& b) { return a.second[kind] >= b.second[kind]; };
    if (memory_.size() > kMinutes && std::ranges::adjacent_find(memory_, shrinks) == memory_.end() && first > 0 &&
        static_cast<double>(last - first) > std::max(kLeastGrowth, 0.1 * static_cast<double>(first)))
      text = std::string("the memory of ") + kWhose[kind] + " grew from " + format_bytes(first) + " to " +
             format_bytes(last);
  }
  check("memory_grows", !text.empty(), s.updates, text);
}

// Compares with the best of the last minutes only: a run may become slower for good, as when its episodes grow longer.
void AlarmWatch::check_rate(const StatsSnapshot& s, Clock::time_point now) {
  const double rate = s.words->tokens ? s.answer_tokens_per_second : s.env_steps_per_second_60s;
  if (s.workers_up != workers_) best_rates_.clear();
  workers_ = s.workers_up;
  while (!best_rates_.empty() && now - best_rates_.front().first > kMinutes * kMinute) best_rates_.pop_front();
  if (!rates_since_) rates_since_ = now;
  if (std::isfinite(rate) && now - *rates_since_ > kMinute) {  // rates of a shorter time may be far too high
    if (best_rates_.empty() || now - best_rates_.back().first >= kMinute) best_rates_.emplace_back(now, rate);
    best_rates_.back().second = std::max(best_rates_.back().second, rate);
  }
  double best = 0;
  for (const auto& [at, each] : best_rates_) best = std::max(best, each);
  check("slower", rate < 0.7 * best, s.updates,
        format_figure(rate, 0) + (s.words->tokens ? " tokens" : " environment steps") + " per second, " +
            format_figure(best, 0) + " before");
}

void AlarmWatch::look(const StatsSnapshot& s, const std::vector<std::string>& behind, Clock::time_point now) {
  check("receiver_behind", !behind.empty(), s.updates, behind.empty() ? "" : behind.front());
  check("rows_quarantined", s.quarantined > 0, s.updates,
        format_counted(s.quarantined, "row") + (s.quarantined == 1 ? " is" : " are") + " in quarantine");
  if (!std::isfinite(s.elapsed_seconds)) return;
  check_drops(s, now);
  check_memory(s, now);
  const bool samples = !facts_.token_run && s.elapsed_seconds > 120 && s.env_steps > 100'000;
  check("no_episode", samples && s.episodes == 0, s.updates,
        "no episode has finished in " + format_counted(s.env_steps, "environment step"));
  check_rate(s, now);
}

void AlarmWatch::look_at_files(const std::vector<std::string>& refusals, uint64_t update) {
  std::string text = refusals.empty() ? "" : refusals.front();
  if (refusals.size() > 1) text += " (and " + format_counted(refusals.size() - 1, "other file") + ")";
  check("disk_fails", !refusals.empty(), update, text);
}

}  // namespace troupe
