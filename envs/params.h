#pragma once
// EnvParams: the JSON object `env.params` of a run's config, read strictly by the environment that it is for, with those
// of `evaluation.env_params` in place of some where it is for an evaluation. Ask for every parameter once, then call
// finish(), which refuses the keys nobody asked for. Errors begin with the key's path.

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace troupe {

class EnvParams {
 public:
  // Keys of `evaluation` go before those of `json`. Throws ConfigError when either is not one JSON object of plain
  // values, or repeats a key.
  explicit EnvParams(const std::string& json = "{}", const std::string& evaluation = "{}");

  // The parameter, or `fallback` when it is not there. Throw ConfigError on another type or a value out of [low, high].
  int64_t integer(const std::string& key, int64_t fallback, int64_t low, int64_t high);
  double number(const std::string& key, double fallback, double low, double high);
  bool boolean(const std::string& key, bool fallback);
  std::string choice(const std::string& key, const std::string& fallback,
                     std::initializer_list<std::string_view> choices);

  // Throws ConfigError naming a key that was given and not asked for, with the closest one that was.
  void finish() const;
  // All parameters asked for, in order, with their values: "size=8 slip=0".
  const std::string& text() const { return text_; }

 private:
  using Value = std::variant<bool, int64_t, double, std::string>;
  struct Given {
    Value value;
    std::string json;
    std::string path;  // "env.params.size"
  };

  void take(const std::string& json, const std::string& path);
  const Given* ask(const std::string& key);
  [[noreturn]] static void refuse(const Given& given, const std::string& wanted);
  void note(const std::string& key, const std::string& value);

  std::map<std::string, Given> given_;
  std::vector<std::string> asked_;
  std::string text_;
};

}  // namespace troupe
