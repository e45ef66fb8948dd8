#include "runtime/base/close_descriptors.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace troupe {

namespace {

constexpr rlim_t kMostTried = 1 << 20;  // the limit on open files can be a billion, which would take too long

// The number of the descriptor with this name in /proc/self/fd; -1 for "." and "..".
int number_of(const char* name) {
  int number = 0;
  for (; *name != 0; ++name) {
    if (*name < '0' || *name > '9') return -1;
    number = number * 10 + (*name - '0');
  }
  return number;
}

// Closes the descriptors in one chunk of the directory listing. Returns whether there was any.
bool close_those_in(const char* entries, size_t bytes, int first, int folder) {
  bool closed = false;
  for (size_t at = 0; at < bytes;) {
    uint16_t length = 0;
    std::memcpy(&length, entries + at + offsetof(dirent64, d_reclen), sizeof length);
    const int number = number_of(entries + at + offsetof(dirent64, d_name));
    if (number >= first && number != folder) closed |= close(number) == 0;
    at += length;
  }
  return closed;
}

}  // namespace

bool close_listed_descriptors_from(int first) {
  const int folder = open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return false;
  // A directory that changes while it is read may skip entries, so it is read again until it has none left.
  for (bool closed = true; closed;) {
    closed = false;
    lseek(folder, 0, SEEK_SET);
    char entries[4096];
    for (long bytes = 0; (bytes = syscall(SYS_getdents64, folder, entries, sizeof entries)) > 0;)
      closed |= close_those_in(entries, static_cast<size_t>(bytes), first, folder);
  }
  close(folder);
  return true;
}

void close_possible_descriptors_from(int first) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const auto end = static_cast<int>(std::min(limit.rlim_cur, kMostTried));
  for (int number = first; number < end; ++number) close(number);
}

void close_descriptors_from(int first) {
  if (close_range(static_cast<unsigned>(first), ~0U, 0) == 0 || close_listed_descriptors_from(first)) return;
  close_possible_descriptors_from(first);
}

}  // namespace troupe
