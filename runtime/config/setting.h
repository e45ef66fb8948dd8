#pragma once
// The description of a setting as data: what it accepts, what it does, where its default comes from, when it may
// change. Config files and the parameters of algorithms and environments are read, written and documented by these
// descriptions. JSON is in runtime/config/setting_json.h, because the Python package is built without it. Plain values;
// any thread.

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace troupe {

// When the value of a setting may change.
enum class Change : uint8_t {
  never,                           // fixed when the run begins
  before_first_update,             // also once a warm-up has begun, which does not depend on it; never if deterministic
  at_resume,                       // whenever the run is resumed
  at_resume_unless_deterministic,  // the same, but never in a deterministic run, whose results depend on it
  while_running,                   // at any time
};

// The default of a number that may stay unset. In a config file: null.
inline constexpr double kUnset = std::numeric_limits<double>::quiet_NaN();

// Larger integers are certainly mistakes. Sums of a few values up to this limit cannot overflow.
inline constexpr double kMostCount = 1e12;

// Longest list of integers that a setting accepts.
inline constexpr size_t kMaxItems = 32;

template <size_t N>
struct Word {
  char text[N]{};
  consteval Word(const char (&word)[N]) { std::ranges::copy(word, text); }
};

// A list of words that can be part of a constant: kWords<"l2", "huber">.
template <Word... words>
inline constexpr std::array<std::string_view, sizeof...(words)> kWords = {
    std::string_view(words.text, sizeof(words.text) - 1)...};

struct Setting {
  enum class Kind : uint8_t {
    boolean,
    integer,
    unsigned_integer,  // all 64 bits
    number,
    text,
    integers,  // a list
    milliseconds,
    microseconds,
    object,  // its keys are not settings of this list
  };

  std::string_view key;
  Kind kind = Kind::number;
  // Of parameters: a boolean's 0 or 1, the index of a text in `choices`, kUnset. A section of config files has its
  // defaults in its struct.
  double default_value = 0;
  double low = -std::numeric_limits<double>::infinity();  // of each item of a list
  double high = std::numeric_limits<double>::infinity();
  bool open_low = false;  // low itself is refused
  bool open_high = false;
  std::span<const std::string_view> choices = {};    // the texts accepted; empty: see `pattern`
  std::string_view pattern = {};                     // ECMAScript, anchored
  std::string_view words = {};                       // the pattern in words: "cpu, cuda or cuda:N"
  std::string_view help = {};                        // effect and unit, one line
  std::string_view unset = {};                       // what null means; empty: null is refused
  std::string_view source = {};                      // where the default comes from
  std::span<const std::string_view> aliases = {};    // other keys that are accepted and mean the same
  std::span<const std::string_view> elsewhere = {};  // names in other libraries: refused, with a suggestion
  Change change = Change::never;
  std::string_view owner = {};  // the folder whose code reads it: "models/networks"
};

// A plain value, given or read; monostate is null.
using SettingValue = std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string>;

// The value in the type of the kind: bool, int64_t (integers, durations), uint64_t, double or std::string; monostate if
// the setting may be unset. 1e6 and 2.0 are integers, and an integer is a number. A number without an upper limit may
// be infinite, which Python can pass but JSON and YAML cannot. Throws ConfigError for anything else: "WHERE: 1.5 is out
// of range, expected a number in [0, 1]"; `shown` is the value as it was written.
SettingValue checked(const Setting& setting, const SettingValue& value, const std::string& where,
                     const std::string& shown);
SettingValue checked(const Setting& setting, const SettingValue& value, const std::string& where);

// What the setting accepts, for errors: "a number in [0, 1]", "one of: gae, vtrace".
std::string expected(const Setting& setting);
// The same without the type, for tables: "[0, 1]", "one of: gae, vtrace", or empty.
std::string range_text(const Setting& setting);
// "integer", "number", "boolean", "string", "array of integer", "duration" or "object".
std::string type_text(const Setting& setting);
// Its effect, and what null means: "importance ratios below 1 - clip_low are clipped; unset: the surrogate's own".
std::string help_text(const Setting& setting);
// Whether `key` is its key or one of its aliases.
bool is_called(const Setting& setting, std::string_view key);

// The default of a parameter; kUnset stays unset.
SettingValue default_value(const Setting& setting);
// The same as JSON text.
std::string default_text(const Setting& setting);

// The shortest text that reads back as the same number: "0.99", "3e-04", "1".
std::string number_text(double value);
// The same as JSON that reads back as a floating-point number: "1.0".
std::string json_number_text(double value);

// The error for a key that `owner` does not have: "PATH.gama: unknown key, did you mean PATH.gamma?", "PATH.x:
// unknown key, clip has: clip, clip_low" or "PATH.x: unknown key, remax has no parameters". `known` lists the keys,
// `also` further names that count for suggestions.
std::string unknown_key(const std::string& path, std::string_view key, std::string_view owner,
                        const std::vector<std::string>& known, const std::vector<std::string>& also = {});
// The same if `settings` are all settings.
std::string unknown_key(const std::string& path, std::string_view key, std::string_view owner,
                        std::span<const Setting> settings);

// A setting as texts, for help and documentation. Owns them.
struct SettingInfo {
  std::string path;      // "algorithm.gamma", or the key of a parameter
  std::string type;      // type_text()
  std::string fallback;  // default, as JSON text
  std::string range;     // range_text()
  std::string help;      // help_text()
  std::string needs;     // who reads it: needs_text() of runtime/config/effects.h; empty for parameters
  std::string source;    // where the default comes from, or empty
  std::vector<std::string> aliases, elsewhere;
  Change change = Change::never;
  std::string owner;  // the folder whose code reads it
};
SettingInfo info_of(const Setting& setting, std::string path, std::string fallback);

}  // namespace troupe
