#pragma once
// What process_group_conformance.cpp asks of the program it is linked into.

#include <memory>
#include <vector>

#include "runtime/weights/process_group.h"

namespace troupe::test {

// A fresh backend of each kind that this program tests and this machine can run.
std::vector<std::shared_ptr<GroupBackend>> backends_under_test();

}  // namespace troupe::test
