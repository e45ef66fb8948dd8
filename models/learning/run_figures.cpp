#include "models/learning/run_figures.h"

#include <string>
#include <unordered_map>
#include <vector>

#include "models/learning/metrics.h"

namespace troupe {

namespace {

constexpr std::string_view kOfLag = "_lag_";

// The name in Prometheus. "kl_lag_3" as "kl_by_lag{lag=3}": the lags of a figure are one metric with a label.
// Other names as they are.
std::string labelled(const std::string& name) {
  const size_t at = name.rfind(kOfLag);
  const bool of_lag = at != std::string::npos && name.find_first_not_of("0123456789", at + kOfLag.size()) == name.npos;
  return of_lag ? name.substr(0, at) + "_by_lag{lag=" + name.substr(at + kOfLag.size()) + '}' : name;
}

}  // namespace

std::span<const Figure> run_figures() {
  static const std::vector<Figure> all = [] {
    std::vector<Figure> figures = snapshot_figures();
    for (const Metric& m : metric_table()) {
      const std::string name(m.name);
      figures.push_back(
          make_figure(m.group, "learner." + name, "learner_" + labelled(name), m.unit, m.when, m.meaning, m.view));
    }
    return figures;
  }();
  return all;
}

const Figure* find_figure(std::string_view path) {
  static const std::unordered_map<std::string_view, const Figure*> by_path = [] {
    std::unordered_map<std::string_view, const Figure*> map;
    for (const Figure& figure : run_figures()) map.emplace(figure.path, &figure);
    return map;
  }();
  const auto found = by_path.find(path);
  return found == by_path.end() ? nullptr : found->second;
}

}  // namespace troupe
