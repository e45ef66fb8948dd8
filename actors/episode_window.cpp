#include "actors/episode_window.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "actors/experience/common/state_bytes.h"
#include "actors/messages/experience.h"
#include "runtime/base/suggest.h"
#include "runtime/stats/snapshot.h"

namespace troupe {

void EpisodeWindow::add(const Episodes& episodes) {
  if (episodes.count() == 0) return;
  const auto returns = episodes.returns.view<float>();
  const auto lengths = episodes.lengths.view<int32_t>();
  const auto success = episodes.success.view<uint8_t>();
  for (size_t i = 0; i < returns.size(); ++i) newest_.push_back({returns[i], lengths[i], success[i] != 0});
  while (newest_.size() > limit_) newest_.pop_front();
  for (const ReturnPart& part : episodes.parts) {
    if (!parts_.contains(part.name) && parts_.size() == kMostReturnParts) continue;
    std::deque<float>& values = parts_[part.name];
    for (const float value : part.values.view<float>())
      if (!std::isnan(value)) values.push_back(value);
    while (values.size() > limit_) values.pop_front();
  }
}

std::map<std::string, double> EpisodeWindow::part_means() const {
  std::map<std::string, double> means;
  for (const auto& [name, values] : parts_)
    if (!values.empty())
      means[name] = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  return means;
}

EpisodeWindow::Summary EpisodeWindow::summary() const {
  if (newest_.empty()) return {kUnknown, kUnknown, kUnknown, kUnknown};
  const auto count = static_cast<double>(newest_.size());
  double sum = 0, squares = 0, lengths = 0, successes = 0;
  for (const Episode& episode : newest_) {
    sum += episode.episode_return;
    lengths += episode.length;
    successes += episode.success;
  }
  const double mean = sum / count;
  for (const Episode& episode : newest_) squares += (episode.episode_return - mean) * (episode.episode_return - mean);
  return {mean, std::sqrt(squares / count), lengths / count, successes / count};
}

std::deque<int32_t> EpisodeWindow::lengths() const {
  std::deque<int32_t> result;
  for (const Episode& episode : newest_) result.push_back(episode.length);
  return result;
}

double EpisodeWindow::newest_return_mean() const {
  if (newest_.empty()) return kUnknown;
  const size_t count = std::min(newest_.size(), std::max<size_t>(limit_ / 4, 1));
  double sum = 0;
  for (size_t i = newest_.size() - count; i < newest_.size(); ++i) sum += newest_[i].episode_return;
  return sum / static_cast<double>(count);
}

std::string EpisodeWindow::save() const {
  std::vector<float> returns;
  std::vector<int32_t> lengths;
  std::vector<uint8_t> success;
  for (const Episode& episode : newest_) {
    returns.push_back(episode.episode_return);
    lengths.push_back(episode.length);
    success.push_back(episode.success ? 1 : 0);
  }
  std::vector<ReturnPart> parts;
  for (const auto& [name, values] : parts_)
    parts.push_back({name, Array::of(std::vector<float>(values.begin(), values.end()))});
  return to_bytes(Array::of<float>({static_cast<int64_t>(returns.size())}, returns), lengths, success, parts);
}

void EpisodeWindow::load(const std::string& bytes) {
  Array returns;
  std::vector<int32_t> lengths;
  std::vector<uint8_t> success;
  std::vector<ReturnPart> parts;
  from_bytes(bytes, "stats.window", returns, lengths, success, parts);
  if (returns.dtype() != DType::f32 || returns.size() != static_cast<int64_t>(lengths.size()) ||
      lengths.size() != success.size())
    throw std::runtime_error("stats.window: its lists differ in length");
  for (const ReturnPart& part : parts)
    if (part.values.dtype() != DType::f32)
      throw std::runtime_error("stats.window: the part " + printable(part.name) + " is not of float32");
  newest_.clear();
  parts_.clear();
  for (size_t i = 0; i < lengths.size(); ++i)
    newest_.push_back({returns.view<float>()[i], lengths[i], success[i] != 0});
  while (newest_.size() > limit_) newest_.pop_front();
  for (const ReturnPart& part : parts) {
    const auto values = part.values.view<float>();
    parts_[part.name].assign(values.end() - static_cast<std::ptrdiff_t>(std::min(values.size(), limit_)), values.end());
  }
}

}  // namespace troupe
