#pragma once
// A loop in Python around environments of Gymnasium, with which environments of troupe are compared: what a program in
// Python does at least. Main thread only.

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/base/child_process.h"
#include "runtime/base/descriptor.h"

namespace troupe {

struct LoopSpeed {
  double steps_per_second = 0;
  double steps_per_cpu_second = 0;  // of the process's own time on the processor
};

class GymnasiumLoop {
 public:
  // Starts python3 with `rows` environments made by gymnasium.make(id, **arguments); `arguments` is a JSON object.
  GymnasiumLoop(const std::string& id, const std::string& arguments, int64_t rows);

  // Steps the environments one after the other for `seconds`. Throws std::runtime_error when the process has ended,
  // for example because Gymnasium is missing.
  LoopSpeed run(double seconds);

 private:
  Descriptor socket_;
  std::unique_ptr<ChildProcess> process_;
};

}  // namespace troupe
