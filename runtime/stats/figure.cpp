#include "runtime/stats/figure.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "runtime/base/text_format.h"
#include "runtime/stats/snapshot_fields.h"

namespace troupe {
namespace {

// At the end of the name in Prometheus: of an object, of a histogram.
constexpr std::string_view kAnyValue = "=*}", kBounds = "{le=*}";

// The names of labels whose values are keys of the object.
std::vector<std::string> labels_in(std::string_view prometheus) {
  const size_t brace = prometheus.find('{');
  if (brace == std::string_view::npos || !prometheus.ends_with(kAnyValue) || prometheus.ends_with(kBounds)) return {};
  const std::string_view name = prometheus.substr(brace + 1);
  return {std::string(name.substr(0, name.find('=')))};
}

FigureType type_in(std::string_view prometheus, std::string_view unit) {
  if (unit == "text") return FigureType::text;
  if (prometheus.ends_with(kBounds)) return FigureType::histogram;
  if (prometheus.ends_with(kAnyValue)) return FigureType::map;
  return prometheus.substr(0, prometheus.find('{')).ends_with("_total") ? FigureType::counter : FigureType::gauge;
}

std::string in_words(std::string_view path) {
  constexpr std::string_view kLearner = "learner.";
  std::string words(path.starts_with(kLearner) ? path.substr(kLearner.size()) : path);
  std::ranges::replace_if(words, [](char c) { return c == '_' || c == '.'; }, ' ');
  return words;
}

}  // namespace

Figure make_figure(std::string_view group, std::string path, std::string_view prometheus, std::string_view unit,
                   std::string_view when, std::string_view meaning, const FigureView& view) {
  Figure figure{.group = std::string(group),
                .path = std::move(path),
                .prometheus = std::string(prometheus),
                .unit = std::string(unit),
                .when = std::string(when),
                .meaning = std::string(meaning),
                .type = view.type.value_or(type_in(prometheus, unit)),
                .labels = labels_in(prometheus),
                .label = std::string(view.label),
                .token_label = std::string(view.in_token_runs),
                .better = view.better};
  if (figure.label.empty()) figure.label = in_words(figure.path);
  if (figure.token_label.empty()) figure.token_label = figure.label;
  return figure;
}

std::vector<Figure> snapshot_figures() {
  std::vector<Figure> figures;
  for (const SnapshotField& f : snapshot_fields())
    if (f.path != "learner")
      figures.push_back(make_figure(f.group, std::string(f.path), f.prometheus, f.unit, f.when, f.meaning, f.view));
  return figures;
}

std::string_view text_of(FigureType type) {
  switch (type) {
    case FigureType::counter: return "counter";
    case FigureType::gauge: return "gauge";
    case FigureType::text: return "text";
    case FigureType::map: return "map";
    case FigureType::histogram: return "histogram";
  }
  return "gauge";
}

std::string_view text_of(Better better) {
  switch (better) {
    case Better::neither: return "neither";
    case Better::up: return "up";
    case Better::down: return "down";
  }
  return "neither";
}

std::string figures_json(std::span<const Figure> figures) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Figure& f : figures) {
    nlohmann::ordered_json row = {{"path", f.path},
                                  {"group", f.group},
                                  {"type", text_of(f.type)},
                                  {"unit", f.unit},
                                  {"label", f.label},
                                  {"token_label", f.token_label},
                                  {"better", text_of(f.better)},
                                  {"labels", f.labels},
                                  {"reported", f.when},
                                  {"meaning", f.meaning}};
    row["prometheus"] =
        f.prometheus.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json("troupe_" + f.prometheus);
    list.push_back(std::move(row));
  }
  return list.dump();
}

std::string text_at(const StatsSnapshot& snapshot, std::string_view path) {
  const SnapshotField& field = snapshot_field(path);
  const nlohmann::ordered_json value = field.access.get(snapshot);
  return figure_text(value.is_number() ? value.get<double>() : kUnknown, field.unit);
}

std::string small_figure(double value) {
  if (!std::isfinite(value) || value == 0 || (std::abs(value) >= 0.001 && std::abs(value) < 1000))
    return format_figure(value, 4);
  char text[32];
  std::snprintf(text, sizeof text, "%.1e", value);
  return text;
}

std::string figure_text(double value, std::string_view unit) {
  if (!std::isfinite(value)) return "-";
  if (unit.starts_with("0 to 1")) return format_percent(value);
  if (unit == "s") return format_seconds(value);
  if (unit == "bytes") return format_bytes(static_cast<uint64_t>(std::clamp(value, 0.0, 1e18)));
  if (value == std::floor(value) && value >= 0 && value < 1e18) return format_short(static_cast<uint64_t>(value));
  if (std::abs(value) < 1000 || std::abs(value) >= 1e18) return small_figure(value);
  return (value < 0 ? "-" : "") + format_short(static_cast<uint64_t>(std::round(std::abs(value))));
}

}  // namespace troupe
