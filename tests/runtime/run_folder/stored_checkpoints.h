#pragma once
// Checkpoints on a disk in memory.

#include <cerrno>
#include <cmath>
#include <limits>
#include <system_error>

#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/base/memory_disk.h"
#include "runtime/run_folder/checkpoint.h"
#include "tests/support/bad_files.h"
#include "tests/support/temp_folder.h"

namespace troupe::test {

inline Checkpoint checkpoint_at(uint64_t updates) {
  Checkpoint checkpoint;
  checkpoint.version = {2, updates};
  checkpoint.env_steps = updates * 2048;
  checkpoint.updates = updates;
  checkpoint.seed = std::numeric_limits<uint64_t>::max();
  checkpoint.scalars = {{"lr", 0.1}, {"worst", -std::numeric_limits<double>::infinity()}};
  checkpoint.model = {{"w", Array::of<float>({2}, {1.5f, static_cast<float>(updates)})}};
  checkpoint.optimizer = {{"w.m", Array::of<float>({2}, {0.25f, NAN})}, {"step", Array::of<int64_t>({}, {7})}};
  checkpoint.extras = {{"env/0", std::string("\0\xff", 2)}, {"empty", ""}};
  return checkpoint;
}

inline std::string io_error_of(auto action) {
  try {
    action();
  } catch (const IoError& error) {
    return error.what();
  }
  return "no error";
}

// A checkpoint store on a disk in memory; warnings go to a file in memory.
struct StoredCheckpoints {
  StoredCheckpoints() { open_log(log_disk.open_append("log"), {LogLevel::info, LogLevel::error, false}); }
  ~StoredCheckpoints() { close_log(); }
  std::string log() const { return log_disk.read("log"); }
  void flip_bit(const std::string& path, size_t byte) {
    std::string bytes = disk.read(path);
    bytes.at(byte) = static_cast<char>(bytes[byte] ^ 4);
    disk.damage(path, bytes);
  }

  void copy(uint64_t from, uint64_t to) {
    for (const std::string& name : disk.list(store.path_of(from)))
      disk.write_atomic(store.path_of(to) + '/' + name, disk.read(store.path_of(from) + '/' + name));
  }

  MemoryDisk disk, log_disk;
  CheckpointStore store{disk, "run/checkpoints"};
};

}  // namespace troupe::test
