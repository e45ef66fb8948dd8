#pragma once
// Lists of hosts as Slurm writes them: "n[1-2,7],login". Pure functions; any thread.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

inline constexpr size_t kMostHosts = 65536;

// The hosts of a list, in its order: n1, n2, n7, login. A host may have several ranges (r[1-2]n[01-16]); a number has
// at least as many digits as the first of its range. Throws ConfigError, which begins with `name`, the variable that
// has the list.
std::vector<std::string> expand_host_list(std::string_view name, const std::string& text);

}  // namespace troupe
