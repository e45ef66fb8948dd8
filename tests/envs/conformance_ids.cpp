#include "tests/envs/fixtures.h"

namespace troupe::test {

std::vector<std::string> conformance_ids() {
  std::vector<std::string> ids;
  for (const EnvInfo& info : list_environments()) ids.push_back(info.id);
  return ids;
}

}  // namespace troupe::test
