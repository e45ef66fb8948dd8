#pragma once
// Parameters of the algorithms that are chosen by name: each has one list that says key, default, range, meaning and source of
// every parameter. Reading a run file, the schema, keyword arguments and the documentation are made from that list. A
// Parameters is a plain value; use one from one thread at a time.

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

enum class ParameterKind : uint8_t { number = 0, flag = 1, word = 2 };

// The value of a number that nobody has set and that has no default; what that means is in `doc`.
inline constexpr double kUnset = std::numeric_limits<double>::quiet_NaN();

struct Parameter {
  std::string_view key;
  double value = kUnset;                       // the default; of a flag 0 or 1, of a word its index
  std::string_view doc;                        // effect and unit
  std::string_view source = {};                // where the default comes from
  std::array<std::string_view, 4> names = {};  // the same parameter in other code bases; the empty ones end the list
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool open_low = false;  // low itself is refused
  ParameterKind kind = ParameterKind::number;
  std::array<std::string_view, 3> words = {};  // of a word: what it may be
};

// What it accepts, in words: "a number above 0", "a number in [0, 1]", "true or false", "one of: logp, ratio".
std::string expected(const Parameter& parameter);

// A value for every parameter of a list, at first the defaults. The list must outlive it.
class Parameters {
 public:
  // `path` stands before the key in errors ("algorithm.surrogate.clip").
  explicit Parameters(std::span<const Parameter> list = {}, std::string path = {});

  // Sets one by its key or one of its other names. Throws ConfigError for a key that the list does not have (with the
  // nearest one), a value of another kind and a number outside the range or not a number.
  void set(std::string_view key, double value);
  void set(std::string_view key, bool value);
  void set(std::string_view key, std::string_view word);
  void set(std::string_view key, const char* word) { set(key, std::string_view(word)); }

  // The value of a key that the list has, else InvariantError.
  double number(std::string_view key) const;
  bool flag(std::string_view key) const { return number(key) != 0; }
  std::string_view word(std::string_view key) const;
  bool has(std::string_view key) const;
  // Whether it is anything but kUnset.
  bool is_set(std::string_view key) const;
  // The value, or `otherwise` when it is unset or the list does not have the key.
  double number_or(std::string_view key, double otherwise) const;

  std::span<const Parameter> list() const { return list_; }
  std::span<const double> values() const { return values_; }

 private:
  std::size_t find(std::string_view key) const;  // throws ConfigError
  [[noreturn]] void refuse(std::size_t index, const std::string& value) const;

  std::span<const Parameter> list_;
  std::string path_;
  std::vector<double> values_;
};

}  // namespace troupe
