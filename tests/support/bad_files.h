#pragma once
// Bad replacements for a file: other file types and unexpected sizes.

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace troupe::test {

struct BadFile {
  std::string name;
  void (*make)(const std::string& path);
};

inline void make_socket(const std::string& path) {
  const int fd = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) throw std::runtime_error(path + ": too long for a socket");
  path.copy(address.sun_path, path.size());
  const int bound = ::bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address);
  ::close(fd);
  if (bound != 0) throw std::runtime_error(path + ": cannot be bound");
}

inline void make_sparse(const std::string& path) {
  std::ofstream(path).flush();
  std::filesystem::resize_file(path, uint64_t{6} << 30);
}

inline const BadFile kBadFiles[] = {
    {"a directory", [](const std::string& path) { std::filesystem::create_directory(path); }},
    {"a pipe", [](const std::string& path) { ::mkfifo(path.c_str(), 0600); }},
    {"a socket", make_socket},
    {"an endless device", [](const std::string& path) { std::filesystem::create_symlink("/dev/zero", path); }},
    {"an empty device", [](const std::string& path) { std::filesystem::create_symlink("/dev/null", path); }},
    {"a link to itself", [](const std::string& path) { std::filesystem::create_symlink(path, path); }},
    {"a broken link", [](const std::string& path) { std::filesystem::create_symlink(path + ".none", path); }},
    {"a file of the system", [](const std::string& path) { std::filesystem::create_symlink("/proc/self/maps", path); }},
    {"a huge file of the system",
     [](const std::string& path) { std::filesystem::create_symlink("/proc/kcore", path); }},
    {"6 GiB of zeros", make_sparse},
    {"an empty file", [](const std::string& path) { std::ofstream(path).flush(); }},
};

// Removes what is at `path` and puts the bad file there.
inline void replace_by(const BadFile& bad, const std::string& path) {
  std::filesystem::remove_all(path);
  bad.make(path);
}

}  // namespace troupe::test
