#pragma once
// EnvParams: the JSON object `env.params` of a run's config, read strictly by the environment that it is for, with
// those of `evaluation.env_params` in place of some where it is for an evaluation. Ask for every parameter once, then
// call finish(), which refuses the keys nobody asked for. Errors begin with the key's path.

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/setting.h"

namespace troupe {

class EnvParams {
 public:
  // Keys of `evaluation` go before those of `json`. Throws ConfigError when either is not one JSON object, or repeats a
  // key.
  explicit EnvParams(const std::string& json = "{}", const std::string& evaluation = "{}");

  // The parameter, or `fallback` when it is not there. `help` says in one line what it does, with its unit. Throw
  // ConfigError on another type or a value out of [low, high].
  int64_t integer(const std::string& key, int64_t fallback, int64_t low, int64_t high, std::string_view help = {});
  double number(const std::string& key, double fallback, double low, double high, std::string_view help = {});
  bool boolean(const std::string& key, bool fallback, std::string_view help = {});
  std::string choice(const std::string& key, const std::string& fallback,
                     std::initializer_list<std::string_view> choices, std::string_view help = {});

  // Throws ConfigError naming a key that was given and not asked for, with the closest one that was.
  void finish() const;
  // All parameters asked for, in order, with their values: "size=8 slip=0". Part of saved states of the environment.
  const std::string& text() const { return text_; }
  // All parameters asked for, in order, in words.
  const std::vector<SettingInfo>& asked() const { return asked_; }

 private:
  struct Given {
    std::string json;  // the value
    std::string path;  // "env.params"
  };

  void take(const std::string& json, const std::string& path);
  // The value that was given for this setting, checked; `fallback` where none was. Notes both, as JSON text, in
  // `asked_` and `text_`.
  SettingValue ask(const Setting& setting, const SettingValue& fallback);

  std::map<std::string, Given> given_;
  std::vector<SettingInfo> asked_;
  std::string text_;
};

}  // namespace troupe
