#pragma once
// EnvInfo: what `troupe envs` and the references say about an environment. A plain value.

#include <string>
#include <vector>

#include "envs/env.h"
#include "runtime/config/setting.h"

namespace troupe {

struct EnvInfo {
  std::string id;
  std::string description;              // one line
  std::string params;                   // parameters with their defaults: "size=8 slip=0"; empty when there are none
  std::vector<SettingInfo> parameters;  // the same with help texts
  EnvSpec spec;                         // with default parameters
  std::string error;  // why it cannot be created, with its id; then `params` and `spec` are empty. Empty if it can
};

}  // namespace troupe
