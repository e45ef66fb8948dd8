#include "tools/cli/sweep_points.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <set>

#include <nlohmann/json.hpp>

#include "runtime/base/rng.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"
#include "tools/cli/flag_values.h"

namespace troupe {

namespace {

std::optional<double> number_in(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole_text = error == std::errc() && end == text.data() + text.size();
  return whole_text && std::isfinite(value) ? std::optional(value) : std::nullopt;
}

[[noreturn]] void refuse_value(const std::string& path, const std::string& value, const std::string& why) {
  refuse_flag("--set", printable(path) + '=' + printable(value) + ": " + why);
}

Words list_in(const std::string& path, const std::string& text) {
  Json list;
  try {
    list = parse_strict(text, "");
  } catch (const ConfigError&) {
    refuse_value(path, text, "is not a JSON list, expected one like [1e-4, 3e-4] or [\"a\", \"b\"]");
  }
  if (list.empty()) refuse_value(path, text, "has no value");
  Words values;
  for (const Json& each : list) {
    values.push_back(each.is_string() ? each.get<std::string>() : each.dump());
    if (std::ranges::count(values, values.back()) > 1) refuse_value(path, text, "has a value twice");
  }
  return values;
}

// "1e-5..1e-3"; nothing for other texts.
std::optional<SweptRange> range_in(const std::string& path, const std::string& text) {
  const size_t dots = text.find("..");
  if (dots == text.npos) return std::nullopt;
  const std::string_view low_text = std::string_view(text).substr(0, dots),
                         high_text = std::string_view(text).substr(dots + 2);
  const auto low = number_in(low_text), high = number_in(high_text);
  if (!low || !high) return std::nullopt;
  if (!(*low < *high)) refuse_value(path, text, "has no value between its limits");
  const bool whole = low_text.find_first_of(".eE") == low_text.npos && high_text.find_first_of(".eE") == high_text.npos;
  return SweptRange{*low, *high, whole};
}

std::string drawn(const SweptRange& range, Rng& rng) {
  const double share = rng.uniform_double();
  const double value = range.low > 0
                           ? std::exp(std::log(range.low) + share * (std::log(range.high) - std::log(range.low)))
                           : range.low + share * (range.high - range.low);
  char text[40];
  std::snprintf(text, sizeof text, range.whole ? "%.0f" : "%.3g", value);
  const double rounded = *number_in(text);
  if (rounded >= range.low && rounded <= range.high) return text;
  std::snprintf(text, sizeof text, "%.9g", rounded < range.low ? range.low : range.high);
  return text;
}

// The part of the path after the last dot, unless another setting ends with the same.
std::string short_name(const std::vector<SweptSetting>& swept, const std::string& path) {
  const auto last = [](const std::string& each) { return each.substr(each.rfind('.') + 1); };
  const bool shared = std::ranges::count_if(swept, [&](const auto& each) { return last(each.path) == last(path); }) > 1;
  return shared ? path : last(path);
}

}  // namespace

SweptSettings parse_swept(const Words& settings, bool random) {
  SweptSettings result;
  for (const std::string& setting : settings) {
    const size_t equals = setting.find('=');
    const std::string path = setting.substr(0, equals),
                      value = equals == setting.npos ? "" : setting.substr(equals + 1);
    const bool list = value.starts_with('[');
    const std::optional<SweptRange> range = list ? std::nullopt : range_in(path, value);
    if (range && !random)
      refuse_value(path, value, "is a range, which needs --random N; a list gives values: [1e-4, 1e-3]");
    if (!list && !range) {
      result.fixed.push_back(setting);
      continue;
    }
    if (std::ranges::count(result.swept, path, &SweptSetting::path) > 0)
      refuse_value(path, value, "is given more than once");
    result.swept.push_back({path, list ? list_in(path, value) : Words{}, range});
  }
  if (random && result.swept.empty())
    refuse_flag("--random", "nothing is drawn; give a range or a list, like --set trainer.policy_lr=1e-5..1e-3");
  return result;
}

std::vector<SweepPoint> grid_of(const std::vector<SweptSetting>& swept) {
  std::vector<SweepPoint> points = {{}};
  for (const SweptSetting& setting : swept) {
    std::vector<SweepPoint> longer;
    for (const SweepPoint& point : points)
      for (const std::string& value : setting.values) {
        longer.push_back(point);
        longer.back().push_back(value);
      }
    points = std::move(longer);
  }
  return points;
}

std::vector<SweepPoint> random_points(const std::vector<SweptSetting>& swept, size_t count, uint64_t seed) {
  constexpr size_t kAttempts = 100;  // for each point
  std::vector<SweepPoint> points;
  std::set<SweepPoint> seen;
  for (size_t attempt = 0; points.size() < count && attempt < kAttempts * count; ++attempt) {
    Rng rng(derive_key(seed, "sweep", attempt));
    SweepPoint point;
    for (const SweptSetting& setting : swept)
      point.push_back(setting.range ? drawn(*setting.range, rng) : setting.values[rng.below(setting.values.size())]);
    if (seen.insert(point).second) points.push_back(std::move(point));
  }
  return points;
}

std::string run_name_of(const std::vector<SweptSetting>& swept, const SweepPoint& point, uint64_t seed) {
  std::string name;
  for (size_t i = 0; i < swept.size(); ++i) name += short_name(swept, swept[i].path) + '=' + point[i] + '_';
  return in_folder_name(name + "seed=" + std::to_string(seed));
}

std::string in_folder_name(std::string text) {
  for (char& c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && std::string_view("=_.+-").find(c) == std::string_view::npos)
      c = '-';
  return text;
}

}  // namespace troupe
