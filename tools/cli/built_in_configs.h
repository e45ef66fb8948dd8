#pragma once
// The built-in config files: those installed with the program, or those of the source tree for a program in its build
// folder. A name is the path in that folder without its ending: cartpole, mujoco/hopper_1m. Any thread.

#include <filesystem>
#include <string>
#include <vector>

namespace troupe {

std::filesystem::path config_folder();

// All names, sorted; empty if the folder is missing.
std::vector<std::string> built_in_configs();

// The names in one line for a message; of a folder with many files only their number.
std::string built_in_configs_text();

// The name that is nearly `name`, or whose last part is: mujoco/hopper_1m for hopper_1m. Empty if there is none.
std::string nearest_built_in_config(const std::string& name);

// The config file beside `path` whose name is nearly the same, whatever the ending. Empty if there is none.
std::string nearest_config_file(const std::filesystem::path& path);

// If `name`, which is no config, means an environment: what it is and which commands train it; else empty.
std::string advice_for_environment(const std::string& name);

}  // namespace troupe
