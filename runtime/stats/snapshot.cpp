#include "runtime/stats/snapshot.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace troupe {

namespace {

// nlohmann writes NaN and infinities as null.
using nlohmann::ordered_json;

ordered_json json_of(const EvaluationResult& result) {
  return {{"updates", result.updates},         {"episodes", result.episodes},
          {"return_mean", result.return_mean}, {"return_std", result.return_std},
          {"length_mean", result.length_mean}, {"success_rate", result.success_rate}};
}

ordered_json json_of(const Ledger& ledger) {
  return {{"produced", ledger.produced},
          {"trained", ledger.trained},
          {"dropped_stale", ledger.dropped_stale},
          {"dropped_full", ledger.dropped_full},
          {"lost_in_crash", ledger.lost_in_crash},
          {"left_over", ledger.left_over},
          {"waiting", ledger.waiting}};
}

ordered_json json_of(const StatsSnapshot& s) {
  return {
      {"elapsed_seconds", s.elapsed_seconds},
      {"progress", s.progress},
      {"eta_seconds", s.eta_seconds},
      {"env_steps", s.env_steps},
      {"env_steps_per_second", s.env_steps_per_second},
      {"env_steps_per_second_60s", s.env_steps_per_second_60s},
      {"updates", s.updates},
      {"seconds_to_first_update", s.seconds_to_first_update},
      {"updates_per_second", s.updates_per_second},
      {"reuse", s.reuse},
      {"trainer_wait_fraction", s.trainer_wait_fraction},
      {"lag", {{"p50", s.lag_p50}, {"p95", s.lag_p95}, {"max", s.lag_max}, {"bound", s.lag_bound}}},
      {"ledger", json_of(s.ledger)},
      {"uncounted_at_most", s.uncounted_at_most},
      {"batch",
       {{"size_p50", s.batch_size_p50},
        {"full", s.batches_full},
        {"timeout", s.batches_timeout},
        {"all_waiting", s.batches_all_waiting},
        {"failed", s.batches_failed}}},
      {"inference", {{"up", s.inference_up}, {"p50_ms", s.inference_p50_ms}, {"p99_ms", s.inference_p99_ms}}},
      {"episodes",
       {{"count", s.episodes},
        {"return_mean", s.return_mean},
        {"return_std", s.return_std},
        {"length_mean", s.length_mean},
        {"success_rate", s.success_rate}}},
      {"learner", s.learner},
      {"training_ended", s.training_ended},
      {"workers", {{"up", s.workers_up}, {"total", s.workers_total}}},
      {"rows_served", s.rows_served},
      {"weights_behind", s.weights_behind},
      {"env_failures", s.env_failures},
      {"request_retries", s.request_retries},
      {"quarantined", s.quarantined},
      {"skipped_steps", s.skipped_steps},
      {"last_error", s.last_error},
      {"rss_bytes", s.rss_bytes > 0 ? ordered_json(s.rss_bytes) : ordered_json()},
      {"eval", s.evaluation ? json_of(*s.evaluation) : ordered_json()},
  };
}

// Names of receivers and environments may come from other machines and be no UTF-8.
std::string dump(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

void collect(const std::string& path, const ordered_json& value, std::map<std::string, double>& scalars) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) collect(path.empty() ? key : path + '/' + key, inner, scalars);
  } else if (value.is_number() && std::isfinite(value.get<double>())) {
    scalars[path] = value.get<double>();
  }
}

}  // namespace

void forget_times(StatsSnapshot& s) {
  for (double* time : {&s.elapsed_seconds, &s.eta_seconds, &s.env_steps_per_second, &s.env_steps_per_second_60s,
                       &s.seconds_to_first_update, &s.updates_per_second, &s.trainer_wait_fraction, &s.inference_p50_ms,
                       &s.inference_p99_ms})
    *time = kUnknown;
  s.rss_bytes = 0;
}

std::string to_json(const StatsSnapshot& snapshot) { return dump(json_of(snapshot)); }
std::string to_json(const EvaluationResult& result) { return dump(json_of(result)); }
std::string to_json(const Ledger& ledger) { return dump(json_of(ledger)); }

std::map<std::string, double> scalars_of(const StatsSnapshot& snapshot) {
  std::map<std::string, double> scalars;
  collect("", json_of(snapshot), scalars);
  return scalars;
}

std::map<std::string, double> scalars_of(const std::string& json) {
  std::map<std::string, double> scalars;
  collect("", ordered_json::parse(json), scalars);
  return scalars;
}

}  // namespace troupe
