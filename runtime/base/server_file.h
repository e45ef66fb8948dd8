#pragma once
// Where the Python programs are that troupe starts as child processes. Reads the file system; any thread.

#include <string>

namespace troupe {

// The path of the Python program `name`: installed with the running program, or in the folder `source` of the source
// tree if the program is in its build folder. Throws IoError when it is missing.
std::string server_file(const std::string& name, const std::string& source);

}  // namespace troupe
