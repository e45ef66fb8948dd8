#include "tools/top/figures.h"

#include <algorithm>
#include <array>
#include <cmath>

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

std::string json_text(const nlohmann::ordered_json& value, std::string_view unit, std::string_view label) {
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_number()) return "-";
  const std::string text = figure_text(value.get<double>(), unit);
  if (unit != "tokens" || label.find(unit) != label.npos) return text;
  return text + (text == "1" ? " token" : " tokens");
}

bool is_known(const nlohmann::ordered_json& value) {
  if (value.is_number()) return std::isfinite(value.get<double>());
  return !value.is_null() && value != "";
}

nlohmann::ordered_json value_at(const StatsSnapshot& snapshot, std::string_view path) {
  const SnapshotField* field = field_at(path);
  return field == nullptr ? nlohmann::ordered_json() : field->access.get(snapshot);
}

std::string words_of(std::string_view path) {
  std::string words(path);
  std::ranges::replace_if(words, [](char c) { return c == '_' || c == '.'; }, ' ');
  return words;
}

struct NumberBelow {
  std::string_view path;
  std::string name;  // the rest of the path
  double value;
};

// The numbers whose path begins with that.
std::vector<NumberBelow> numbers_below(const StatsSnapshot& snapshot, std::string_view beginning) {
  std::vector<NumberBelow> numbers;
  for (const SnapshotField& field : snapshot_fields())
    if (field.path.starts_with(beginning))
      if (const double value = figure_of(snapshot, field.path); std::isfinite(value))
        numbers.push_back({field.path, words_of(field.path.substr(beginning.size())), value});
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
  const nlohmann::ordered_json value = value_at(snapshot, path);
  return value.is_number() ? value.get<double>() : kUnknown;
}

std::vector<FigureText> figures_of_group(const StatsSnapshot& snapshot, std::string_view group) {
  std::vector<FigureText> texts;
  for (const SnapshotField& field : snapshot_fields()) {
    if (field.group != group) continue;
    const nlohmann::ordered_json value = field.access.get(snapshot);
    const std::string label = label_of(field.path, *snapshot.words);
    if (value.is_object())
      for (const auto& [name, entry] : value.items())
        texts.push_back({label + ", " + name, json_text(entry, field.unit, label)});
    else if (is_known(value))
      texts.push_back({label, json_text(value, field.unit, label)});
  }
  return texts;
}

std::vector<FigureText> entries_at(const StatsSnapshot& snapshot, std::string_view path) {
  std::vector<FigureText> texts;
  const nlohmann::ordered_json value = value_at(snapshot, path);
  if (value.is_object())
    for (const auto& [name, entry] : value.items()) texts.push_back({name, json_text(entry, unit_of(path), name)});
  return texts;
}

std::string words_at(const StatsSnapshot& snapshot, std::string_view path) {
  const nlohmann::ordered_json value = value_at(snapshot, path);
  return value.is_string() ? value.get<std::string>() : "";
}

std::vector<FigureShare> busy_shares(const StatsSnapshot& snapshot) {
  std::vector<FigureShare> shares;
  for (const auto& [path, name, share] : numbers_below(snapshot, kBusy))
    shares.push_back({name, label_of(path, *snapshot.words), share, format_percent(share)});
  return shares;
}

std::vector<FigureShare> ledger_shares(const StatsSnapshot& snapshot) {
  const auto produced = static_cast<double>(snapshot.ledger.produced);
  std::vector<FigureShare> shares;
  for (const auto& [path, name, count] : numbers_below(snapshot, "ledger."))
    if (count > 0 && name != "produced")
      shares.push_back({name, label_of(path, *snapshot.words), count / produced, figure_text(count, "samples")});
  return shares;
}

std::string label_of(std::string_view path, const ExperienceWords& words) {
  const Figure* figure = find_figure(path);
  if (figure == nullptr) return words_of(path);
  return words.tokens ? figure->token_label : figure->label;
}

std::string unit_of(std::string_view path) {
  const Figure* figure = find_figure(path);
  return figure == nullptr ? "" : figure->unit;
}

}  // namespace troupe
