#include "runtime/stats/snapshot.h"

#include <cmath>
#include <string_view>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/strict_json.h"
#include "runtime/stats/snapshot_fields.h"

namespace troupe {

namespace {

using nlohmann::ordered_json;  // writes NaN and infinities as null

ordered_json json_of(const StatsSnapshot& s) {
  ordered_json result = ordered_json::object();
  std::string_view name;  // of `outer`: looking up a key takes as long as there are keys
  ordered_json* outer = nullptr;
  for (const SnapshotField& field : snapshot_fields()) {
    const size_t dot = field.path.find('.');
    const std::string_view first = field.path.substr(0, dot);
    if (outer == nullptr || name != first) outer = &result[std::string(first)];
    name = first;
    ordered_json& place = dot == std::string_view::npos ? *outer : (*outer)[std::string(field.path.substr(dot + 1))];
    place = field.access.get(s);
  }
  // In place of objects whose figures are all null:
  if (!s.evaluation) result["eval"] = nullptr;
  if (!s.evaluating) result["evaluating"] = nullptr;
  if (!s.warmup) result["warmup"] = nullptr;
  if (!s.verifier) result["verifier"] = nullptr;
  if (!s.prompts) result["prompts"] = nullptr;
  return result;
}

// Names of receivers and environments may come from other machines and may not be UTF-8: invalid bytes are replaced.
std::string json_text(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

void collect(const std::string& path, const ordered_json& value, std::map<std::string, double>& scalars) {
  if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) collect(path.empty() ? key : path + '/' + key, inner, scalars);
  } else if (value.is_number() && std::isfinite(value.get<double>())) {
    scalars[path] = value.get<double>();
  }
}

}  // namespace

void forget_times(StatsSnapshot& s) {
  for (double* time : {&s.elapsed_seconds, &s.eta_seconds, &s.env_steps_per_second, &s.env_steps_per_second_60s,
                       &s.seconds_to_first_update, &s.updates_per_second, &s.trainer_wait_fraction, &s.inference_p50_ms,
                       &s.scorer_p50_ms, &s.inference_p99_ms, &s.late_wait_seconds, &s.weights_waited_seconds,
                       &s.answer_tokens_per_second, &s.trained_tokens_per_second})
    *time = kUnknown;
  s.ranks_up = s.ranks_total = 0;  // of which no result depends either
  s.rss_bytes = s.worker_bytes = s.environment_bytes = s.verifier_bytes = 0;
  s.busy = {};
  s.recent = {};
  if (s.told_bottleneck) s.told_bottleneck->share = s.told_bottleneck->gain = kUnknown;
  s.histograms.forget_times();
  s.stages = {};
  s.actors.reset();
  s.joined_actors.reset();
  s.evaluating.reset();
  s.verifier.reset();
  if (s.warmup) s.warmup->seconds = 0;
}

std::string to_json(const StatsSnapshot& snapshot) { return json_text(json_of(snapshot)); }

StatsSnapshot snapshot_of(const std::string& json, const ExperienceWords& words) {
  const ordered_json tree = parse_or_null(json);
  if (!tree.is_object()) throw ConfigError("a snapshot is not a JSON object");
  const auto entry = [](const ordered_json& object, std::string_view key) {
    const auto found = object.is_object() ? object.find(std::string(key)) : object.end();
    return found == object.end() ? ordered_json() : *found;
  };
  StatsSnapshot s;
  s.words = &words;
  for (const SnapshotField& field : snapshot_fields()) {
    const size_t dot = field.path.find('.');
    const ordered_json outer = entry(tree, field.path.substr(0, dot));
    field.access.set(s, dot == std::string_view::npos ? outer : entry(outer, field.path.substr(dot + 1)));
  }
  return s;
}

std::string to_json(const EvaluationResult& result) {
  const StatsSnapshot s{.evaluation = result};
  return json_text(json_of(s)["eval"]);
}

std::string to_json(const FailedEvaluations& failed) {
  StatsSnapshot s;
  s.failed_evaluations = failed;
  return json_text(json_of(s)["failed_evaluations"]);
}

EvaluationResult evaluation_result_of(const std::string& json) {
  const ordered_json value = ordered_json::parse(json, nullptr, false);
  const auto count = [&](const char* name) {
    if (!value.is_object() || !value.contains(name) || !value[name].is_number_unsigned())
      throw ConfigError(std::string("an evaluation has no ") + name);
    return value[name].get<uint64_t>();
  };
  const auto number = [](const ordered_json& figure) { return figure.is_number() ? figure.get<double>() : kUnknown; };
  EvaluationResult result;
  result.updates = count("updates");
  result.episodes = count("episodes");
  result.failed_episodes = count("failed_episodes");
  result.env_steps = count("env_steps");
  result.return_mean = number(value.value("return_mean", ordered_json()));
  result.return_std = number(value.value("return_std", ordered_json()));
  result.length_mean = number(value.value("length_mean", ordered_json()));
  result.cut_fraction = number(value.value("cut_fraction", ordered_json()));
  result.success_rate = number(value.value("success_rate", ordered_json()));
  const ordered_json pass_at = value.value("pass_at", ordered_json::object());
  for (const auto& [k, passed] : pass_at.items()) result.pass_at.emplace_back(std::stoull(k), number(passed));
  return result;
}

FailedEvaluations failed_evaluations_of(const std::string& json) {
  const ordered_json value = ordered_json::parse(json, nullptr, false);
  const auto number = [&](const char* name) {
    const ordered_json found = value.is_object() ? value.value(name, ordered_json()) : ordered_json();
    return found.is_number_unsigned() ? std::optional(found.get<uint64_t>()) : std::nullopt;
  };
  if (!number("count")) throw ConfigError("its failed_evaluations have no count");
  FailedEvaluations failed;
  failed.count = *number("count");
  failed.updates = number("updates").value_or(0);
  failed.env_steps = number("env_steps").value_or(0);
  failed.episodes = number("episodes").value_or(0);
  failed.failed_episodes = number("failed_episodes").value_or(0);
  if (value.contains("error") && value["error"].is_string()) failed.error = value["error"].get<std::string>();
  return failed;
}

uint64_t count_in(const std::string& json, const std::string& name) {
  const ordered_json value = ordered_json::parse(json, nullptr, false);
  if (!value.is_object() || !value.contains(name) || !value[name].is_number_unsigned())
    throw ConfigError("a line of metrics.jsonl has no " + name);
  return value[name].get<uint64_t>();
}

std::string with_evaluation(const std::string& json, const EvaluationResult& result) {
  ordered_json value = ordered_json::parse(json);
  value["eval"] = ordered_json::parse(to_json(result));
  return json_text(value);
}

std::map<std::string, double> scalars_of(const StatsSnapshot& snapshot) {
  std::map<std::string, double> scalars;
  collect("", json_of(snapshot), scalars);
  return scalars;
}

std::map<std::string, double> scalars_of(const std::string& json) {
  std::map<std::string, double> scalars;
  collect("", ordered_json::parse(json), scalars);
  return scalars;
}

}  // namespace troupe
