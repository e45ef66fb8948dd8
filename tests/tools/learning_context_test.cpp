#include "tools/cli/learning_context.h"

#include "tests/support/config_error.h"
#include "tests/support/test.h"
#include "tests/support/token_config.h"

using namespace troupe;
using namespace troupe::test;

TEST_CASE("learning_context: a process of a token run refuses --device of a GPU, also on machines without one") {
  const auto device = [](const std::string& flag) {
    return device_elsewhere(flag, token_config(), "inference.device");
  };
  CHECK(device("cpu") == "cpu");
  CHECK(config_error_of([&] { device("cuda"); }) == "--device: \"cuda\" cannot be used in token runs yet; use \"cpu\"");
}
