// Where policy filtration can apply.

#include <string>
#include <vector>

#include "actors/config/config.h"
#include "runtime/base/errors.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

// The error of a run with a critic and these settings, or without one.
std::string error_with(const std::vector<std::string>& overrides, const std::string& kind = "decoder") {
  RunConfig config;
  config.stop.updates = 3;
  config.model.kind = kind;
  if (kind == "decoder") config.model.critic = "shared";
  for (const std::string& assignment : overrides) apply_override(config, assignment);
  try {
    validate(config);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("policy_filtration_rules: gae with a critic accepts every kind of weight") {
  for (const char* weight : {"none", "pow", "max_min", "max_random"})
    CHECK(error_with({std::string("algorithm.policy_filtration=") + weight}) == "");
  CHECK(error_with({"algorithm.policy_filtration=pow", "algorithm.policy_filtration_power=0.5"}) == "");
}

TEST_CASE("policy_filtration_rules: other estimators and the power of other weights are refused by name") {
  CHECK(error_with({"algorithm.policy_filtration=pow", "algorithm.advantage=vtrace"}) ==
        "algorithm.policy_filtration: \"pow\" has no effect with algorithm.advantage \"vtrace\"; set "
        "algorithm.advantage to \"gae\", or remove algorithm.policy_filtration (default \"none\")");
  CHECK(error_with({"algorithm.policy_filtration=max_min", "algorithm.advantage=rloo", "model.critic=none"})
            .starts_with("algorithm.policy_filtration: \"max_min\" has no effect with algorithm.advantage \"rloo\""));
  CHECK(error_with({"algorithm.policy_filtration=max_min", "algorithm.policy_filtration_power=3"}) ==
        "algorithm.policy_filtration_power: 3 has no effect with algorithm.policy_filtration \"max_min\"; set "
        "algorithm.policy_filtration to \"pow\", or remove algorithm.policy_filtration_power (default 2)");
}

TEST_CASE("policy_filtration_rules: runs on environments have none") {
  CHECK(error_with({"algorithm.policy_filtration=pow"}, "mlp") ==
        "algorithm.policy_filtration: \"pow\" has no effect with model.kind \"mlp\"; set model.kind to \"decoder\", or "
        "remove algorithm.policy_filtration (default \"none\")");
  CHECK(error_with({"algorithm.policy_filtration_power=3"}, "mlp")
            .starts_with("algorithm.policy_filtration_power: 3 has no effect with model.kind \"mlp\""));
}

TEST_CASE("policy_filtration_rules: names and powers out of range are refused") {
  for (const char* wrong : {"algorithm.policy_filtration=power", "algorithm.policy_filtration_power=-1",
                            "algorithm.policy_filtration_power=8"})
    CHECK_THROWS_AS(error_with({wrong}), ConfigError);
}
