#pragma once
// The limit on the files, sockets and pipes that this process may have open (`ulimit -n`). Any thread.

#include <cstdint>

namespace troupe {

// Raises the limit as far as the system allows. Throws ConfigError when fewer than `least` are allowed even then.
void require_open_files(uint64_t least);

}  // namespace troupe
