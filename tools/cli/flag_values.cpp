#include "tools/cli/flag_values.h"

#include <charconv>
#include <optional>
#include <system_error>

#include "models/devices.h"
#include "models/learning/trainer_config.h"
#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

std::optional<double> number_in(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

void refuse_flag(std::string_view flag, const std::string& what) { throw ConfigError(std::string(flag) + ": " + what); }

int64_t parse_integer(std::string_view flag, const std::string& text, int64_t low, int64_t high) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string wanted = ", expected an integer in [" + std::to_string(low) + ", " + std::to_string(high) + ']';
  const bool whole = end == text.data() + text.size() && !text.empty();
  if (error == std::errc::invalid_argument || !whole)
    refuse_flag(flag, '"' + printable(text) + "\" is not an integer" + wanted);
  if (error != std::errc() || value < low || value > high)
    refuse_flag(flag, printable(text) + " is out of range" + wanted);
  return value;
}

uint64_t parse_seed(std::string_view flag, const std::string& text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty())
    refuse_flag(flag, '"' + printable(text) + "\" is not a seed, expected an integer in [0, 18446744073709551615]");
  return value;
}

int64_t parse_ranks(std::string_view flag, const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 || value > kMostShards)
    refuse_flag(flag, '"' + printable(text) + "\" is not a number of ranks, expected an integer in [1, " +
                          std::to_string(kMostShards) + ']');
  return value;
}

double parse_seconds(std::string_view flag, const std::string& text) {
  const std::optional<double> value = number_in(text);
  if (!value || !(*value > 0) || *value > 3600)
    refuse_flag(flag, '"' + printable(text) + "\" is not valid, expected a number of seconds in (0, 3600]");
  return *value;
}

double parse_temperature(std::string_view flag, const std::string& text) {
  const std::optional<double> value = number_in(text);
  if (!value || !(*value >= 0.001) || *value > 100)
    refuse_flag(flag, '"' + printable(text) + "\" is not valid, expected a number in [0.001, 100]");
  return *value;
}

double parse_evaluation_temperature(std::string_view flag, const std::string& text) {
  const std::optional<double> value = number_in(text);
  if (value == 0.0) return 0;
  if (!value || !(*value >= 0.001) || *value > 100)
    refuse_flag(flag, '"' + printable(text) + "\" is not valid, expected 0 or a number in [0.001, 100]");
  return *value;
}

std::string parse_run_name(std::string_view flag, const std::string& text) {
  constexpr size_t kMost = 200;
  const auto refuse = [&](const std::string& why) { refuse_flag(flag, '"' + printable(text) + "\": " + why); };
  if (text.empty()) refuse_flag(flag, "is empty, expected a name like first_try");
  if (text.size() > kMost) refuse("is longer than 200 bytes");
  if (text.find('/') != text.npos) refuse("has a slash; --run gives the folder, --name only what the run is called");
  if (text.front() == '.') refuse("begins with a dot, which would hide its folder");
  if (const std::string strange = strange_character(text); !strange.empty()) refuse("has " + strange);
  return text;
}

std::string parse_tag(std::string_view flag, const std::string& text) {
  constexpr size_t kMost = 100;
  const auto refuse = [&](const std::string& why) { refuse_flag(flag, '"' + printable(text) + "\": " + why); };
  if (text.empty()) refuse_flag(flag, "is empty, expected a word like baseline");
  if (text.size() > kMost) refuse("is longer than 100 bytes");
  if (text.find_first_of(", ") != text.npos) refuse("has a comma or a space; give --tag once for each tag");
  if (const std::string strange = strange_character(text); !strange.empty()) refuse("has " + strange);
  return text;
}

std::string parse_device(std::string_view flag, const std::string& text) {
  Setting device = device_name();
  device.kind = Setting::Kind::text;
  return std::get<std::string>(checked(device, text, std::string(flag)));
}

}  // namespace troupe
