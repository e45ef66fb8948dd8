#include "actors/episode_window.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "actors/experience/common/state_bytes.h"
#include "actors/messages/experience.h"
#include "models/experience/episode_tasks.h"
#include "runtime/base/suggest.h"
#include "runtime/stats/snapshot.h"

namespace troupe {
namespace {

template <class Deque>
void keep_newest(Deque& of, size_t limit) {
  while (of.size() > limit) of.pop_front();
}

}  // namespace

void EpisodeWindow::add(const Episodes& episodes) {
  if (episodes.count() == 0) return;
  const auto returns = episodes.returns.view<float>();
  const auto lengths = episodes.lengths.view<int32_t>();
  const auto success = episodes.success.view<uint8_t>();
  Newest added;
  for (size_t i = 0; i < returns.size(); ++i) added.push_back({returns[i], lengths[i], success[i] != 0});
  newest_.insert(newest_.end(), added.begin(), added.end());
  keep_newest(newest_, limit_);
  for (const ReturnPart& part : episodes.parts) {
    if (const auto task = task_of(part)) {
      add_task(*task, added, part);
      continue;
    }
    if (!parts_.contains(part.name) && parts_.size() == kMostReturnParts) continue;
    std::deque<float>& values = parts_[part.name];
    for (const float value : part.values.view<float>())
      if (!std::isnan(value)) values.push_back(value);
    keep_newest(values, limit_);
  }
}

void EpisodeWindow::add_task(const std::string& name, const Newest& added, const ReturnPart& part) {
  const auto member = part.values.view<float>();
  Newest& episodes = tasks_[told_apart(tasks_, name)];
  for (size_t i = 0; i < added.size(); ++i)
    if (!std::isnan(member[i])) episodes.push_back(added[i]);
  keep_newest(episodes, limit_);
}

std::map<std::string, double> EpisodeWindow::part_means() const {
  std::map<std::string, double> means;
  for (const auto& [name, values] : parts_)
    if (!values.empty())
      means[name] = std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  return means;
}

TaskFigures EpisodeWindow::task_figures() const {
  TaskFigures result;
  for (const auto& [name, episodes] : tasks_) {
    if (episodes.empty()) continue;
    const Summary of_task = summary_of(episodes);
    result.return_mean[name] = of_task.return_mean;
    result.length_mean[name] = of_task.length_mean;
    result.success_rate[name] = of_task.success_rate;
  }
  return result;
}

EpisodeWindow::Summary EpisodeWindow::summary() const { return summary_of(newest_); }

EpisodeWindow::Summary EpisodeWindow::summary_of(const Newest& episodes) {
  if (episodes.empty()) return {kUnknown, kUnknown, kUnknown, kUnknown};
  const auto count = static_cast<double>(episodes.size());
  double sum = 0, squares = 0, lengths = 0, successes = 0;
  for (const Episode& episode : episodes) {
    sum += episode.episode_return;
    lengths += episode.length;
    successes += episode.success;
  }
  const double mean = sum / count;
  for (const Episode& episode : episodes) squares += (episode.episode_return - mean) * (episode.episode_return - mean);
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

struct EpisodeWindow::Lists {
  std::vector<float> returns;
  std::vector<int32_t> lengths;
  std::vector<uint8_t> success;

  explicit Lists(const Newest& episodes) {
    for (const Episode& episode : episodes) {
      returns.push_back(episode.episode_return);
      lengths.push_back(episode.length);
      success.push_back(episode.success ? 1 : 0);
    }
  }
};

namespace {

Array array_of(const std::vector<float>& values) {
  return Array::of<float>({static_cast<int64_t>(values.size())}, values);
}

// The saved parts that a task has, after kTaskMark and before its name.
constexpr char kReturns = 'r', kLengths = 'l', kSuccess = 's';

std::string saved_name(char list, const std::string& task) { return std::string{kTaskMark, list} + task; }

}  // namespace

// A task is saved as three parts, so that the format is that of a window without tasks.
std::string EpisodeWindow::save() const {
  const Lists all(newest_);
  std::vector<ReturnPart> parts;
  for (const auto& [name, values] : parts_)
    parts.push_back({name, Array::of(std::vector<float>(values.begin(), values.end()))});
  for (const auto& [name, episodes] : tasks_) {
    const Lists of_task(episodes);
    parts.push_back({saved_name(kReturns, name), array_of(of_task.returns)});
    parts.push_back({saved_name(kLengths, name), array_of({of_task.lengths.begin(), of_task.lengths.end()})});
    parts.push_back({saved_name(kSuccess, name), array_of({of_task.success.begin(), of_task.success.end()})});
  }
  return to_bytes(array_of(all.returns), all.lengths, all.success, parts);
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
  load_tasks(parts);
  newest_.clear();
  parts_.clear();
  for (size_t i = 0; i < lengths.size(); ++i)
    newest_.push_back({returns.view<float>()[i], lengths[i], success[i] != 0});
  keep_newest(newest_, limit_);
  for (const ReturnPart& part : parts) {
    if (task_of(part)) continue;
    const auto values = part.values.view<float>();
    parts_[part.name].assign(values.end() - static_cast<std::ptrdiff_t>(std::min(values.size(), limit_)), values.end());
  }
}

// Takes those of tasks.
void EpisodeWindow::load_tasks(const std::vector<ReturnPart>& parts) {
  std::map<std::string, std::map<char, std::span<const float>>> lists;
  for (const ReturnPart& part : parts)
    if (const auto named = task_of(part); named && !named->empty())
      lists[named->substr(1)][named->front()] = part.values.view<float>();
  std::map<std::string, Newest> tasks;
  for (auto& [name, of_task] : lists) {
    const auto returns = of_task[kReturns], lengths = of_task[kLengths], success = of_task[kSuccess];
    if (returns.size() != lengths.size() || returns.size() != success.size())
      throw std::runtime_error("stats.window: the lists of the task " + printable(name) + " differ in length");
    Newest& episodes = tasks[name];
    for (size_t i = 0; i < returns.size(); ++i)
      episodes.push_back({returns[i], static_cast<int32_t>(lengths[i]), success[i] != 0});
    keep_newest(episodes, limit_);
  }
  tasks_ = std::move(tasks);
}

}  // namespace troupe
