#pragma once
// MemoryDisk: a Disk in memory, for simulations and tests, with faults at a chosen operation. Deterministic: the same
// calls give the same results. Thread-safe.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/file.h"

namespace troupe {

// A fault and its time. Operations that change something are counted from 0: write_atomic() counts as two (the
// temporary file, then the rename), every other call as one.
struct DiskFault {
  enum class Kind : uint8_t {
    refuse,    // the operation changes nothing and throws "No space left on device"
    unsynced,  // the operation takes effect, then throws: a directory that cannot be synced
    crash,  // half of the operation's bytes are written, then this and every later operation throws: a killed process
  };
  Kind kind = Kind::refuse;
  uint64_t first = 0;  // the first operation with the fault
  uint64_t count = 1;  // number of operations with the fault; a crash lasts until clear_fault()
};

class MemoryDisk final : public Disk {
 public:
  MemoryDisk();
  ~MemoryDisk() override;

  using Disk::write_atomic;
  std::unique_ptr<ReadFile> open_read(const std::string& path) const override;
  void write_atomic(const std::string& path, std::span<const std::string_view> parts) override;
  std::unique_ptr<AppendFile> open_append(const std::string& path) override;
  void truncate(const std::string& path, uint64_t bytes) override;
  void rename(const std::string& from, const std::string& to) override;
  void remove(const std::string& path) override;
  bool remove_directory(const std::string& path, std::span<const std::string> names) override;
  void make_directory(const std::string& path) override;
  bool exists(const std::string& path) const override;
  std::vector<std::string> list(const std::string& path) const override;
  std::unique_ptr<FileLock> lock(const std::string& path) override;

  void set_fault(DiskFault fault);
  // The disk works again. After a crash, the locks of the dead process are released.
  void clear_fault();
  // The number of operations so far that changed something or tried to.
  uint64_t operations() const;
  // Overwrites the bytes of a file, to simulate damage. Not counted, and has no fault.
  void damage(const std::string& path, std::string bytes);

 private:
  class Read;
  class Append;
  class Lock;
  struct Contents;  // shared with open files and locks, which may outlive the disk

  std::shared_ptr<Contents> contents_;
};

}  // namespace troupe
