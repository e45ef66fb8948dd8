#include "models/learning/scaling_history.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

// Removes a tensor from `tensors`. Throws ConfigError unless it is finite and has this type and shape.
template <class T>
std::vector<T> take(std::map<std::string, Array>& tensors, const char* part, const Shape& shape) {
  const std::string name = std::string(ScalingHistory::kPrefix) + part;
  const auto found = tensors.find(name);
  if (found == tensors.end()) throw ConfigError("optimizer tensor " + name + " is missing");
  const Array array = found->second;
  tensors.erase(found);
  if (array.dtype() != dtype_of<T>() || !(array.shape() == shape))
    throw ConfigError("optimizer tensor " + name + " is " + std::string(name_of(array.dtype())) + ' ' +
                      array.shape().text() + ", expected " + std::string(name_of(dtype_of<T>())) + ' ' + shape.text());
  const auto values = array.view<T>();
  if (!std::ranges::all_of(values, [](T x) { return std::isfinite(x); }))
    throw ConfigError("optimizer tensor " + name + " holds a number that is not finite");
  return {values.begin(), values.end()};
}

}  // namespace

void ScalingHistory::set(uint64_t version, FeatureScaling scaling) {
  std::erase_if(entries_, [&](const Entry& entry) {
    return entry.version >= version || version - entry.version > max_policy_lag_;
  });
  entries_.push_back({version, std::move(scaling)});
  if (entries_.size() > kMost) entries_.pop_front();
}

size_t ScalingHistory::nearest(int64_t version) const {
  const auto after = std::ranges::upper_bound(entries_, version, {},
                                              [](const Entry& entry) { return static_cast<int64_t>(entry.version); });
  return after == entries_.begin() ? 0 : static_cast<size_t>(after - entries_.begin()) - 1;
}

SampleScalings ScalingHistory::of(const Array& versions, std::span<const int64_t> before) const {
  SampleScalings result;
  if (entries_.empty()) return result;
  if (versions.empty()) {
    result.all.push_back(entries_.back().scaling);
    return result;
  }
  std::map<size_t, int64_t> used;  // by entry
  for (const int64_t version : versions.view<int64_t>()) {
    const auto [index, added] = used.try_emplace(nearest(version), static_cast<int64_t>(result.all.size()));
    if (added) result.all.push_back(entries_[index->first].scaling);
    result.of_samples.push_back(index->second);
  }
  if (result.all.size() <= 1) {
    result.of_samples.clear();
  } else {
    for (const int64_t sample : before) result.of_bootstraps.push_back(result.of_samples[static_cast<size_t>(sample)]);
  }
  return result;
}

void ScalingHistory::save(std::map<std::string, Array>& tensors) const {
  std::vector<double> versions;
  std::vector<float> mean, inverse_std;
  for (const auto& [version, scaling] : entries_) {
    if (entries_.back().version - version >= max_policy_lag_) continue;  // too old for the next update
    versions.push_back(static_cast<double>(version));
    mean.insert(mean.end(), scaling.mean.begin(), scaling.mean.end());
    inverse_std.insert(inverse_std.end(), scaling.inverse_std.begin(), scaling.inverse_std.end());
  }
  if (versions.empty()) return;
  const auto count = static_cast<int64_t>(versions.size());
  const Shape shape{count, static_cast<int64_t>(mean.size()) / count};
  tensors[std::string(kPrefix) + "version"] = Array::of<double>({count}, versions);
  tensors[std::string(kPrefix) + "mean"] = Array::of<float>(shape, mean);
  tensors[std::string(kPrefix) + "inverse_std"] = Array::of<float>(shape, inverse_std);
}

void ScalingHistory::load(std::map<std::string, Array>& tensors, int64_t features, float clip) {
  std::deque<Entry> entries;
  const auto found = tensors.find(std::string(kPrefix) + "version");
  if (found != tensors.end()) {  // an older program, or a run without a lag, saved none
    const int64_t count = found->second.size();
    const auto versions = take<double>(tensors, "version", {count});
    const auto mean = take<float>(tensors, "mean", {count, features});
    const auto inverse_std = take<float>(tensors, "inverse_std", {count, features});
    for (size_t i = 0; i < versions.size(); ++i) {
      const auto part = [&](const std::vector<float>& all) {
        const auto begin = all.begin() + static_cast<std::ptrdiff_t>(i) * features;
        return std::vector<float>(begin, begin + features);
      };
      entries.push_back({static_cast<uint64_t>(versions[i]), {part(mean), part(inverse_std), clip}});
    }
    if (!std::ranges::is_sorted(versions) || (!versions.empty() && versions.front() < 0))
      throw ConfigError("optimizer tensor " + std::string(kPrefix) + "version is not ascending from 0 on");
  }
  entries_ = std::move(entries);
}

void scale_samples(const InputEncoder& encoder, const SampleScalings& scalings, std::span<const int64_t> of,
                   std::vector<Array>& inputs) {
  if (scalings.all.empty()) return;
  if (of.empty()) return encoder.scale(scalings.all.front(), inputs);
  for (size_t begin = 0; begin < of.size();) {
    size_t end = begin + 1;
    while (end < of.size() && of[end] == of[begin]) ++end;
    encoder.scale(scalings.all[static_cast<size_t>(of[begin])], inputs, static_cast<int64_t>(begin),
                  static_cast<int64_t>(end));
    begin = end;
  }
}

}  // namespace troupe
