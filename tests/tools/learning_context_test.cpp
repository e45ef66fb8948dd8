#include "tools/cli/learning_context.h"

#include "tests/support/config_error.h"
#include "tests/support/test.h"
#include "tests/support/token_config.h"

#include <string>

using namespace troupe;
using namespace troupe::test;

namespace {

// Whether weights reach other processes, and if so, the name of the backend or the error.
std::string weights_over(const std::string& setting, const std::string& device) {
  const auto make = weights_backend_on(device, {.weights = setting});
  if (!make) return "none";
  std::string name;
  const std::string error = config_error_of([&] { name = make("127.0.0.1")->name(); });
  return name.empty() ? error : name;
}

}  // namespace

TEST_CASE("learning_context: network.weights chooses how other processes get the weights") {
  CHECK(weights_over("auto", "cpu") == "gloo");
  CHECK(weights_over("auto", "cuda") == "gloo");
  CHECK(weights_over("gloo", "cuda:1") == "gloo");
  CHECK(weights_over("in_process", "cpu") == "none");
  CHECK(weights_over("nccl", "cpu") ==
        "network.weights: \"nccl\" brings weights to a GPU, but this process computes on the CPU; use \"gloo\", or "
        "--device to choose a GPU");
  CHECK(weights_over("nccl", "cuda:1").starts_with("nccl"));  // or why this build or machine cannot
}

TEST_CASE("learning_context: a process of a token run refuses --device of a GPU, also on machines without one") {
  const auto device = [](const std::string& flag) {
    return device_elsewhere(flag, token_config(), "inference.device");
  };
  CHECK(device("cpu") == "cpu");
  CHECK(config_error_of([&] { device("cuda"); }) == "--device: \"cuda\" cannot be used in token runs yet; use \"cpu\"");
}
