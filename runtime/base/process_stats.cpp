#include "runtime/base/process_stats.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace troupe {

namespace {

// Empty if the process does not exist.
std::string program_of(const std::string& process) {
  std::ifstream file("/proc/" + process + "/comm");
  std::string name;
  std::getline(file, name);
  return name;
}

}  // namespace

uint64_t resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  unsigned long long pages_total = 0, pages = 0;
  const int read = std::fscanf(file, "%llu %llu", &pages_total, &pages);
  std::fclose(file);
  return read == 2 ? pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

uint64_t peak_resident_bytes() {
  // The maximum of getrusage() begins with that of the process that has started this one.
  std::ifstream file("/proc/self/status");
  for (std::string word; file >> word;) {
    uint64_t kibibytes = 0;
    if (word == "VmHWM:" && file >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

bool is_of_this_program(pid_t process) {
  const std::string name = program_of(std::to_string(process));
  return !name.empty() && name == program_of("self");
}

MachineTicks machine_ticks() {
  std::FILE* file = std::fopen("/proc/stat", "r");
  if (file == nullptr) return {};
  unsigned long long user = 0, nice = 0, system = 0, idle = 0, waiting = 0, irq = 0, soft = 0, steal = 0;
  const int read = std::fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle,
                               &waiting, &irq, &soft, &steal);
  std::fclose(file);
  if (read != 8) return {};
  const uint64_t busy = user + nice + system + irq + soft + steal;
  return {busy, busy + idle + waiting};
}

std::chrono::steady_clock::duration process_age() {
  std::ifstream stat("/proc/self/stat"), up("/proc/uptime");
  std::string line;
  double uptime = 0;
  if (!std::getline(stat, line) || !(up >> uptime)) return {};
  // The program's name, in parentheses, may contain spaces: count fields after it. The start time is field 22, the name
  // field 2.
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  const double age = uptime - std::strtod(field.c_str(), nullptr) / static_cast<double>(sysconf(_SC_CLK_TCK));
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(std::max(age, 0.0)));
}

}  // namespace troupe
