#pragma once
// EnvParams: strict reader of the JSON object `env.params` of a config. For an evaluation, `evaluation.env_params`
// overrides parts of it. The environment reads every parameter once and then calls finish(), which rejects all other
// keys. Errors begin with the key's path.

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
  // Keys of `evaluation` override those of `json`. Throws ConfigError when either is not a JSON object or repeats a
  // key.
  explicit EnvParams(const std::string& json = "{}", const std::string& evaluation = "{}");

  // The parameter, or `fallback` when it is not given. `help` is one line with its effect and unit. Throw ConfigError
  // for another type or a value outside [low, high].
  int64_t integer(const std::string& key, int64_t fallback, int64_t low, int64_t high, std::string_view help = {});
  double number(const std::string& key, double fallback, double low, double high, std::string_view help = {});
  bool boolean(const std::string& key, bool fallback, std::string_view help = {});
  std::string choice(const std::string& key, const std::string& fallback,
                     std::initializer_list<std::string_view> choices, std::string_view help = {});

  // Throws ConfigError for a given key that was never read, and suggests the nearest one that was.
  void finish() const;
  // All parameters read so far, in order, with their values: "size=8 slip=0". Part of the environment's saved states.
  const std::string& text() const { return text_; }
  // All parameters read so far, in order, with help texts.
  const std::vector<SettingInfo>& asked() const { return asked_; }

 private:
  struct Given {
    std::string json;  // the value
    std::string path;  // "env.params"
  };

  void take(const std::string& json, const std::string& path);
  // The checked value given for this setting, or `fallback`. Records the setting and its value in `asked_` and `text_`.
  SettingValue ask(const Setting& setting, const SettingValue& fallback);

  std::map<std::string, Given> given_;
  std::vector<SettingInfo> asked_;
  std::string text_;
};

}  // namespace troupe
