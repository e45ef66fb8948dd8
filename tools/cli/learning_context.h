#pragma once
// The run context of a process that uses LibTorch: real environments, policies and learners.

#include <functional>
#include <memory>
#include <string>

#include "actors/run_context.h"
#include "models/policy.h"

namespace troupe {

// The devices on which a process makes its policies: cpu, cuda or cuda:N.
struct PolicyDevices {
  std::string inference = "cpu";
  std::string evaluation = "cpu";
  std::string weights = "cpu";  // that sends or receives weights with network.weights "nccl"
};
// Those of the process that trains. Throws ConfigError when the config names a device that does not exist.
PolicyDevices devices_of_run(const RunConfig& config);
// The device of a process that uses the policy of a run, whose config may be of another machine. `flag` (--device) if
// it is given, which must exist and be "cpu" in a token run; else the device of the run's setting, or the CPU, with a
// warning, if it does not exist. `path` is inference.device or evaluation.device.
std::string device_elsewhere(const std::string& flag, const RunConfig& config, const std::string& path);

// Throws ConfigError when the environment or the model does not fit the config.
std::shared_ptr<RunContext> learning_context(const RunConfig& config, const PolicyDevices& devices = {});

// RunContext::make_group_backend of a process that has the weights on `device`; empty if the run sends none. The
// function throws ConfigError when network.weights asks for NCCL, and this build or the device cannot do it.
std::function<std::shared_ptr<GroupBackend>(const std::string& address)> weights_backend_on(
    const std::string& device, const NetworkConfig& network);

std::unique_ptr<Learner> learner_of(const RunContext& context);

}  // namespace troupe
