#pragma once
// EpisodeWindow: the newest episodes of a run; returns are averaged over them. Owned by stats; one thread.

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "models/experience/rollout.h"
#include "runtime/stats/task_figures.h"

namespace troupe {

class EpisodeWindow {
 public:
  explicit EpisodeWindow(size_t limit) : limit_(limit) {}

  void add(const Episodes& episodes);
  bool empty() const { return newest_.empty(); }

  // All over the window; unknown (NaN) without episodes.
  struct Summary {
    double return_mean, return_std, length_mean, success_rate;
  };
  Summary summary() const;
  // The mean of each part of the returns, over as many of the newest episodes that have it.
  std::map<std::string, double> part_means() const;
  // Of the episodes, in the same order.
  std::deque<int32_t> lengths() const;
  // Of the newest episodes of each task, as many as the window has.
  TaskFigures task_figures() const;
  bool full() const { return newest_.size() >= limit_; }
  // Mean return over the newest quarter of the window; unknown without episodes.
  double newest_return_mean() const;

  // Saves the episodes and parts as bytes and restores them. load() throws std::runtime_error for invalid bytes.
  std::string save() const;
  void load(const std::string& bytes);

 private:
  struct Episode {
    float episode_return;
    int32_t length;
    bool success;
  };
  using Newest = std::deque<Episode>;  // the oldest first
  struct Lists;                        // how some of them are saved

  static Summary summary_of(const Newest& episodes);
  void add_task(const std::string& name, const Newest& added, const ReturnPart& part);
  void load_tasks(const std::vector<ReturnPart>& parts);

  size_t limit_;
  Newest newest_;
  std::map<std::string, std::deque<float>> parts_;
  std::map<std::string, Newest> tasks_;
};

}  // namespace troupe
