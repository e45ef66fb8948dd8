// Which parameters of estimators token runs refuse.

#include <string>
#include <vector>

#include "actors/config/config.h"
#include "runtime/base/errors.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

std::string error_with(const std::string& advantage, const std::string& parameters) {
  RunConfig config;
  config.stop.updates = 3;
  config.model.kind = kDecoderKind;
  config.algorithm.advantage = advantage;
  config.algorithm.advantage_params = parameters;
  try {
    validate(config);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("estimator_rules: token runs refuse the parameters for masked tokens, of which estimators see none") {
  const std::string path = "algorithm.advantage_params.";
  const std::string why =
      " has no effect with model.kind \"decoder\", where estimators get whole answers without a mask; remove " + path;
  for (const char* advantage :
       {"grpo", "grpo_vectorized", "dr_grpo", "grpo_passk", "reinforce_plus_plus_baseline", "rloo", "opo", "gpg"}) {
    CAPTURE(advantage);
    CHECK(error_with(advantage, R"({"count_masked_rewards":true})") ==
          path + "count_masked_rewards: true" + why + "count_masked_rewards (default false)");
  }
  CHECK(error_with("reinforce_plus_plus", R"({"reset_at_mask":false})") ==
        path + "reset_at_mask: false" + why + "reset_at_mask (default true)");
  CHECK(error_with("remax", R"({"outside":"carry"})") ==
        path + "outside: \"carry\"" + why + "outside (default \"zero\")");
}

TEST_CASE("estimator_rules: token runs accept the other parameters, and defaults") {
  CHECK(error_with("grpo", R"({"epsilon":0.1,"count_masked_rewards":false})") == "");
  CHECK(error_with("reinforce_plus_plus", R"({"whiten":false,"reset_at_mask":true})") == "");
  CHECK(error_with("remax", R"({"outside":"zero"})") == "");
}
