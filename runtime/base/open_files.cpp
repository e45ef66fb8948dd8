#include "runtime/base/open_files.h"

#include <algorithm>
#include <string>

#include "runtime/base/errors.h"
#include "runtime/base/machine.h"

namespace troupe {

void require_open_files(uint64_t least) {
  constexpr uint64_t kUsual = 1024;
  const uint64_t allowed = raise_open_files();
  if (allowed >= least) return;
  throw ConfigError("`ulimit -n` allows " + std::to_string(allowed) + " open files, at least " + std::to_string(least) +
                    " are needed: raise the hard limit, as with `ulimit -Hn " +
                    std::to_string(std::max(kUsual, least)) +
                    "` as root or in the settings of the container or service");
}

}  // namespace troupe
