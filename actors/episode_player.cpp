#include "actors/episode_player.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"

namespace troupe {

namespace {

constexpr int kMostAlone = 30;  // times that an episode is played alone
constexpr int kMostSame = 3;    // times in a row that it may fail after the same number of steps then

}  // namespace

EnvironmentFailed::EnvironmentFailed(uint64_t failures, const std::string& last_error)
    : std::runtime_error("the environment failed " + std::to_string(failures) + " times, the last time with: " +
                         (last_error.empty() ? "no message" : printable(last_error, 300))) {}

std::string failed_episodes_text(uint64_t failed, uint64_t ended, const std::string& last_error) {
  return format_count(failed) + " of " + format_counted(ended, "episode") +
         " failed, also when played again, because the environment failed. The return leaves them out, so it may be "
         "too "
         "good; they count as no successes. The last error: " +
         printable(last_error, 300);
}

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

EpisodePlayer::EpisodePlayer(std::unique_ptr<Env> env, uint64_t seed, int64_t episodes, int64_t state_size,
                             int64_t rows_per_world)
    : env_(std::move(env)),
      seed_(seed),
      episodes_(static_cast<size_t>(episodes)),
      rows_per_world_(static_cast<size_t>(rows_per_world)),
      state_size_(state_size),
      actions_(state_size, env_->rows()),
      rows_(static_cast<size_t>(env_->rows())) {
  TROUPE_CHECK(env_->rows() >= 1 && episodes >= 1 && rows_per_world >= 1, env_->rows(), episodes, rows_per_world);
  step_ = EnvStep::allocate(env_->spec(), env_->rows());
  begin_next();
}

void EpisodePlayer::step(Policy& policy) {
  if (playing_ == 0) return go_on();  // no episode of the batch has begun
  env_->step(actions_.next(policy, env_->spec(), step_), step_);
  for (const size_t row : batch_.rows) note_row(row);
  go_on();
}

// If no episode is under way, begins others unless all have ended. Only once: it may take as long as the environment's
// limit of time, and the caller looks at other things in between.
void EpisodePlayer::go_on() {
  if (playing_ > 0) return;
  play_again();
  const uint64_t most = std::max<uint64_t>(kMaxPlayFailures, 4 * rows_.size());
  if (returns_.empty() && (complete() || all_failures_ > most)) throw EnvironmentFailed(all_failures_, last_error_);
  if (!complete()) begin_next();
}

void EpisodePlayer::begin_next() {
  if (!again_.empty()) {
    Batch next = std::move(again_.front());
    again_.pop_front();
    return begin(std::move(next));
  }
  Batch next{begun_, std::vector<size_t>(std::min<size_t>(rows_.size(), episodes_ - begun_))};
  std::iota(next.rows.begin(), next.rows.end(), size_t{0});
  begun_ += next.rows.size();
  begin(std::move(next));
}

void EpisodePlayer::begin(Batch batch) {
  batch_ = std::move(batch);
  env_->reset(seed_, batch_.first, step_);
  actions_ = LikelyActions(state_size_, env_->rows());
  playing_ = batch_.rows.size();
  rows_.assign(rows_.size(), {});
  for (const size_t row : batch_.rows) rows_[row].plays = true;
  for (size_t row = 0; row < rows_.size(); ++row) leave_world(row);
  for (const size_t row : batch_.rows) note_row(row);
}

void EpisodePlayer::note_row(size_t row) {
  Row& each = rows_[row];
  if (!each.plays) return;
  const auto failed = static_cast<Failed>(step_.failed.view<uint8_t>()[row]);
  const bool over = step_.terminated.view<uint8_t>()[row] != 0 || step_.truncated.view<uint8_t>()[row] != 0;
  if (failed == Failed::no) {
    each.reward += step_.rewards.view<float>()[row];
    each.length += step_.executed.view<int32_t>()[row];
  }
  if (failed == Failed::now) {
    ++all_failures_;
    failures_.push_back(row);
    if (!step_.errors.empty()) last_error_ = step_.errors.front();  // rows that failed because of others come last
  } else if (failed == Failed::no && over) {
    returns_.push_back(each.reward);
    steps_ += each.length;
    successes_ += step_.success.view<uint8_t>()[row];
  } else {
    return;
  }
  each.plays = false;
  --playing_;
  leave_world(row);
}

// The rows of a world are stepped until the last of them has ended its episode.
void EpisodePlayer::leave_world(size_t row) {
  const size_t first = row / rows_per_world_ * rows_per_world_, end = std::min(first + rows_per_world_, rows_.size());
  for (size_t other = first; other < end; ++other)
    if (rows_[other].plays) return;
  for (size_t other = first; other < end; ++other) env_->set_active(static_cast<int64_t>(other), false);
}

size_t EpisodePlayer::worlds_of(const std::vector<size_t>& rows) const {
  size_t worlds = 0;
  for (size_t i = 0; i < rows.size(); ++i)
    worlds += i == 0 || rows[i] / rows_per_world_ != rows[i - 1] / rows_per_world_;
  return worlds;
}

// Lets the episodes of the batch that have failed be played again from their beginning, a quarter as many at a time: an
// episode that ends the process which others share is alone at last, and the others end without it.
void EpisodePlayer::play_again() {
  std::ranges::sort(failures_);
  const size_t worlds = worlds_of(batch_.rows), most = std::max<size_t>(worlds / 4, 1);
  Batch part{batch_.first, {}};
  const auto close = [&] {
    if (!part.rows.empty()) again_.push_back(std::exchange(part, {batch_.first, {}}));
  };
  for (const size_t row : std::exchange(failures_, {})) {
    if (worlds == 1 && fails_for_good(row)) {
      ++failed_;
      continue;
    }
    part.rows.push_back(row);
    if (worlds_of(part.rows) <= most) continue;
    part.rows.pop_back();
    close();
    part.rows.push_back(row);
  }
  close();
}

// The episode of a row was played alone and has failed. One that fails after the same number of steps each time would
// fail for ever.
bool EpisodePlayer::fails_for_good(size_t row) {
  Alone& before = alone_[batch_.first + row];
  const int64_t length = rows_[row].length;
  before.same = std::exchange(before.length, length) == length ? before.same + 1 : 1;
  return ++before.times == kMostAlone || before.same == kMostSame;
}

EpisodeSummary EpisodePlayer::summary() const {
  EpisodeSummary result;
  result.episodes = returns_.size();
  result.failed = failed_;
  result.played = result.episodes + all_failures_;
  result.last_error = last_error_;
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
  if (env_->spec().reports_success)
    result.success_rate = static_cast<double>(successes_) / static_cast<double>(result.ended());
  return result;
}

}  // namespace troupe
