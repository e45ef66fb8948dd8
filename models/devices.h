#pragma once
// The devices on which the models of a process compute, by their names: cpu, cuda (the first GPU) or cuda:N. A run file
// names devices of the machine that trains; another process may have other ones. Without LibTorch. Pure functions; any
// thread.

#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/fields.h"

namespace troupe {

// What a setting accepts that names a device, and one that may also be auto.
constexpr Setting device_name() { return matching("^(cpu|cuda|cuda:[0-9]{1,3})$", "cpu, cuda or cuda:N"); }
constexpr Setting device_name_or_auto() {
  return matching("^(auto|cpu|cuda|cuda:[0-9]{1,3})$", "auto, cpu, cuda or cuda:N");
}

// Whether a process with so many GPUs has the device.
bool has_device(std::string_view device, int gpus);

// A device and the setting or flag that names it.
struct NamedDevice {
  std::string setting, device;
};

// The error for devices that are not there, which begins with the first of `missing`: "trainer.device: "cuda", but WHY;
// use "cpu" (--set trainer.device=cpu)". A run may be resumed on another machine. The settings in parentheses replace
// all of `missing`.
std::string device_error(const std::vector<NamedDevice>& missing, const std::string& why);
// Throws it as ConfigError unless the process has the devices.
void require_devices(const std::vector<NamedDevice>& devices, int gpus);
void require_device(const std::string& setting, const std::string& device, int gpus);

// The device of a policy. `setting` is inference.device or evaluation.device, where auto stands for the trainer's
// device; in a process without that one, for its first GPU if it has any, else for the CPU.
std::string policy_device(const std::string& setting, const std::string& trainer_device, int gpus);

}  // namespace troupe
