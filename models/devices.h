#pragma once
// The devices that the models of a process compute on, by name: cpu, cuda (the first GPU) or cuda:N. A config file
// names devices of the machine that trains; another process may have others. Without LibTorch. Pure functions; any
// thread.

#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/fields.h"

namespace troupe {

// Patterns for settings that name a device; the second also accepts auto.
constexpr Setting device_name() { return matching("^(cpu|cuda|cuda:[0-9]{1,3})$", "cpu, cuda or cuda:N"); }
constexpr Setting device_name_or_auto() {
  return matching("^(auto|cpu|cuda|cuda:[0-9]{1,3})$", "auto, cpu, cuda or cuda:N");
}

// Whether a process with that many GPUs has the device.
bool has_device(std::string_view device, int gpus);

// A device and the setting or flag that names it.
struct NamedDevice {
  std::string setting, device;
};

// The error message for devices that do not exist. It begins with the first of `missing`: "trainer.device: "cuda", but
// WHY; use "cpu" (--set trainer.device=cpu)". A run may be resumed on another machine. The settings in parentheses
// replace all of `missing`.
std::string device_error(const std::vector<NamedDevice>& missing, const std::string& why);
// Throws it as ConfigError unless the process has the devices.
void require_devices(const std::vector<NamedDevice>& devices, int gpus);
void require_device(const std::string& setting, const std::string& device, int gpus);

// The device of a policy. `setting` is inference.device or evaluation.device, where auto stands for the trainer's
// device; in a process without that one, for its first GPU if it has any, else for the CPU.
std::string policy_device(const std::string& setting, const std::string& trainer_device, int gpus);

}  // namespace troupe
