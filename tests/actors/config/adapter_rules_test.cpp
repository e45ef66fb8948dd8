// Which runs may have model.lora and model.path.

#include <string>
#include <vector>

#include "actors/config/config.h"
#include "runtime/base/errors.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

std::string error_with(const std::vector<std::string>& overrides) {
  RunConfig config;
  config.stop.updates = 3;
  for (const std::string& assignment : overrides) apply_override(config, assignment);
  try {
    validate(config);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

constexpr const char* kTransformer = "model.kind=token_transformer";
constexpr const char* kLora = R"(model.lora={"rank": 4})";

}  // namespace

TEST_CASE("adapter_rules: a token_transformer takes adapters together with the weights of a run") {
  CHECK(error_with({kTransformer, kLora, "model.path=runs/base"}) == "");
  CHECK(error_with({kTransformer, kLora}) ==
        "model.lora: {\"rank\":4} needs the weights of a run, and model.path is empty; set model.path to the folder of "
        "the run");
  CHECK(error_with({kTransformer, "model.path=runs/base"})
            .starts_with("model.path: \"runs/base\" has no effect with model.lora {}; set model.lora, or train all "
                         "weights of that run with --init-from"));
  CHECK(error_with({kTransformer, R"(model.lora={"rank": 4, "targets": ["lm_head"]})", "model.path=runs/base"})
            .starts_with("model.lora.targets: \"lm_head\", expected a list of some of q_proj"));
}

TEST_CASE("adapter_rules: other networks refuse both, and say which kinds take them") {
  for (const std::string kind : {"mlp", "net"}) {
    const std::string other = " has no effect with model.kind \"" + kind +
                              "\"; set model.kind to \"decoder\" or \"token_transformer\", or remove ";
    CAPTURE(kind);
    CHECK(error_with({"model.kind=" + kind, kLora}).starts_with("model.lora: \"{\"rank\":4}\"" + other));
    CHECK(error_with({"model.kind=" + kind, "model.path=runs/base"}).starts_with("model.path: \"runs/base\"" + other));
  }
}
