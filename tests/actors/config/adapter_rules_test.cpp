// Which runs may have model.lora and model.path.

#include <string>
#include <vector>

#include "actors/config/config.h"
#include "tests/actors/config/config_errors.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr const char* kTransformer = "model.kind=token_transformer";
constexpr const char* kLora = R"(model.lora={"rank": 4})";

}  // namespace

TEST_CASE("adapter_rules: a token_transformer takes adapters together with the weights of a run") {
  CHECK(rule_error({kTransformer, kLora, "model.path=runs/base"}) == "");
  CHECK(rule_error({kTransformer, kLora}) ==
        "model.lora: {\"rank\":4} needs the weights of a run, and model.path is empty; set model.path to the folder of "
        "the run");
  CHECK(rule_error({kTransformer, "model.path=runs/base"})
            .starts_with("model.path: \"runs/base\" has no effect with model.lora {}; set model.lora, or train all "
                         "weights of that run with --init-from"));
  CHECK(rule_error({kTransformer, R"(model.lora={"rank": 4, "targets": ["lm_head"]})", "model.path=runs/base"})
            .starts_with("model.lora.targets: \"lm_head\", expected a list of some of q_proj"));
}

TEST_CASE("adapter_rules: other networks refuse both, and say which kinds take them") {
  for (const std::string kind : {"mlp", "net"}) {
    const std::string other = " has no effect with model.kind \"" + kind +
                              "\"; set model.kind to \"decoder\" or \"token_transformer\", or remove ";
    CAPTURE(kind);
    CHECK(rule_error({"model.kind=" + kind, kLora}).starts_with("model.lora: {\"rank\":4}" + other));
    CHECK(rule_error({"model.kind=" + kind, "model.path=runs/base"}).starts_with("model.path: \"runs/base\"" + other));
  }
}
