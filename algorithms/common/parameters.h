#pragma once
// The settings of one entry of a table of this folder: declared as data, so that a run file, a schema, a Python call and the
// documentation read the same list. Plain values; any thread.

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace troupe {

// The default of a number that may stay unset; what that means is in `doc`. In a run file: null.
inline constexpr double kUnset = std::numeric_limits<double>::quiet_NaN();

// One declared setting.
struct Parameter {
  enum class Kind : uint8_t { number = 0, integer = 1, flag = 2, choice = 3 };

  std::string_view key;
  Kind kind = Kind::number;
  double default_value = 0;  // a flag: 0 or 1; a choice: its index in `choices`
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool open_low = false;  // low itself is refused
  std::span<const std::string_view> choices = {};
  std::string_view doc = {};     // effect and unit, one line
  std::string_view source = {};  // where the default comes from
  std::string_view alias = {};   // other keys that mean the same, separated by commas: "clip_ratio_low,eps_low"
};

using ParameterValue = std::variant<bool, int64_t, double, std::string>;

// What a parameter accepts, for errors and tables: "a number in [0, 1]", "true or false", "one of: zero, carry".
std::string expected(const Parameter& parameter);
// Its default as a run file spells it; kUnset stays what it is.
ParameterValue default_value(const Parameter& parameter);

// A value for each parameter of a declared list, which must outlive it; the defaults until set.
class ParameterValues {
 public:
  explicit ParameterValues(std::span<const Parameter> declared = {});

  // Throws ConfigError "<path>.<key>: ..." for an unknown key (with the nearest known one), another type, a number outside the
  // range, NaN and an unknown choice. A whole number is accepted where a number is wanted.
  void set(std::string_view path, std::string_view key, const ParameterValue& value);

  // The value of a declared key of that kind; any other key throws InvariantError.
  double number(std::string_view key) const;
  int64_t integer(std::string_view key) const;
  bool flag(std::string_view key) const;
  std::string_view choice(std::string_view key) const;

  // The number, or `otherwise` while it is unset.
  double number_or(std::string_view key, double otherwise) const;
  // Whether the list declares `key` itself.
  bool has(std::string_view key) const;
  std::span<const Parameter> declared() const { return declared_; }

 private:
  std::size_t index_of(std::string_view key, Parameter::Kind kind) const;

  std::span<const Parameter> declared_;
  std::vector<double> values_;
};

}  // namespace troupe
