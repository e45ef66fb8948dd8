#pragma once
// The one seam to files. Everything that an actor reads or writes goes through a Disk: PosixDisk in a real run, MemoryDisk
// (runtime/memory_disk.h) in a simulation, where writes can be refused or cut short. Every failure is an IoError.
// Functions block; a Disk may be used from any thread, an AppendFile from one at a time.

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// A file or socket that refused, or a file that is damaged. what() is one line: "<path>: <what failed>: <cause>".
class IoError : public std::runtime_error {
 public:
  // `error_number` is an errno value, whose text becomes part of what(); 0 when the system did not refuse.
  IoError(const std::string& path, const std::string& problem, int error_number = 0);
  int error_number() const { return error_number_; }

 private:
  int error_number_;
};

// A file that only grows.
class AppendFile {
 public:
  virtual ~AppendFile() = default;
  // Adds all of `bytes` and hands them to the system, or throws and adds nothing (a part that was written is cut off again,
  // at the next call if not at once). Not synced: bytes survive a killed process, not a power cut.
  virtual void append(std::string_view bytes) = 0;
};

// A lock on a file, held until this is destroyed or the process ends.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

class Disk {
 public:
  virtual ~Disk() = default;

  // The whole file.
  virtual std::string read(const std::string& path) const = 0;
  // Replaces a file by the concatenated `parts`: afterwards, also after a kill or a power cut, it holds the old bytes or the
  // new ones. When it throws, the old file is untouched.
  virtual void write_atomic(const std::string& path, std::span<const std::string_view> parts) = 0;
  void write_atomic(const std::string& path, std::string_view bytes) { write_atomic(path, {&bytes, 1}); }
  // Opens a file for appending and makes it if it is absent.
  virtual std::unique_ptr<AppendFile> open_append(const std::string& path) = 0;
  // Cuts a file to its first `bytes`.
  virtual void truncate(const std::string& path, uint64_t bytes) = 0;
  // Renames a file or a directory, durably. The target must be absent, or a file when the source is one.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  // Removes a file, or a directory with all it holds; nothing happens when it is absent.
  virtual void remove(const std::string& path) = 0;
  // Makes a directory and those above it; nothing happens when it is there.
  virtual void make_directory(const std::string& path) = 0;
  virtual bool exists(const std::string& path) const = 0;
  // Names in a directory, sorted; empty when it is absent.
  virtual std::vector<std::string> list(const std::string& path) const = 0;
  // Takes the lock of `path` (made if absent; it holds the owner's process id). Throws when another holder has it: "<path>:
  // in use by process 123".
  virtual std::unique_ptr<FileLock> lock(const std::string& path) = 0;
};

// The machine's file systems. Stateless.
Disk& posix_disk();

// The name that write_atomic() gives to `path` until it is complete. One that is found later is left over from a kill.
std::string temporary_name(const std::string& path);
bool is_temporary_name(std::string_view name);

}  // namespace troupe
