#pragma once
// The function that a program with process_group_conformance.cpp must define.

#include <memory>
#include <vector>

#include "runtime/weights/process_group.h"

namespace troupe::test {

// A new backend of each kind that this program tests and this machine can run.
std::vector<std::shared_ptr<GroupBackend>> backends_under_test();

}  // namespace troupe::test
