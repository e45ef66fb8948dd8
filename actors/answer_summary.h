#pragma once
// AnswerSummary: what stats reports of the answers of a token run, besides means. Owned by stats; one thread.

#include <cstdint>
#include <vector>

#include "actors/config/run_config.h"
#include "actors/episode_window.h"
#include "actors/messages/local.h"
#include "runtime/stats/answer_figures.h"

namespace troupe {

// The newest groups of answers: whether all rewards of each are equal.
class GroupWindow {
 public:
  // Of at most `limit` groups, at least 1.
  explicit GroupWindow(size_t limit) : limit_(limit) {}

  // All groups so far, and those of them with equal rewards; both never fall. Of the groups that are new, the alike
  // ones are taken to be the first.
  void note(uint64_t groups, uint64_t alike);
  double share_alike() const;  // unknown without groups

  template <class I> friend typename I::result_type inspect(I& f, GroupWindow& x) {
    return f(x.alike_, x.next_, x.groups_noted_, x.alike_noted_, x.alike_count_);
  }

 private:
  void add(bool alike);

  size_t limit_;
  std::vector<uint8_t> alike_;  // a ring, whose oldest entry is at next_ once it is full
  uint64_t next_ = 0;
  uint64_t groups_noted_ = 0, alike_noted_ = 0;
  uint64_t alike_count_ = 0;  // in the ring
};

class AnswerSummary {
 public:
  explicit AnswerSummary(const RunConfig& config);

  void note(const TokenFigures& tokens);
  // `episodes` are the answers of the statistics window.
  AnswerFigures figures(const EpisodeWindow& episodes) const;

  // All but what note() is given again after a resume.
  template <class I> friend typename I::result_type inspect(I& f, AnswerSummary& x) { return f(x.groups_); }

 private:
  GroupWindow groups_;
  double turns_mean_ = AnswerFigures::kNone, turns_max_ = AnswerFigures::kNone;
};

// Groups whose answers are compared with each other in one update; 0 if the estimator compares none, or each prompt has
// one answer.
int64_t compared_groups(const RunConfig& config);

}  // namespace troupe
