#pragma once
// WorkerMemory: a worker's part in the memory of its process and of that process's children, for its reports. Each
// worker has one. Any thread.

#include "actors/messages.h"

namespace troupe {

class WorkerMemory {
 public:
  WorkerMemory();
  ~WorkerMemory();
  WorkerMemory(const WorkerMemory&) = delete;
  WorkerMemory& operator=(const WorkerMemory&) = delete;

  // `of_run`: the worker is in the trainer's process, whose memory the run measures itself; the figures are 0 then.
  // Otherwise each worker of the process reports an equal part.
  static void fill(WorkerReport& report, bool of_run);
};

}  // namespace troupe
