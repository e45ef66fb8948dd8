#pragma once
// The command line that started this process.

#include <string>
#include <vector>

namespace troupe {

// The command as a user can type it again, quoted for a shell. Empty if the system does not report it.
std::string this_command();

// One line that a POSIX shell reads as these words.
std::string shell_line(const std::vector<std::string>& words);

}  // namespace troupe
