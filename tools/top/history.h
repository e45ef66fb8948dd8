#pragma once
// The points of the curves that `troupe top` draws, and curves made of characters. One thread.

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/stats/snapshot.h"

namespace troupe {

class TopHistory {
 public:
  // More points than this are not kept: of the older half, every second one is left out.
  static constexpr size_t kMostPoints = 4000;

  // The values of curve_paths(), which the snapshot with this number has. One that is there already stays.
  void add(uint64_t sequence, std::vector<double> values);
  void add(uint64_t sequence, const StatsSnapshot& snapshot);
  // The run was started again: its snapshots are counted anew, and what it had done after its first one is lost.
  void restart() { ++start_; }
  void clear();

  size_t size() const { return points_.size(); }
  // The oldest number of this start that is kept; 0 without any.
  uint64_t oldest() const;
  // The curve in `bins` equal parts of the environment steps, each the mean of its points; where there are none, the
  // value before. kUnknown before the first value. Empty if no point has a value.
  std::vector<double> curve(std::string_view path, size_t bins) const;

 private:
  void forget_lost(double env_steps);
  void thin();

  uint64_t start_ = 0;
  std::map<std::pair<uint64_t, uint64_t>, std::vector<double>> points_;  // by start and number
};

// The values as `rows` lines of characters, the topmost first, from the smallest value to the largest. With `ascii`
// without block characters.
std::vector<std::string> bars_of(std::span<const double> values, size_t rows, bool ascii);
// A bar of `width` columns, filled to that share.
std::string share_bar(double share, size_t width, bool ascii);

}  // namespace troupe
