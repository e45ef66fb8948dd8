#pragma once
// GroupNetwork: the process groups of a simulation, in which weights travel. Each backend that hosts groups has a port
// of its own, like a process. Members move their data within one thread (make_in_process_backend), and what they
// receive may be damaged, or the transfer breaks. One thread.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "runtime/weights/process_group.h"
#include "sim/fakes.h"

namespace troupe::sim {

class GroupNetwork {
 public:
  explicit GroupNetwork(World& world) : world_(world) {}

  // A backend for one process. It receives nothing while `stalled` returns true.
  std::shared_ptr<GroupBackend> backend(std::function<bool()> stalled);
  // How many operations have moved data or have failed. As long as it stays the same, no receiver has anything to do.
  uint64_t operations() const { return operations_; }

 private:
  friend class SimulatedBackend;
  friend class SimulatedGroup;

  World& world_;
  uint64_t operations_ = 0;
  std::map<uint16_t, std::shared_ptr<GroupBackend>> hosts_;  // by port
};

}  // namespace troupe::sim
