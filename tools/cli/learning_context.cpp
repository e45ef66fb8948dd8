#include "tools/cli/learning_context.h"

#include "envs/make/make_env.h"
#include "models/devices.h"
#include "models/networks/embedding_ranges.h"
#include "models/torch/compute.h"
#include "models/torch/learning/make_model.h"
#include "models/weights/model_weights.h"
#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/weights/process_group.h"
#include "tools/cli/token_context.h"

namespace troupe {
namespace {

std::unique_ptr<Learner> policy_learner_of(const RunContext& context) {
  return make_learner(context.config, context.spec);
}

// Of cuda or cuda:N; 0 for the CPU.
int gpu_number(const std::string& device) {
  const size_t colon = device.find(':');
  return colon == std::string::npos ? 0 : std::stoi(device.substr(colon + 1));
}

}  // namespace

PolicyDevices devices_of_run(const RunConfig& config) {
  const int gpus = gpu_count();
  PolicyDevices devices;
  devices.evaluation = policy_device(config.evaluation.device, config.trainer.device, gpus);
  std::vector<NamedDevice> needed{{"trainer.device", config.trainer.device}, {"evaluation.device", devices.evaluation}};
  if (config.inference.count > 0) {  // otherwise other processes run inference
    devices.inference = policy_device(config.inference.device, config.trainer.device, gpus);
    needed.push_back({"inference.device", devices.inference});
  }
  require_devices(needed, gpus);
  devices.weights = config.trainer.device;
  return devices;
}

std::string device_elsewhere(const std::string& flag, const RunConfig& config, const std::string& path) {
  const int gpus = gpu_count();
  if (!flag.empty()) {
    if (flag != "cpu" && is_token_run(config))
      throw ConfigError("--device: \"" + flag + "\" cannot be used in token runs yet; use \"cpu\"");
    require_device("--device", flag, gpus);
    return flag;
  }
  const std::string& setting = path == "inference.device" ? config.inference.device : config.evaluation.device;
  std::string result = policy_device(setting, config.trainer.device, gpus);
  if (has_device(result, gpus)) return result;
  log_warn("device", "the run's " + path + " is \"" + setting +
                         "\", which this process does not have; computing on the CPU. --device chooses another device");
  return "cpu";
}

std::shared_ptr<RunContext> learning_context(const RunConfig& config, const PolicyDevices& devices) {
  if (config.deterministic) compute_reproducibly();
  auto context = std::make_shared<RunContext>();
  context->config = config;
  context->threads = !config.deterministic;
  context->deterministic = config.deterministic;
  context->make_group_backend = weights_backend_on(devices.weights, config.network);
  if (sends_gradients(config.network))
    context->make_gradient_backend = [config](const std::string& address) {
      return make_group_backend(config.network.backend,
                                {.address = address, .device = gpu_number(config.trainer.device)});
    };
  if (is_token_run(config)) {
    add_generators(*context);
    return context;
  }
  EnvConfig one = config.env;
  one.rows = 1;
  context->spec = make_env(one)->spec();
  const std::vector<ObservationRange> ranges = embedding_ranges(config.model, context->spec);
  context->make_env = [ranges](const EnvConfig& env) { return with_ranges(make_env(env), ranges); };
  context->make_evaluation_env = [config, ranges](int64_t rows) {
    // A process that does not answer is killed at the latest when the evaluation is given up.
    return with_ranges(make_evaluation_env(config.env, config.evaluation.env_params, rows, config.evaluation.timeout),
                       ranges);
  };
  context->recurrence = recurrence_of(config, context->spec);
  context->signature = std::make_shared<const Signature>(model_signature(config.model, context->spec));
  const auto policies_on = [config, spec = context->spec](const std::string& device) {
    return [config, spec, device] { return make_policy(config, spec, device); };
  };
  context->make_policy = policies_on(devices.inference);
  context->make_evaluation_policy = policies_on(devices.evaluation);
  context->use_threads = set_compute_threads;
  return context;
}

std::function<std::shared_ptr<GroupBackend>(const std::string& address)> weights_backend_on(
    const std::string& device, const NetworkConfig& network) {
  if (!sends_weights(network)) return nullptr;
  return [device, name = weights_backend(network)](const std::string& address) {
    BackendOptions options{.address = address};
    if (name == "nccl") {
      if (device == "cpu")
        throw ConfigError(
            "network.weights: \"nccl\" brings weights to a GPU, but this process computes on the CPU; use \"gloo\", or "
            "--device to choose a GPU");
      options.device = gpu_number(device);
    }
    return make_group_backend(name, options);
  };
}

std::unique_ptr<Learner> learner_of(const RunContext& context) {
  // In the order of Experience.
  static constexpr std::unique_ptr<Learner> (*kLearners[])(const RunContext&) = {policy_learner_of, token_learner_of};
  return entry_of(kLearners, experience_of(context.config))(context);
}

}  // namespace troupe
