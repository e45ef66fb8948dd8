#include "runtime/base/machine.h"

#include <netinet/in.h>
#include <resolv.h>
#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <fstream>
#include <limits>
#include <span>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

namespace troupe {
namespace {

constexpr uint64_t kNoNumber = std::numeric_limits<uint64_t>::max();

uint64_t saturating_sum(uint64_t a, uint64_t b) { return a > kNoNumber - b ? kNoNumber : a + b; }

// The only number in a file; kNoNumber for "max" or without a number.
uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  uint64_t value = 0;
  if (!(file >> word)) return kNoNumber;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  return error == std::errc() && end == word.data() + word.size() ? value : kNoNumber;
}

// The number after `key` in a file of lines like "MemAvailable:  1024 kB" or "inactive_file 4096".
uint64_t number_in_file(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    uint64_t value = 0;
    if (words >> name >> value && name == key) return value;
  }
  return kNoNumber;
}

// A line of /proc/meminfo, in bytes.
uint64_t meminfo(const std::string& root, const std::string& key) {
  const uint64_t kibibytes = number_in_file(root + "/proc/meminfo", key);
  return kibibytes == kNoNumber ? kNoNumber : 1024 * kibibytes;
}

// Memory that the kernel reclaims from a control group before it refuses more: pages of files, and its own caches.
constexpr std::array kReclaimable{"inactive_file", "active_file", "slab_reclaimable"};
constexpr std::array kReclaimableVersion1{"total_inactive_file", "total_active_file"};

uint64_t reclaimable(const std::string& stat_file, std::span<const char* const> keys) {
  uint64_t sum = 0;
  for (const char* key : keys) {
    const uint64_t bytes = number_in_file(stat_file, key);
    if (bytes != kNoNumber) sum = saturating_sum(sum, bytes);
  }
  return sum;
}

// What one limit still allows; `free` bytes of the usage count as free.
uint64_t left_of(const std::string& limit_file, const std::string& usage_file, uint64_t free) {
  const uint64_t limit = number_in(limit_file), used = number_in(usage_file);
  if (limit == kNoNumber) return kNoNumber;
  if (used == kNoNumber) return limit;
  const uint64_t held = used - std::min(used, free);
  return limit - std::min(limit, held);
}

uint64_t left_with_swap(const std::string& folder, uint64_t swap) {
  const uint64_t memory =
      left_of(folder + "/memory.max", folder + "/memory.current", reclaimable(folder + "/memory.stat", kReclaimable));
  const uint64_t swap_left = left_of(folder + "/memory.swap.max", folder + "/memory.swap.current", 0);
  return saturating_sum(memory, std::min(swap, swap_left));
}

// The folders of a control group and of its parents, whose limits all apply.
std::vector<std::string> with_parents(const std::string& top, std::string group) {
  std::vector<std::string> folders;
  while (!group.empty() && group != "/") {
    folders.push_back(top + group);
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
  folders.push_back(top);
  return folders;
}

// The memory that the control groups still allow: of version 2 ("0::/path") and of version 1 ("9:memory:/path"). `swap`
// is the free swap of the machine.
uint64_t left_of_groups(const std::string& root, uint64_t swap) {
  uint64_t least = kNoNumber;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (controllers.empty())
      for (const std::string& folder : with_parents(root + "/sys/fs/cgroup", group))
        least = std::min(least, left_with_swap(folder, swap));
    if (controllers == "memory")
      for (const std::string& folder : with_parents(root + "/sys/fs/cgroup/memory", group))
        least =
            std::min(least, saturating_sum(left_of(folder + "/memory.limit_in_bytes", folder + "/memory.usage_in_bytes",
                                                   reclaimable(folder + "/memory.stat", kReclaimableVersion1)),
                                           swap));
  }
  return least;
}

}  // namespace

uint64_t processors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1U, std::thread::hardware_concurrency());
}

uint64_t all_processors() {
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  return std::max(online > 0 ? static_cast<uint64_t>(online) : 1, processors());
}

uint64_t processors(const std::set<pid_t>& others) {
  cpu_set_t all, of_other;
  if (sched_getaffinity(0, sizeof all, &all) != 0) return processors();
  for (const pid_t other : others)
    if (sched_getaffinity(other, sizeof of_other, &of_other) == 0) CPU_OR(&all, &all, &of_other);
  return std::max(1, CPU_COUNT(&all));
}

uint64_t available_address_space(const std::string& root) {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kNoNumber;
  const uint64_t kibibytes = number_in_file(root + "/proc/self/status", "VmSize:");
  const uint64_t used = kibibytes == kNoNumber ? 0 : 1024 * kibibytes;
  return limit.rlim_cur - std::min<uint64_t>(limit.rlim_cur, used);
}

uint64_t available_memory(const std::string& root) {
  const uint64_t free_swap = meminfo(root, "SwapFree:"), swap = free_swap == kNoNumber ? 0 : free_swap;
  const uint64_t free = saturating_sum(meminfo(root, "MemAvailable:"), swap);
  return std::min({free, left_of_groups(root, swap), available_address_space(root)});
}

std::vector<std::string> own_host_names() {
  char name[HOST_NAME_MAX + 1] = {};
  if (gethostname(name, sizeof name - 1) != 0 || name[0] == '\0') return {};
  std::vector<std::string> names{name};
  const std::string label = names[0].substr(0, names[0].find('.'));
  names.push_back(label);
  struct __res_state resolver{};
  if (res_ninit(&resolver) != 0) return names;
  for (char* const* domain = resolver.dnsrch; domain < resolver.dnsrch + MAXDNSRCH && *domain != nullptr; ++domain)
    if (**domain != '\0' && **domain != '.') names.push_back(label + '.' + *domain);
  res_nclose(&resolver);
  return names;
}

uint64_t raise_open_files() {
  constexpr uint64_t kUsual = 1024;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return kUsual;
  const rlim_t before = std::exchange(limit.rlim_cur, limit.rlim_max);
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : before;
}

}  // namespace troupe
