#pragma once
// The section "inference" of a config file. Plain values; any thread.

#include <chrono>
#include <cstdint>
#include <string>

#include "runtime/config/fields.h"

namespace troupe {

struct InferenceConfig {
  int64_t count = 1;                        // inference actors inside the trainer's process
  int64_t batch_size = 64;                  // rows at which a batch leaves at once
  int64_t max_batch = 4096;                 // largest number of rows in a batch
  std::chrono::microseconds timeout{2000};  // age of the oldest request at which a batch leaves
  int64_t threads = 1;                      // compute threads of one forward
  std::string device = "auto";              // "auto", "cpu", "cuda", "cuda:N"; see models/devices.h
  friend bool operator==(const InferenceConfig&, const InferenceConfig&) = default;
};

// Adds the settings of the section to `fields`, bound to the members of `config`.
void describe(InferenceConfig& config, Fields& fields);

}  // namespace troupe
