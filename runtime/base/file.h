#pragma once
// The one seam to files. Everything that an actor reads or writes goes through a Disk: PosixDisk in a real run,
// MemoryDisk (runtime/base/memory_disk.h) in a simulation, where writes can be refused or cut short. Every failure is
// an IoError. Only regular files are read and written: a directory, pipe, socket or device in the place of one is an
// IoError, never a wait. Functions block on the disk; a Disk may be used from any thread, an AppendFile from one at a
// time.

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
  // With that what().
  static IoError of_line(const std::string& line) { return IoError(line); }
  int error_number() const { return error_number_; }
  // Whether the system refused for a reason that says nothing about the contents: no permission, a device that fails,
  // no free descriptor, a loop of links. A file that is missing, damaged or of another kind is not of that sort.
  bool is_refusal() const;

 private:
  explicit IoError(const std::string& line) : std::runtime_error(line), error_number_(0) {}

  int error_number_;
};

// A lock that is held, but no longer on what its path leads to: what is written there now is not covered by it.
class LockLost : public IoError {
 public:
  using IoError::IoError;
};

// The largest file that Disk::read() takes unless told otherwise.
inline constexpr uint64_t kMaxReadBytes = 16 << 20;

// A file open for reading.
class ReadFile {
 public:
  virtual ~ReadFile() = default;
  // When it was opened. A file that grows later counts as that long, and one in /proc as empty.
  virtual uint64_t size() const = 0;
  // The bytes from `offset` on, at most `count`; fewer where the file ends before.
  virtual std::string read(uint64_t offset, uint64_t count) const = 0;
};

// A file that only grows.
class AppendFile {
 public:
  virtual ~AppendFile() = default;
  // Adds all of `bytes` and hands them to the system, or throws and adds nothing (a part that was written is cut off
  // again, at the next call if not at once). Not synced: bytes survive a killed process, not a power cut.
  virtual void append(std::string_view bytes) = 0;
};

// A lock on a file and its directory, held until this is destroyed or the process ends.
class FileLock {
 public:
  virtual ~FileLock() = default;
  // Throws LockLost when the path of the file or of its directory leads to another one by now, or to none.
  virtual void check() const = 0;
};

class Disk {
 public:
  virtual ~Disk() = default;

  virtual std::unique_ptr<ReadFile> open_read(const std::string& path) const = 0;
  // The whole file. Throws IoError, without reading it, when it holds more than `max_bytes`.
  std::string read(const std::string& path, uint64_t max_bytes = kMaxReadBytes) const;
  // Replaces a file by the concatenated `parts`: afterwards, also after a kill or a power cut, it holds the old bytes
  // or the new ones. When it throws, the file holds the old bytes, or, where only the sync of the directory failed, the
  // new ones.
  virtual void write_atomic(const std::string& path, std::span<const std::string_view> parts) = 0;
  void write_atomic(const std::string& path, std::string_view bytes) { write_atomic(path, {&bytes, 1}); }
  // Opens a file for appending and makes it if it is absent.
  virtual std::unique_ptr<AppendFile> open_append(const std::string& path) = 0;
  // Cuts a file to its first `bytes`.
  virtual void truncate(const std::string& path, uint64_t bytes) = 0;
  // Renames a file or a directory, durably. The target must be absent, or a file when the source is one.
  virtual void rename(const std::string& from, const std::string& to) = 0;
  // Removes a file or an empty directory; nothing happens when it is absent. Throws when a directory holds something.
  virtual void remove(const std::string& path) = 0;
  // Removes the regular files of these names from a directory, and the directory if nothing else is in it. Returns
  // whether nothing of that path is left. A link to a directory, and what it leads to, stays.
  virtual bool remove_directory(const std::string& path, std::span<const std::string> names) = 0;
  // Makes a directory and those above it; nothing happens when it is there.
  virtual void make_directory(const std::string& path) = 0;
  // Whether there is anything of that name, a broken link included.
  virtual bool exists(const std::string& path) const = 0;
  // Names in a directory, sorted; empty when it is absent.
  virtual std::vector<std::string> list(const std::string& path) const = 0;
  // Takes the lock of `path` (made if absent; it holds the owner's process id) and of the directory it is in, so that
  // removing the file frees nothing. Throws when another holder has one of them: "<path>: process 123 is using this
  // folder; ...".
  virtual std::unique_ptr<FileLock> lock(const std::string& path) = 0;
};

// The machine's file systems. Stateless.
Disk& posix_disk();

// The name that write_atomic() gives to `path` until it is complete, where that is free.
std::string temporary_name(const std::string& path);
bool is_temporary_name(std::string_view name);
// The first free one of `path`.tmp, `path`.1.tmp, `path`.2.tmp and so on. What has such a name already may be
// anybody's.
std::string free_temporary_name(const Disk& disk, const std::string& path);

// `path` if nothing has that name, else the first free one of `path`.1, `path`.2 and so on.
std::string free_name(const Disk& disk, const std::string& path);

}  // namespace troupe
