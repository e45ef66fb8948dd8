#include "tools/top/figures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>

#include "models/learning/run_figures.h"
#include "runtime/base/text_format.h"
#include "runtime/stats/snapshot_fields.h"

namespace troupe {

namespace {

constexpr std::string_view kLearner = "learner.", kBusy = "busy.";

constexpr std::array<std::string_view, 15> kLearning = {
    "episodes.return_mean", "eval.return_mean",    "episodes.success_rate", "eval.success_rate",
    "episodes.length_mean", "learner.kl",          "learner.clip_fraction", "learner.entropy",
    "learner.ess",          "learner.policy_loss", "learner.value_loss",    "learner.explained_variance",
    "learner.grad_norm",    "learner.policy_lr",   "learner.reference_kl"};
constexpr std::array<std::string_view, 6> kFlow = {"env_steps_per_second",  "answers.tokens_per_second",
                                                   "updates_per_second",    "lag.p95",
                                                   "trainer_wait_fraction", "inference.p99_ms"};

const SnapshotField* field_at(std::string_view path) {
  const auto fields = snapshot_fields();
  const auto found = std::ranges::find(fields, path, &SnapshotField::path);
  return found == fields.end() ? nullptr : &*found;
}

std::string json_text(const nlohmann::ordered_json& value, std::string_view unit) {
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number()) return figure_text(value.get<double>(), unit);
  return "-";
}

// The numbers whose path begins with that, by the rest of it.
std::vector<std::pair<std::string, double>> numbers_below(const StatsSnapshot& snapshot, std::string_view beginning) {
  std::vector<std::pair<std::string, double>> numbers;
  for (const SnapshotField& field : snapshot_fields())
    if (field.path.starts_with(beginning))
      if (const double value = figure_of(snapshot, field.path); std::isfinite(value))
        numbers.emplace_back(label_of(field.path.substr(beginning.size())), value);
  return numbers;
}

}  // namespace

std::span<const std::string_view> learning_curves() { return kLearning; }
std::span<const std::string_view> flow_curves() { return kFlow; }

const std::vector<std::string>& curve_paths() {
  static const std::vector<std::string> paths = [] {
    std::vector<std::string> all = {"env_steps"};
    all.insert(all.end(), kLearning.begin(), kLearning.end());
    all.insert(all.end(), kFlow.begin(), kFlow.end());
    return all;
  }();
  return paths;
}

double figure_of(const StatsSnapshot& snapshot, std::string_view path) {
  if (path.starts_with(kLearner)) {
    const auto found = snapshot.learner.find(std::string(path.substr(kLearner.size())));
    return found == snapshot.learner.end() ? kUnknown : found->second;
  }
  const SnapshotField* field = field_at(path);
  if (field == nullptr) return kUnknown;
  const nlohmann::ordered_json value = field->access.get(snapshot);
  return value.is_number() ? value.get<double>() : kUnknown;
}

std::vector<FigureText> figures_of_group(const StatsSnapshot& snapshot, std::string_view group) {
  std::vector<FigureText> texts;
  for (const SnapshotField& field : snapshot_fields()) {
    if (field.group != group) continue;
    const nlohmann::ordered_json value = field.access.get(snapshot);
    const std::string label = label_of(field.path);
    if (value.is_object())
      for (const auto& [name, entry] : value.items())
        texts.push_back({label + ", " + name, json_text(entry, field.unit)});
    else if (!value.is_null() && value != "")
      texts.push_back({label, json_text(value, field.unit)});
  }
  return texts;
}

std::vector<FigureShare> busy_shares(const StatsSnapshot& snapshot) {
  std::vector<FigureShare> shares;
  for (const auto& [name, share] : numbers_below(snapshot, kBusy))
    shares.push_back({name, share, format_percent(share)});
  return shares;
}

std::vector<FigureShare> ledger_shares(const StatsSnapshot& snapshot) {
  const auto produced = static_cast<double>(snapshot.ledger.produced);
  std::vector<FigureShare> shares;
  for (const auto& [name, count] : numbers_below(snapshot, "ledger."))
    if (count > 0 && name != "produced") shares.push_back({name, count / produced, figure_text(count, "samples")});
  return shares;
}

std::string label_of(std::string_view path) {
  std::string label(path.starts_with(kLearner) ? path.substr(kLearner.size()) : path);
  std::ranges::replace_if(label, [](char c) { return c == '_' || c == '.'; }, ' ');
  return label;
}

std::string unit_of(std::string_view path) {
  const Figure* figure = find_figure(path);
  return figure == nullptr ? "" : figure->unit;
}

}  // namespace troupe
