#include "actors/worker_memory.h"

#include <algorithm>
#include <atomic>

#include "runtime/base/child_memory.h"
#include "runtime/base/process_stats.h"

namespace troupe {

namespace {

std::atomic<uint64_t> workers{0};  // of this process

}  // namespace

WorkerMemory::WorkerMemory() { ++workers; }

WorkerMemory::~WorkerMemory() { --workers; }

void WorkerMemory::fill(WorkerReport& report, bool of_run) {
  report.rss_bytes = report.environment_bytes = report.verifier_bytes = 0;
  if (of_run) return;
  const uint64_t parts = std::max<uint64_t>(workers.load(), 1);
  report.rss_bytes = resident_bytes() / parts;
  report.environment_bytes = resident_bytes(ChildKind::environment) / parts;
  report.verifier_bytes = resident_bytes(ChildKind::verifier) / parts;
}

}  // namespace troupe
