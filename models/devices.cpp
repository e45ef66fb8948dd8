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

std::string device_error(const std::string& setting, const std::string& device, const std::string& why) {
  const bool flag = setting.starts_with("--"), trainer = setting == "trainer.device";
  const std::string instead = flag || trainer ? "cpu" : "auto";
  return setting + ": \"" + device + "\", but " + why + "; use \"" + instead + '"' +
         (flag ? "" : " (--set " + setting + '=' + instead + ')');
}

void require_device(const std::string& setting, const std::string& device, int gpus) {
  if (has_device(device, gpus)) return;
  const std::string count =
      gpus == 0 ? "no CUDA device" : std::to_string(gpus) + " CUDA device" + (gpus == 1 ? "" : "s");
  throw ConfigError(device_error(setting, device, "this machine and LibTorch have " + count));
}

std::string policy_device(const std::string& setting, const std::string& trainer_device, int gpus) {
  if (setting != "auto") return setting;
  if (has_device(trainer_device, gpus)) return trainer_device;
  return gpus > 0 ? "cuda" : "cpu";
}

}  // namespace troupe
