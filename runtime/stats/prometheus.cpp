#include "runtime/stats/prometheus.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/stats/histogram_json.h"

namespace troupe {
namespace {

using nlohmann::json;

constexpr std::string_view kTotal = "_total", kHistogramLabel = "le";

// The bounds of exported histograms: the powers of 2 from the first to the last exponent, and 0 before them where
// values are counts. They are the same in every snapshot, as queries over time need it, and few.
struct Bounds {
  int first, last;
  bool zero;
};
constexpr Bounds kTimeBounds{-20, 10, false}, kCountBounds{0, 14, true};

// Help of metrics that several figures share.
struct SharedHelp {
  std::string_view name, help;
};
constexpr std::array kSharedHelp = {
    SharedHelp{"troupe_samples_total", "samples over all starts of the run, by what happened to them"},
    SharedHelp{"troupe_update_stage_seconds", "mean time of an update in each of its stages, over the last 10 s"},
    SharedHelp{"troupe_batches_total", "forward passes of inference, by the reason why they started"},
};

// Reads `path` level by level. Null where there is no such figure.
const json* figure(const json& snapshot, std::string_view path) {
  const json* value = &snapshot;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const auto found = value->find(std::string(path.substr(begin, end - begin)));
    if (!value->is_object() || found == value->end()) return nullptr;
    value = &*found;
    begin = end + 1;
  }
  return value;
}

// Help and label values: "\" and line breaks are escaped, in label values quotes too.
std::string escaped(std::string_view text, bool quotes) {
  std::string result;
  for (const char c : text) {
    if (c == '\n') {
      result += "\\n";
      continue;
    }
    if (c == '\\' || (quotes && c == '"')) result += '\\';
    result += c;
  }
  return result;
}

class Exposition {
 public:
  explicit Exposition(bool open_metrics) : open_metrics_(open_metrics) {}

  void add(const ExportedMetric& metric, const json& value) {
    if (metric.label == kHistogramLabel) return histogram(metric, value);
    if (metric.label_value != "*") return sample(metric, metric.label_value, value);
    if (!value.is_object()) return;
    for (const auto& [key, entry] : value.items()) sample(metric, key, entry);
  }

  std::string end() { return text_ + (open_metrics_ ? "# EOF\n" : ""); }

 private:
  void sample(const ExportedMetric& metric, const std::string& label, const json& value) {
    if (!value.is_number() && !value.is_boolean()) return;
    if (metric.name != family_) begin_family(metric);
    text_ += metric.name;
    if (!metric.label.empty()) text_ += '{' + metric.label + "=\"" + escaped(label, true) + "\"}";
    text_ += ' ' + number(metric, value) + '\n';
  }

  void histogram(const ExportedMetric& metric, const json& value) {
    const Histogram counted = histogram_of(value);
    if (counted.count() == 0) return;
    begin_family(metric);
    const Bounds& bounds = metric.seconds ? kTimeBounds : kCountBounds;
    if (bounds.zero) bucket(metric, "0.0", counted.count_up_to(0));
    for (int exponent = bounds.first; exponent <= bounds.last; ++exponent) {
      const double bound = std::ldexp(1.0, exponent);
      bucket(metric, json(bound).dump(), counted.count_up_to(bound));
    }
    bucket(metric, "+Inf", counted.count());
    text_ += metric.name + "_sum " + json(counted.sum()).dump() + '\n';
    text_ += metric.name + "_count " + std::to_string(counted.count()) + '\n';
  }

  void bucket(const ExportedMetric& metric, const std::string& bound, uint64_t count) {
    text_ += metric.name + "_bucket{le=\"" + bound + "\"} " + std::to_string(count) + '\n';
  }

  static std::string number(const ExportedMetric& metric, const json& value) {
    if (value.is_boolean()) return value.get<bool>() ? "1" : "0";
    return metric.scale == 1 ? value.dump() : json(value.get<double>() * metric.scale).dump();
  }

  void begin_family(const ExportedMetric& metric) {
    family_ = metric.name;
    const bool counter = metric.name.ends_with(kTotal), histogram = metric.label == kHistogramLabel;
    const std::string name =
        counter && open_metrics_ ? metric.name.substr(0, metric.name.size() - kTotal.size()) : metric.name;
    text_ += "# HELP " + name + ' ' + escaped(metric.help, open_metrics_) + '\n';
    text_ += "# TYPE " + name + (histogram ? " histogram\n" : counter ? " counter\n" : " gauge\n");
  }

  bool open_metrics_;
  std::string family_, text_;
};

}  // namespace

ExportedMetric exported_metric(std::string_view path, std::string_view name, std::string_view unit,
                               std::string_view help) {
  ExportedMetric metric{.path = std::string(path),
                        .help = std::string(help),
                        .meaning = std::string(help),
                        .scale = unit == "ms" ? 1e-3 : 1,
                        .seconds = unit == "s"};
  const size_t brace = std::min(name.find('{'), name.size());
  metric.name = "troupe_" + std::string(name.substr(0, brace));
  if (brace < name.size()) {
    const std::string_view label = name.substr(brace + 1, name.size() - brace - 2);
    metric.label = label.substr(0, label.find('='));
    metric.label_value = label.substr(label.find('=') + 1);
  }
  const auto allowed = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  TROUPE_CHECK(std::ranges::all_of(metric.name, allowed), "metric", metric.name);
  const auto* const shared = std::ranges::find(kSharedHelp, metric.name, &SharedHelp::name);
  if (shared != kSharedHelp.end()) metric.help = shared->help;
  return metric;
}

std::string prometheus_text(const json& snapshot, std::span<const ExportedMetric> metrics, bool open_metrics) {
  Exposition text(open_metrics);
  for (const ExportedMetric& metric : metrics)
    if (const json* value = figure(snapshot, metric.path)) text.add(metric, *value);
  return text.end();
}

}  // namespace troupe
