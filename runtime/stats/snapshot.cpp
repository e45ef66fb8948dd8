#include "runtime/stats/snapshot.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/base/errors.h"
#include "runtime/base/strict_json.h"
#include "runtime/stats/snapshot_fields.h"

namespace troupe {

namespace {

using nlohmann::ordered_json;  // writes NaN and infinities as null

// Names of receivers and environments may come from other machines and may not be UTF-8: invalid bytes are replaced.
std::string json_text(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

// A key of the JSON, and its fields: one without a dot in its path, or those of an object.
struct Key {
  struct Inner {
    std::string name;    // in the object; empty for the one without a dot
    std::string scalar;  // its path with a slash
    const SnapshotField* field;
  };
  std::string name;
  std::vector<Inner> fields;
};

std::vector<Key> keys_of(std::span<const SnapshotField> fields) {
  std::vector<Key> keys;
  for (const SnapshotField& field : fields) {
    const size_t dot = field.path.find('.');
    const std::string outer(field.path.substr(0, dot));
    const std::string inner(dot == std::string_view::npos ? "" : field.path.substr(dot + 1));
    auto key = std::ranges::find(keys, outer, &Key::name);
    if (key == keys.end()) key = keys.insert(key, Key{outer, {}});
    key->fields.push_back({inner, inner.empty() ? outer : outer + '/' + inner, &field});
    TROUPE_CHECK(key->fields.size() == 1 || !(inner.empty() || key->fields[0].name.empty()), outer);
  }
  return keys;
}

// Whether the JSON has null in place of an object whose figures are all null.
bool is_absent(const StatsSnapshot& s, std::string_view key) {
  return (key == "eval" && !s.evaluation) || (key == "evaluating" && !s.evaluating) || (key == "warmup" && !s.warmup) ||
         (key == "verifier" && !s.verifier) || (key == "prompts" && !s.prompts);
}

template <class Number, class... Format>
void append_number(std::string& text, Number number, Format... format) {
  char digits[32];
  text.append(digits, std::to_chars(digits, digits + sizeof digits, number, format...).ptr);
}

// In the form of nlohmann::json with the fewest digits: a whole number has ".0", so that readers tell it from a count.
void append_float(std::string& text, double number) {
  if (!std::isfinite(number)) {
    text += "null";
    return;
  }
  const double size = std::abs(number);
  const bool fixed = size == 0 || (size >= 1e-4 && size < 1e15);
  const size_t begin = text.size();
  append_number(text, number, fixed ? std::chars_format::fixed : std::chars_format::scientific);
  if (fixed && text.find('.', begin) == std::string::npos) text += ".0";
}

bool is_plain(const std::string& value) {
  return std::ranges::all_of(value, [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
}

void append_text(std::string& text, const std::string& value) {
  text += is_plain(value) ? '"' + value + '"' : json_text(value);
}

// As readers of the JSON get it: TensorBoard refuses a name that is not UTF-8.
std::string readable(const std::string& key) {
  return is_plain(key) ? key : ordered_json::parse(json_text(key)).get<std::string>();
}

std::string joined(const std::string& path, const std::string& key) { return path.empty() ? key : path + '/' + key; }

// The text of a value, and its numbers among the scalars if there is a map of them. Building a tree of the whole
// snapshot and writing that takes several times as long.
void append(std::string& text, const ordered_json& value, const std::string& path,
            std::map<std::string, double>* scalars) {
  if (value.is_object()) {
    char before = '{';
    for (const auto& [key, inner] : value.items()) {
      text += before;
      append_text(text, key);
      text += ':';
      append(text, inner, scalars == nullptr ? path : joined(path, readable(key)), scalars);
      before = ',';
    }
    text += value.empty() ? "{}" : "}";
    return;
  }
  if (value.is_number_float())
    append_float(text, value.get<double>());
  else if (value.is_number_unsigned())
    append_number(text, value.get<uint64_t>());
  else if (value.is_number())
    append_number(text, value.get<int64_t>());
  else if (value.is_string())
    append_text(text, value.get_ref<const std::string&>());
  else
    text += json_text(value);
  if (scalars != nullptr && value.is_number() && std::isfinite(value.get<double>()))
    (*scalars)[path] = value.get<double>();
}

std::string text_of(const StatsSnapshot& s, std::map<std::string, double>* scalars) {
  static const std::vector<Key> keys = keys_of(snapshot_fields());
  std::string text;
  text.reserve(4096);
  char before = '{';
  for (const Key& key : keys) {
    ((text += before) += '"').append(key.name) += "\":";
    before = ',';
    if (is_absent(s, key.name)) {
      text += "null";
      continue;
    }
    char before_inner = '{';
    for (const Key::Inner& inner : key.fields) {
      if (!inner.name.empty()) ((text += before_inner) += '"').append(inner.name) += "\":";
      before_inner = ',';
      append(text, inner.field->access.get(s), inner.scalar, scalars);
    }
    if (!key.fields[0].name.empty()) text += '}';
  }
  text += '}';
  return text;
}

std::string text_of(const ordered_json& value) {
  std::string text;
  append(text, value, "", nullptr);
  return text;
}

// The object at that key.
ordered_json object_of(const StatsSnapshot& s, std::string_view key) {
  const std::string path = std::string(key) + '.';
  const std::string_view paths[] = {path};
  ordered_json result = ordered_json::object();
  put_figures(s, paths, result);
  return result[std::string(key)];
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

std::string to_json(const StatsSnapshot& snapshot) { return text_of(snapshot, nullptr); }

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
  return text_of(object_of(s, "eval"));
}

std::string to_json(const FailedEvaluations& failed) {
  StatsSnapshot s;
  s.failed_evaluations = failed;
  return text_of(object_of(s, "failed_evaluations"));
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
  return text_of(value);
}

SnapshotLine line_of(const StatsSnapshot& snapshot) {
  SnapshotLine line;
  line.json = text_of(snapshot, &line.scalars);
  return line;
}

std::map<std::string, double> scalars_of(const std::string& json) {
  std::map<std::string, double> scalars;
  std::string text;  // not needed
  append(text, ordered_json::parse(json), "", &scalars);
  return scalars;
}

}  // namespace troupe
