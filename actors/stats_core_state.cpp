// What StatsCore keeps over a restart of the run.

#include "actors/experience/common/state_bytes.h"
#include "actors/stats_core.h"

namespace troupe {

std::string StatsCore::save(Clock::time_point now) const {
  return to_bytes(now_.env_steps, now_.updates, WireDouble(now_.reuse), now_.ledger, now_.uncounted_at_most,
                  now_.episodes, now_.workers_up, now_.workers_total, now_.skipped_steps, workers_.last_error(),
                  now_.evaluation ? to_json(*now_.evaluation) : std::string(), points_, point_env_steps_,
                  point_figures_, view_figures_, episodes_.save(), std::vector<LagCounts>(lags_.begin(), lags_.end()),
                  batches_.save(), workers_.save(now), receivers_.save(), scorers_.save(), published_, reported_,
                  alarms_, evaluated_, last_evaluated_, tokens_, answers_, times_.save());
}

void StatsCore::load(const std::string& bytes, Clock::time_point now) {
  WireDouble reuse;
  std::string evaluation, episodes;
  std::vector<LagCounts> lags;
  std::vector<int32_t> batch_rows;
  WorkerTable::Saved workers;
  ReceiverTable::Saved receivers;
  ScorerTable::Saved scorers;
  std::string last_error, times;
  from_bytes(bytes, "stats", now_.env_steps, now_.updates, reuse, now_.ledger, now_.uncounted_at_most, now_.episodes,
             now_.workers_up, now_.workers_total, now_.skipped_steps, last_error, evaluation, points_, point_env_steps_,
             point_figures_, view_figures_, episodes, lags, batch_rows, workers, receivers, scorers, published_,
             reported_, alarms_, evaluated_, last_evaluated_, tokens_, answers_, times);
  times_.load(times);
  note(TokenFigures(tokens_));
  episodes_.load(episodes);
  now_.reuse = reuse;
  if (!evaluation.empty()) now_.evaluation = evaluation_result_of(evaluation);
  lags_.assign(lags.begin(), lags.end());
  batches_.load(batch_rows);
  workers_.load(workers, last_error, now);
  receivers_.load(receivers);
  scorers_.load(scorers);
}

}  // namespace troupe
