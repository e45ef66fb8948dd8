#pragma once
// What tests of a run folder share: its config, and a disk in memory.

#include <string>
#include <string_view>

#include "runtime/base/log.h"
#include "runtime/base/memory_disk.h"
#include "runtime/run_folder/run_folder.h"

namespace troupe::test {

inline const std::string kConfig =
    R"({"name": "a", "seed": 1, "trainer": {"epochs": 4, "threads": 1}, "stop": {"env_steps": 10}})";

// The same, as TensorBoard gets them.
inline const HParams kHParams = {{"name", std::string("a")},
                                 {"seed", 1.0},
                                 {"trainer.epochs", 4.0},
                                 {"trainer.threads", 1.0},
                                 {"stop.env_steps", 10.0}};

// Settings with three that may change at a resume.
inline const SettingsOfRun kSettings = {[](std::string_view path) {
                                          const bool may =
                                              path == "name" || path == "stop.env_steps" || path == "trainer.threads";
                                          return may ? Change::at_resume : Change::never;
                                        },
                                        nullptr};

inline std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

// A disk in memory and what is logged.
struct RunFolderFixture {
  RunFolderFixture() { open_log(log_disk.open_append("log"), {LogLevel::info, LogLevel::error, false}); }
  ~RunFolderFixture() { close_log(); }
  std::string log() const { return log_disk.read("log"); }
  std::string metrics() const { return disk.read("run/metrics.jsonl"); }

  MemoryDisk disk, log_disk;
};

}  // namespace troupe::test
