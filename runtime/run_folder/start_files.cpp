#include "runtime/run_folder/start_files.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <random>
#include <string_view>

#include "runtime/base/errors.h"

namespace troupe {

namespace {

constexpr const char* kIdentityFile = "/run_id";
constexpr uint64_t kMaxEpochBytes = 64;

}  // namespace

uint32_t take_epoch(Disk& disk, const std::string& folder, uint32_t at_least) {
  const std::string path = folder + kEpochFile;
  try {
    uint32_t epoch = at_least;
    if (disk.exists(path)) {
      const std::string text = disk.read(path, kMaxEpochBytes);
      uint32_t last = 0;
      const char* const end = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data(), end, last);
      constexpr uint32_t kMost = std::numeric_limits<uint32_t>::max() - 1;
      if (error != std::errc() || std::string_view(stop, static_cast<size_t>(end - stop)) != "\n" || last > kMost)
        throw ConfigError(path + ": does not contain an integer from 0 to " + std::to_string(kMost) +
                          "; remove it once no process of an earlier start of this run is left");
      epoch = std::max(epoch, last + 1);
    }
    disk.write_atomic(path, std::to_string(epoch) + '\n');
    return epoch;
  } catch (const IoError& error) {
    throw ConfigError(std::string(error.what()) +
                      "; the start's number cannot be recorded, and workers of an earlier start could rejoin");
  }
}

std::string run_identity(Disk& disk, const std::string& folder) {
  const std::string path = folder + kIdentityFile;
  constexpr size_t kDigits = 16;
  try {
    if (disk.exists(path)) {
      const std::string text = disk.read(path, kMaxEpochBytes);
      const std::string id = text.substr(0, text.find('\n'));
      if (id.size() == kDigits && id.find_first_not_of("0123456789abcdef") == std::string::npos) return id;
    }
    std::random_device random;
    std::string id;
    while (id.size() < kDigits) id += "0123456789abcdef"[random() % 16];
    disk.write_atomic(path, id + '\n');
    return id;
  } catch (const IoError& error) {
    throw ConfigError(std::string(error.what()) + "; workers find their run by what this file holds");
  }
}

std::optional<uint16_t> read_stats_port(const Disk& disk, const std::string& folder) {
  try {
    const std::string text = disk.read(folder + kStatsPortFile, kMaxEpochBytes);
    uint16_t port = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), port);
    if (error == std::errc() && std::string_view(stop, text.data() + text.size()) == "\n" && port > 0) return port;
  } catch (const IoError&) {
    // The first start, or a file that cannot be read: any port is as good.
  }
  return {};
}

void write_stats_port(Disk& disk, const std::string& folder, uint16_t port) {
  disk.write_atomic(folder + kStatsPortFile, std::to_string(port) + '\n');
}

}  // namespace troupe
