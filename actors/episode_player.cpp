#include "actors/episode_player.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"

namespace troupe {

EnvironmentFailed::EnvironmentFailed(uint64_t failures, const std::string& last_error)
    : std::runtime_error("the environment failed " + std::to_string(failures) + " times, the last time with: " +
                         (last_error.empty() ? "no message" : printable(last_error, 300))) {}

Array LikelyActions::next(Policy& policy, const EnvSpec& spec, const EnvStep& step) {
  if (std::exchange(begun_, true)) recurrent_.note_step(step);
  const int64_t rows = step.rewards.dim(0);
  ActInput input;
  input.observations = step.observations;
  if (spec.action.masked) input.action_mask = step.action_mask;
  input.seeds = Array(DType::i64, {rows});
  input.deterministic = Array(DType::u8, {rows});
  std::ranges::fill(input.deterministic.mutable_view<uint8_t>(), uint8_t{1});
  input.state = recurrent_.state();
  input.starts = recurrent_.starts();
  const ActOutput output = policy.act(input);
  if (!recurrent_.empty()) recurrent_.take(output.state);
  return output.actions;
}

EpisodePlayer::EpisodePlayer(std::unique_ptr<Env> env, uint64_t seed, int64_t episodes, int64_t state_size)
    : env_(std::move(env)), actions_(state_size, env_->rows()), episodes_(static_cast<size_t>(episodes)) {
  const int64_t rows = env_->rows();
  TROUPE_CHECK(rows >= 1 && episodes >= 1, rows, episodes);
  step_ = EnvStep::allocate(env_->spec(), rows);
  env_->reset(seed, 0, step_);
  share_.assign(static_cast<size_t>(rows), episodes / rows);
  for (int64_t n = 0; n < episodes % rows; ++n) ++share_[static_cast<size_t>(n)];
  done_.assign(static_cast<size_t>(rows), 0);
  row_return_.assign(static_cast<size_t>(rows), 0);
  row_length_.assign(static_cast<size_t>(rows), 0);
}

void EpisodePlayer::step(Policy& policy) {
  env_->step(actions_.next(policy, env_->spec(), step_), step_);
  for (size_t row = 0; row < share_.size(); ++row)
    if (done_[row] < share_[row]) note_row(row);
  if (!step_.errors.empty()) last_error_ = step_.errors.back();
  if (failures_ > kMaxPlayFailures) throw EnvironmentFailed(failures_, last_error_);
}

void EpisodePlayer::note_row(size_t row) {
  const bool failed = step_.failed.view<uint8_t>()[row] != 0;
  const bool over = step_.terminated.view<uint8_t>()[row] != 0 || step_.truncated.view<uint8_t>()[row] != 0;
  failures_ += step_.failed.view<uint8_t>()[row] == static_cast<uint8_t>(Failed::now);
  row_return_[row] += failed ? 0 : step_.rewards.view<float>()[row];
  row_length_[row] += step_.executed.view<int32_t>()[row];
  if (over && !failed) {
    ++done_[row];
    failures_ = 0;
    returns_.push_back(row_return_[row]);
    steps_ += row_length_[row];
    successes_ += step_.success.view<uint8_t>()[row];
  }
  if (over || failed) {
    row_return_[row] = 0;
    row_length_[row] = 0;
  }
}

EpisodeSummary EpisodePlayer::summary() const {
  EpisodeSummary result;
  result.episodes = returns_.size();
  if (returns_.empty()) return result;
  const auto count = static_cast<double>(returns_.size());
  result.return_mean = std::accumulate(returns_.begin(), returns_.end(), 0.0) / count;
  double squares = 0;
  for (double x : returns_) squares += (x - result.return_mean) * (x - result.return_mean);
  result.return_std = std::sqrt(squares / count);
  const auto [least, most] = std::ranges::minmax(returns_);
  result.return_min = least;
  result.return_max = most;
  result.length_mean = static_cast<double>(steps_) / count;
  if (env_->spec().reports_success) result.success_rate = static_cast<double>(successes_) / count;
  return result;
}

}  // namespace troupe
