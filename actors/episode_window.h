#pragma once
// EpisodeWindow: the newest episodes of a run, over which returns are averaged. Owned by stats; one thread.

#include <cstdint>
#include <deque>
#include <string>

#include "models/rollout.h"

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

  // The episodes as bytes, and back. load() throws std::runtime_error when the bytes hold something else.
  std::string save() const;
  void load(const std::string& bytes);

 private:
  struct Episode {
    float episode_return;
    int32_t length;
    bool success;
  };
  size_t limit_;
  std::deque<Episode> newest_;  // the oldest first
};

}  // namespace troupe
