#include "tools/top/history.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "tools/top/figures.h"

namespace troupe {

namespace {

constexpr int kLevels = 8;  // of a character
constexpr std::array<const char*, kLevels + 1> kBlocks = {" ",      "\u2581", "\u2582", "\u2583", "\u2584",
                                                          "\u2585", "\u2586", "\u2587", "\u2588"};
constexpr std::array<const char*, kLevels + 1> kCharacters = {" ", "_", ".", ",", "-", "=", "+", "*", "#"};

}  // namespace

void TopHistory::add(uint64_t sequence, std::vector<double> values) {
  values.resize(curve_paths().size(), kUnknown);
  const auto oldest_of_start = points_.lower_bound({start_, 0});
  if (start_ > 0 && (oldest_of_start == points_.end() || sequence < oldest_of_start->first.second))
    forget_lost(values[0]);
  points_.try_emplace({start_, sequence}, std::move(values));
  if (points_.size() > kMostPoints) thin();
}

void TopHistory::add(uint64_t sequence, const StatsSnapshot& snapshot) {
  std::vector<double> values;
  for (const std::string& path : curve_paths()) values.push_back(figure_of(snapshot, path));
  add(sequence, std::move(values));
}

void TopHistory::clear() {
  points_.clear();
  start_ = 0;
}

uint64_t TopHistory::oldest() const {
  const auto found = points_.lower_bound({start_, 0});
  return found == points_.end() ? 0 : found->first.second;
}

std::vector<double> TopHistory::curve(std::string_view path, size_t bins) const {
  const auto& paths = curve_paths();
  const auto column = static_cast<size_t>(std::ranges::find(paths, path) - paths.begin());
  if (points_.empty() || column >= paths.size() || bins == 0) return {};
  const double from = points_.begin()->second[0], to = points_.rbegin()->second[0];
  std::vector<double> sums(bins), result(bins, kUnknown);
  std::vector<size_t> counts(bins);
  for (const auto& [key, values] : points_) {
    if (!std::isfinite(values[column])) continue;
    const double part = to > from ? (values[0] - from) / (to - from) : 0;
    const double place = std::isfinite(part) ? std::clamp(part, 0.0, 1.0) * static_cast<double>(bins) : 0;
    const size_t bin = std::min(static_cast<size_t>(place), bins - 1);
    sums[bin] += values[column];
    ++counts[bin];
  }
  if (std::ranges::all_of(counts, [](size_t count) { return count == 0; })) return {};
  for (size_t i = 0; i < bins; ++i)
    result[i] = counts[i] > 0 ? sums[i] / static_cast<double>(counts[i]) : i > 0 ? result[i - 1] : kUnknown;
  return result;
}

void TopHistory::forget_lost(double env_steps) {
  std::erase_if(points_, [&](const auto& point) { return point.first.first < start_ && point.second[0] >= env_steps; });
}

void TopHistory::thin() {
  bool leave_out = false;
  auto point = points_.begin();
  for (size_t i = 0; i < kMostPoints / 2; ++i, leave_out = !leave_out)
    point = leave_out ? points_.erase(point) : std::next(point);
}

std::vector<std::string> bars_of(std::span<const double> values, size_t rows, bool ascii) {
  double low = INFINITY, high = -INFINITY;
  for (const double value : values)
    if (std::isfinite(value)) {
      low = std::min(low, value);
      high = std::max(high, value);
    }
  const auto& characters = ascii ? kCharacters : kBlocks;
  const auto levels = static_cast<double>(kLevels) * static_cast<double>(rows);
  std::vector<std::string> lines(rows);
  for (const double value : values) {
    // A value has one level at least, so that the smallest one is seen too. Halves, because the range may overflow.
    const double flat = low == 0 ? 0 : 0.5;  // the height of a curve that is always the same
    const double part = high > low ? (value / 2 - low / 2) / (high / 2 - low / 2) : flat;
    const int level = std::isfinite(value) ? 1 + static_cast<int>(std::lround(part * (levels - 1))) : 0;
    for (size_t row = 0; row < rows; ++row) {
      const int below = kLevels * static_cast<int>(rows - 1 - row);
      lines[row] += characters[static_cast<size_t>(std::clamp(level - below, 0, kLevels))];
    }
  }
  return lines;
}

std::string share_bar(double share, size_t width, bool ascii) {
  const double known = std::isfinite(share) ? std::clamp(share, 0.0, 1.0) : 0.0;
  const auto filled = static_cast<size_t>(std::lround(known * static_cast<double>(width)));
  std::string bar;
  for (size_t i = 0; i < width; ++i) bar += ascii ? (i < filled ? "#" : ".") : (i < filled ? "\u2588" : "\u2591");
  return bar;
}

}  // namespace troupe
