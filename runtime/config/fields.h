#pragma once
// The one list of RunConfig's fields: key, member, limits, help. Reader, writer, overrides, schema and tests loop over
// it. Pure functions; any thread.

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/config/run_config.h"

namespace troupe {

// A JSON object kept as compact text: its keys are someone else's.
struct ObjectText {
  std::string* text;
};

using FieldValue = std::variant<bool*, int64_t*, uint64_t*, double*, std::string*, std::vector<int64_t>*,
                                std::chrono::milliseconds*, std::chrono::microseconds*, ObjectText>;

// What one field accepts. Numbers: an interval (arrays: of each element). Strings: a list of choices, or a pattern with the
// same meaning in words.
struct Limits {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool open_low = false;  // low itself is refused
  bool open_high = false;
  std::vector<std::string_view> choices = {};
  std::string_view pattern = {};  // ECMAScript, anchored
  std::string_view words = {};    // the pattern for a reader: "cpu, cuda or cuda:N"
};

// Longest array a field accepts.
inline constexpr size_t kMaxItems = 32;

struct Field {
  std::string_view path;  // "algorithm.gamma"
  FieldValue value;       // points into the config given to describe()
  Limits limits;
  std::string_view help;  // effect and unit

  // "algorithm" and "gamma"; a top-level field has no section.
  std::string_view section() const;
  std::string_view key() const;
};

// Every field of `config`, in file order.
std::vector<Field> describe(RunConfig& config);

// What a field accepts, for an error: "a number in [0, 1]", "one of: gae, vtrace".
std::string expected(const Field& field);
// The same without the type, for tables: "[0, 1]", "one of: gae, vtrace", or empty.
std::string range_text(const Field& field);
// The shortest text that reads back as the same number: "0.99", "3e-04", "1".
std::string number_text(double value);

}  // namespace troupe
