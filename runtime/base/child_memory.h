#pragma once
// Memory of the processes that this process has started for environments and verifiers, which its own figures do not
// contain. Any thread.

#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace troupe {

enum class ChildKind : uint8_t { environment, verifier };

// Counts a child among those of its kind while this object lives.
class CountedChild {
 public:
  CountedChild(ChildKind kind, pid_t id);
  ~CountedChild();
  CountedChild(const CountedChild&) = delete;
  CountedChild& operator=(const CountedChild&) = delete;

 private:
  ChildKind kind_;
  pid_t id_;
};

// Adds the processes that a process has started. None where the system does not list them.
void add_children_of(pid_t id, std::vector<pid_t>& processes);

// Resident memory of all counted children of a kind and of the processes that they have started; 0 without any. Memory
// that several of them share counts in each.
uint64_t resident_bytes(ChildKind kind);

}  // namespace troupe
