#include "tests/runtime/weights/process_group_conformance.h"

namespace troupe::test {
std::vector<std::shared_ptr<GroupBackend>> backends_under_test() {
  return {make_in_process_backend(), make_group_backend("gloo", {})};
}
}  // namespace troupe::test
