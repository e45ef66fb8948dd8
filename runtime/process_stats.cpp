#include "runtime/process_stats.h"

#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>

namespace troupe {

uint64_t resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  unsigned long long pages_total = 0, pages = 0;
  const int read = std::fscanf(file, "%llu %llu", &pages_total, &pages);
  std::fclose(file);
  return read == 2 ? pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)) : 0;
}

uint64_t peak_resident_bytes() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return static_cast<uint64_t>(usage.ru_maxrss) * 1024;  // KiB on Linux
}

}  // namespace troupe
