#pragma once
// Readers of flag values: each returns the value of `text`, or throws ConfigError, which begins with `flag`, like
// --seed. Pure functions; any thread. Readers of addresses are in tools/cli/address.h.

#include <cstdint>
#include <string>
#include <string_view>

namespace troupe {

// Throws ConfigError: "flag: what".
[[noreturn]] void refuse_flag(std::string_view flag, const std::string& what);

// An integer in [low, high].
int64_t parse_integer(std::string_view flag, const std::string& text, int64_t low, int64_t high);

// The reader of an integer in [low, high].
inline auto integer_in(int64_t low, int64_t high) {
  return [low, high](std::string_view flag, const std::string& text) { return parse_integer(flag, text, low, high); };
}

uint64_t parse_seed(std::string_view flag, const std::string& text);

// A number of ranks, as trainer.ranks accepts it.
int64_t parse_ranks(std::string_view flag, const std::string& text);

// Seconds in (0, 3600], fractions included.
double parse_seconds(std::string_view flag, const std::string& text);

// A temperature of sampling, as generation.temperature accepts it.
double parse_temperature(std::string_view flag, const std::string& text);

// The same or 0, as evaluation.temperature accepts it.
double parse_evaluation_temperature(std::string_view flag, const std::string& text);

// The name of a run, which can be that of its folder: without a slash, and neither . nor ..
std::string parse_run_name(std::string_view flag, const std::string& text);

// A tag of a run: not empty, and without commas, spaces and control characters.
std::string parse_tag(std::string_view flag, const std::string& text);

// cpu, cuda or cuda:N.
std::string parse_device(std::string_view flag, const std::string& text);

// The reader of a path to `what`, like "a folder". An empty path is refused.
inline auto path_to(const char* what) {
  return [what](std::string_view flag, const std::string& text) {
    if (text.empty()) refuse_flag(flag, std::string("is empty, expected ") + what);
    return text;
  };
}
inline constexpr const char* kRunFolder = "the folder of a run";

// The text itself.
inline std::string any_text(std::string_view, const std::string& text) { return text; }

}  // namespace troupe
