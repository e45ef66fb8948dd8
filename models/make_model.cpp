#include "models/make_model.h"

#include <string>
#include <string_view>

#include "models/environment_rules.h"
#include "models/networks/tensor_models.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

struct ModelKind {
  std::string_view name;
  std::unique_ptr<Policy> (*make_policy)(const RunConfig&, const EnvSpec&);
  std::unique_ptr<Learner> (*make_learner)(const RunConfig&, const EnvSpec&);
};

constexpr ModelKind kKinds[] = {
    {"mlp", make_mlp_policy, make_mlp_learner},
};

const ModelKind& find_kind(const std::string& name) {
  std::string known;
  for (const ModelKind& kind : kKinds) {
    if (kind.name == name) return kind;
    known += (known.empty() ? "" : ", ") + std::string(kind.name);
  }
  throw ConfigError("model.kind: \"" + name + "\", expected one of: " + known);
}

void check(const RunConfig& config, const EnvSpec& env) {
  for (int64_t width : config.model.hidden)
    if (width < 1) throw ConfigError("model.hidden: " + std::to_string(width) + ", a layer needs at least 1 unit");
  if (config.model.log_std != "state_independent" && config.model.log_std != "scheduled")
    throw ConfigError("model.log_std: \"" + config.model.log_std + "\", expected one of: state_independent, scheduled");
  check_fit(config, env);
}

}  // namespace

std::unique_ptr<Policy> make_policy(const RunConfig& config, const EnvSpec& env) {
  const ModelKind& kind = find_kind(config.model.kind);
  check(config, env);
  return kind.make_policy(config, env);
}

std::unique_ptr<Learner> make_learner(const RunConfig& config, const EnvSpec& env) {
  const ModelKind& kind = find_kind(config.model.kind);
  check(config, env);
  return kind.make_learner(config, env);
}

}  // namespace troupe
