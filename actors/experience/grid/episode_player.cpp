#include "actors/experience/grid/episode_player.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <ranges>
#include <utility>

#include "actors/experience/grid/environment_calls.h"
#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"

namespace troupe {

namespace {

constexpr int kMostAlone = 30;  // times that an episode is played alone
constexpr int kMostSame = 3;    // times in a row that it may fail after the same number of steps then

}  // namespace

std::string environment_failed_text(uint64_t failures, const std::string& last_error) {
  const std::string error = last_error.empty() ? "no message" : printable(last_error, 300);
  if (failures == 1) return "the environment failed once, with: " + error;
  return "the environment failed " + std::to_string(failures) + " times, the last time with: " + error;
}

EnvironmentFailed::EnvironmentFailed(uint64_t failures, const std::string& last_error)
    : std::runtime_error(environment_failed_text(failures, last_error)) {}

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
      episodes_(static_cast<uint64_t>(episodes)),
      rows_per_world_(static_cast<uint64_t>(rows_per_world)),
      state_size_(state_size),
      actions_(state_size, env_->rows()),
      singly_(env_->play_singly(seed)),
      rows_(static_cast<size_t>(env_->rows())) {
  TROUPE_CHECK(env_->rows() >= 1 && episodes >= 1 && rows_per_world >= 1 && env_->rows() % rows_per_world == 0,
               env_->rows(), episodes, rows_per_world);
  step_ = EnvStep::allocate(env_->spec(), env_->rows());
  most_worlds_ = std::min(worlds(), (episodes_ + rows_per_world_ - 1) / rows_per_world_);
}

// Only one reset of all rows in a call: it may take as long as the environment's limit of time, and the caller looks at
// other things in between.
void EpisodePlayer::step(Policy& policy) {
  if (!singly_ && playing_ == 0) {
    begin_all();
    return end_step();
  }
  if (singly_) begin_worlds();
  const bool acts = std::ranges::any_of(rows_, &Row::observes);
  const ActionSpec& action = env_->spec().action;
  Array actions =
      acts ? actions_.next(policy, env_->spec(), step_) : Array(action.dtype(), action.shape().prepended(env_->rows()));
  repeat_actions(actions);
  {
    EnvironmentCall call;
    env_->step(actions, step_);
    call.note(step_);
  }
  for (size_t row = 0; row < rows_.size(); ++row) note_row(row);
  end_step();
}

bool EpisodePlayer::plays(uint64_t world) const {
  const auto first = rows_.begin() + static_cast<std::ptrdiff_t>(world * rows_per_world_);
  return std::any_of(first, first + static_cast<std::ptrdiff_t>(rows_per_world_),
                     [](const Row& row) { return row.plays; });
}

// The world plays the next episodes, of which those of a world begin together: numbers k * R to k * R + R - 1, for R
// rows of a world. Some may have ended before.
void EpisodePlayer::take_world(uint64_t world) {
  const uint64_t first = next() / rows_per_world_ * rows_per_world_;
  for (uint64_t n = 0; n < rows_per_world_; ++n)
    rows_[world * rows_per_world_ + n] = {.observes = true, .episode = first + n};
  while (has_next() && next() < first + rows_per_world_) {
    rows_[world * rows_per_world_ + next() - first].plays = true;
    ++playing_;
    if (begun_ < episodes_)
      ++begun_;
    else
      again_.pop_front();
  }
  ++playing_worlds_;
}

void EpisodePlayer::begin_worlds() {
  for (uint64_t world = 0; world < worlds() && has_next() && playing_worlds_ < most_worlds_; ++world) {
    if (plays(world)) continue;
    take_world(world);
    for (uint64_t row = world * rows_per_world_; row < (world + 1) * rows_per_world_; ++row) {
      rows_[row].observes = false;
      env_->begin_episode(static_cast<int64_t>(row), rows_[row].episode);
    }
  }
}

// Begins episodes in all rows. Row i gets a number with remainder i, so that the numbers follow each other.
void EpisodePlayer::begin_all() {
  const uint64_t first = next() / rows_.size() * rows_.size();
  rows_.assign(rows_.size(), {});
  while (has_next() && next() < first + rows_.size() && playing_worlds_ < most_worlds_)
    take_world((next() - first) / rows_per_world_);
  reset_all(first);
  actions_ = LikelyActions(state_size_, env_->rows());
  for (uint64_t world = 0; repeats_.empty() && world < worlds(); ++world)
    if (!plays(world)) leave_world(world);
  for (size_t row = 0; row < rows_.size(); ++row) note_row(row);
}

// Resets all rows. They are stepped together also if they play no episode, and one that fails may take the others
// along. So a row without an episode of its own repeats that of another row, if the environment can begin it there:
// episodes that are not played cannot fail.
void EpisodePlayer::reset_all(uint64_t first) {
  EnvironmentCall call;
  std::vector<uint64_t> numbers(rows_.size());
  repeats_.assign(rows_.size(), 0);
  auto played = static_cast<size_t>(std::ranges::find_if(rows_, &Row::plays) - rows_.begin());
  for (size_t row = 0; row < rows_.size(); ++row) {
    if (rows_[row].plays) played = row;
    repeats_[row] = played;
    numbers[row] = first + played;
  }
  if (rows_per_world_ > 1 || !env_->reset_as(seed_, numbers, step_)) {
    repeats_.clear();
    env_->reset(seed_, first, step_);
  }
  call.note(step_);
}

// With deterministic actions the episodes are the same anyway, except for the rounding of the policy.
void EpisodePlayer::repeat_actions(Array& actions) const {
  const size_t bytes = actions.row_bytes();
  for (size_t row = 0; row < repeats_.size(); ++row)
    if (repeats_[row] != row)
      std::memcpy(actions.mutable_data() + row * bytes, actions.data() + repeats_[row] * bytes, bytes);
}

void EpisodePlayer::note_row(size_t row) {
  Row& each = rows_[row];
  each.observes = each.plays;
  if (!each.plays) return;
  const auto failed = static_cast<Failed>(step_.failed.view<uint8_t>()[row]);
  const bool over = step_.terminated.view<uint8_t>()[row] != 0 || step_.truncated.view<uint8_t>()[row] != 0;
  if (failed == Failed::no) {
    each.reward += step_.rewards.view<float>()[row];
    each.length += step_.executed.view<int32_t>()[row];
  }
  if (failed == Failed::now) {
    ++all_failures_;
    own_failures_ += singly_ || most_worlds_ == 1;
    failures_.push_back({each.episode, each.length});
    if (!step_.errors.empty()) last_error_ = step_.errors.front();  // rows that failed because of others come last
  } else if (failed == Failed::no && over) {
    returns_.emplace(each.episode, each.reward);
    const double before = mean_so_far_;
    mean_so_far_ += (each.reward - before) / static_cast<double>(returns_.size());
    squares_so_far_ += (each.reward - before) * (each.reward - mean_so_far_);
    least_ = std::min(least_, static_cast<double>(each.reward));
    most_ = std::max(most_, static_cast<double>(each.reward));
    steps_ += each.length;
    successes_ += step_.success.view<uint8_t>()[row];
  } else {
    return;
  }
  each.plays = each.observes = false;
  --playing_;
  const uint64_t world = row / rows_per_world_;
  if (plays(world)) return;  // the rows of a world are stepped until the last of them has ended its episode
  --playing_worlds_;
  if (!singly_ || rows_per_world_ > 1) leave_world(world);
}

void EpisodePlayer::leave_world(uint64_t world) {
  for (uint64_t row = world * rows_per_world_; row < (world + 1) * rows_per_world_; ++row)
    env_->set_active(static_cast<int64_t>(row), false);
  for (size_t row = 0; row < repeats_.size(); ++row)
    if (repeats_[row] == world && row != world) env_->set_active(static_cast<int64_t>(row), false);
}

void EpisodePlayer::end_step() {
  if (playing_ == 0 && !has_next()) play_again();
  const uint64_t most = std::max<uint64_t>(kMaxPlayFailures, 4 * rows_.size());
  if (returns_.empty() && (complete() || own_failures_ > most)) throw EnvironmentFailed(all_failures_, last_error_);
}

// Lets the episodes that have failed be played again from their beginning.
void EpisodePlayer::play_again() {
  std::ranges::sort(failures_, {}, &Failure::episode);
  const bool alone = most_worlds_ == 1;
  uint64_t again_worlds = 0;
  for (const Failure& failure : std::exchange(failures_, {})) {
    if (alone && fails_for_good(failure)) {
      ++failed_;
      continue;
    }
    again_worlds += again_.empty() || again_.back() / rows_per_world_ != failure.episode / rows_per_world_;
    again_.push_back(failure.episode);
  }
  most_worlds_ = std::clamp<uint64_t>(most_worlds_ / 4, 1, std::max<uint64_t>(again_worlds, 1));
}

// The episode was played alone and has failed. One that fails after the same number of steps each time would fail for
// ever.
bool EpisodePlayer::fails_for_good(const Failure& failure) {
  Alone& before = alone_[failure.episode];
  before.same = std::exchange(before.length, failure.length) == failure.length ? before.same + 1 : 1;
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
  double squares = squares_so_far_;
  result.return_mean = mean_so_far_;
  if (complete()) {
    const auto returns =
        std::views::values(returns_);  // in the order of their numbers, so sums do not depend on `rows`
    result.return_mean = std::accumulate(returns.begin(), returns.end(), 0.0) / count;
    squares = 0;
    for (const double x : returns) squares += (x - result.return_mean) * (x - result.return_mean);
  }
  result.return_std = std::sqrt(squares / count);
  result.return_min = least_;
  result.return_max = most_;
  result.length_mean = static_cast<double>(steps_) / count;
  if (env_->spec().reports_success)
    result.success_rate = static_cast<double>(successes_) / static_cast<double>(result.ended());
  return result;
}

}  // namespace troupe
