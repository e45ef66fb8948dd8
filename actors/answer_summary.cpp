#include "actors/answer_summary.h"

#include <algorithm>

#include "actors/percentiles.h"
#include "algorithms/advantages/advantages.h"

namespace troupe {

namespace {

constexpr int64_t kUpdates = 10;  // whose groups are in the window
constexpr int64_t kMostGroups = 100'000;

int64_t groups_per_update(const RunConfig& config) {
  return std::max<int64_t>(config.trainer.super_batch / config.generation.answers, 1);
}

}  // namespace

void GroupWindow::note(uint64_t groups, uint64_t alike) {
  for (; groups_noted_ < groups; ++groups_noted_) {
    add(alike_noted_ < alike);
    alike_noted_ = std::min(alike_noted_ + 1, alike);
  }
}

void GroupWindow::add(bool alike) {
  if (alike_.size() < limit_) {
    alike_.push_back(alike ? 1 : 0);
  } else {
    uint8_t& oldest = alike_[next_];
    alike_count_ -= oldest;
    oldest = alike ? 1 : 0;
    next_ = (next_ + 1) % alike_.size();
  }
  alike_count_ += alike ? 1 : 0;
}

double GroupWindow::share_alike() const {
  return alike_.empty() ? kUnknown : static_cast<double>(alike_count_) / static_cast<double>(alike_.size());
}

void CutWindow::note(uint64_t answers, uint64_t cut) {
  if (answers <= noted_.back().first) return;
  noted_.emplace_back(answers, cut);
  while (answers - noted_[1].first >= limit_) noted_.pop_front();
}

double CutWindow::share() const {
  const auto [first_answers, first_cut] = noted_.front();
  const auto [answers, cut] = noted_.back();
  return answers == first_answers ? kUnknown
                                  : static_cast<double>(cut - first_cut) / static_cast<double>(answers - first_answers);
}

AnswerSummary::AnswerSummary(const RunConfig& config, size_t window)
    : groups_(static_cast<size_t>(std::min(kUpdates * groups_per_update(config), kMostGroups))), cut_(window) {}

void AnswerSummary::note(const TokenFigures& tokens) {
  groups_.note(tokens.groups, tokens.alike);
  const SampleTokens& produced = tokens.produced;
  cut_.note(produced.samples, produced.cut);
  if (produced.samples == 0) return;
  turns_mean_ = static_cast<double>(produced.turns) / static_cast<double>(produced.samples);
  turns_max_ = static_cast<double>(produced.most_turns);
}

AnswerFigures AnswerSummary::figures(const EpisodeWindow& episodes) const {
  const std::deque<int32_t> lengths = episodes.lengths();
  return {.turns_mean = turns_mean_,
          .turns_max = turns_max_,
          .length_min = percentile(lengths, 0),
          .length_p50 = percentile(lengths, 0.5),
          .length_p95 = percentile(lengths, 0.95),
          .length_max = percentile(lengths, 1),
          .cut_fraction = cut_.share(),
          .groups_alike = groups_.share_alike()};
}

int64_t compared_groups(const RunConfig& config) {
  const bool compares = find_advantage(config.algorithm.advantage).run.sequences && config.generation.answers > 1;
  return compares ? groups_per_update(config) : 0;
}

}  // namespace troupe
