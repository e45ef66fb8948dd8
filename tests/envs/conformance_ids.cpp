#include "tests/envs/fixtures.h"

namespace troupe::test {

std::vector<std::string> conformance_ids() {
  std::vector<std::string> ids;
  for (const EnvInfo& info : list_environments()) ids.push_back(info.id);
  return ids;
}

uint64_t conformance_steps() { return 600; }

}  // namespace troupe::test
