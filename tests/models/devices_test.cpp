// The device that a name in a config file means, depending on the number of GPUs of the process.
#include "models/devices.h"

#include "runtime/base/errors.h"
#include "tests/support/test.h"

using namespace troupe;

TEST_CASE("devices: the CPU always exists, a GPU exists if its number is below the number of GPUs") {
  for (const int gpus : {0, 1, 2}) {
    CAPTURE(gpus);
    CHECK(has_device("cpu", gpus));
    CHECK(has_device("cuda", gpus) == (gpus > 0));
    CHECK(has_device("cuda:0", gpus) == (gpus > 0));
    CHECK(has_device("cuda:1", gpus) == (gpus > 1));
    CHECK(!has_device("cuda:7", gpus));
    for (const char* no_device : {"", "auto", "gpu", "cuda:", "cuda:-0", "cuda:0x", "cuda:99999999999"})
      CHECK(!has_device(no_device, gpus));
  }
}

TEST_CASE("devices: auto means the trainer's device if it exists, else the first GPU, else the CPU") {
  CHECK(policy_device("auto", "cpu", 2) == "cpu");
  CHECK(policy_device("auto", "cuda:1", 2) == "cuda:1");
  CHECK(policy_device("auto", "cuda:1", 1) == "cuda");
  CHECK(policy_device("auto", "cuda:1", 0) == "cpu");
  CHECK(policy_device("auto", "cuda", 0) == "cpu");
  CHECK(policy_device("cpu", "cuda:1", 2) == "cpu");
  CHECK(policy_device("cuda:7", "cpu", 0) == "cuda:7");
}

TEST_CASE("devices: a device that does not exist is refused with one to use instead") {
  const auto error = [](const std::string& setting, const std::string& device, int gpus) -> std::string {
    try {
      require_device(setting, device, gpus);
    } catch (const ConfigError& refused) {
      return refused.what();
    }
    return "accepted";
  };
  CHECK(error("trainer.device", "cuda:1", 2) == "accepted");
  CHECK(error("trainer.device", "cuda:7", 0) ==
        "trainer.device: \"cuda:7\", but this machine and LibTorch have no CUDA device; use \"cpu\" (--set "
        "trainer.device=cpu)");
  CHECK(error("inference.device", "cuda:1", 1) ==
        "inference.device: \"cuda:1\", but this machine and LibTorch have 1 CUDA device; use \"auto\" (--set "
        "inference.device=auto)");
  CHECK(error("--device", "cuda:2", 2) ==
        "--device: \"cuda:2\", but this machine and LibTorch have 2 CUDA devices; use \"cpu\"");
  CHECK_THROWS_WITH_AS(
      require_devices({{"trainer.device", "cpu"}, {"evaluation.device", "cuda"}, {"inference.device", "cuda"}}, 0),
      "evaluation.device: \"cuda\", but this machine and LibTorch have no CUDA device; use \"auto\" (--set "
      "evaluation.device=auto --set inference.device=auto)",
      ConfigError);
  CHECK_NOTHROW(require_devices({{"trainer.device", "cuda:1"}, {"evaluation.device", "cpu"}}, 2));
}
