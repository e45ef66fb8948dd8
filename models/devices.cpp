#include "models/devices.h"

#include <charconv>
#include <utility>

#include "runtime/base/errors.h"

namespace troupe {

bool has_device(std::string_view device, int gpus) {
  if (device == "cpu") return true;
  if (device == "cuda") return gpus > 0;
  constexpr std::string_view kNumbered = "cuda:";
  if (!device.starts_with(kNumbered)) return false;
  const std::string_view digits = device.substr(kNumbered.size());
  unsigned index = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  return error == std::errc() && end == digits.data() + digits.size() && std::cmp_less(index, gpus);
}

std::string device_error(const std::vector<NamedDevice>& missing, const std::string& why) {
  const auto is_flag = [](const std::string& setting) { return setting.starts_with("--"); };
  const auto instead_of = [&](const std::string& setting) {
    return is_flag(setting) || setting == "trainer.device" ? "cpu" : "auto";
  };
  std::string flags;
  for (const auto& [setting, device] : missing)
    if (!is_flag(setting)) flags += (flags.empty() ? "--set " : " --set ") + setting + '=' + instead_of(setting);
  const auto& [setting, device] = missing.front();
  return setting + ": \"" + device + "\", but " + why + "; use \"" + instead_of(setting) + '"' +
         (flags.empty() ? "" : " (" + flags + ')');
}

void require_device(const std::string& setting, const std::string& device, int gpus) {
  require_devices({{setting, device}}, gpus);
}

void require_devices(const std::vector<NamedDevice>& devices, int gpus) {
  std::vector<NamedDevice> missing = devices;
  std::erase_if(missing, [&](const NamedDevice& each) { return has_device(each.device, gpus); });
  if (missing.empty()) return;
  const std::string count =
      gpus == 0 ? "no CUDA device" : std::to_string(gpus) + " CUDA device" + (gpus == 1 ? "" : "s");
  throw ConfigError(device_error(missing, "this machine and LibTorch have " + count));
}

std::string policy_device(const std::string& setting, const std::string& trainer_device, int gpus) {
  if (setting != "auto") return setting;
  if (has_device(trainer_device, gpus)) return trainer_device;
  return gpus > 0 ? "cuda" : "cpu";
}

}  // namespace troupe
