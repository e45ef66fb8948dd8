#pragma once
// AnswerSummary: what stats reports of the answers of a token run, besides means. Owned by stats; one thread.

#include <cstdint>
#include <deque>
#include <utility>
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

// The newest answers: how many of them were cut at the largest number of tokens.
class CutWindow {
 public:
  // Of at least `limit` answers.
  explicit CutWindow(uint64_t limit) : limit_(limit) {}

  // All answers so far, and those of them that were cut; both never fall.
  void note(uint64_t answers, uint64_t cut);
  double share() const;  // unknown without answers

  template <class I> friend typename I::result_type inspect(I& f, CutWindow& x) { return f(x.noted_); }

 private:
  uint64_t limit_;
  std::deque<std::pair<uint64_t, uint64_t>> noted_ = {{0, 0}};  // from just before the window
};

class AnswerSummary {
 public:
  // `window`: how many of the newest answers some figures are of.
  AnswerSummary(const RunConfig& config, size_t window);

  void note(const TokenFigures& tokens);
  // `episodes` are the answers of the statistics window.
  AnswerFigures figures(const EpisodeWindow& episodes) const;

  // All but what note() is given again after a resume.
  template <class I> friend typename I::result_type inspect(I& f, AnswerSummary& x) { return f(x.groups_, x.cut_); }

 private:
  GroupWindow groups_;
  CutWindow cut_;
  double turns_mean_ = kUnknown, turns_max_ = kUnknown;
};

// Groups whose answers are compared with each other in one update; 0 if the estimator compares none, or each prompt has
// one answer.
int64_t compared_groups(const RunConfig& config);

}  // namespace troupe
