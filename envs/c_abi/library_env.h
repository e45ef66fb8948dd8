#pragma once
// Environments of shared libraries: "lib:path/file.so". Any thread.

#include <memory>
#include <string>

#include "envs/env.h"
#include "envs/env_config.h"

namespace troupe {

inline constexpr const char* kLibraryForm = "lib:FILE.so";  // for messages

// Whether the id begins with the scheme of shared libraries.
bool is_library_id(const std::string& id);

// The environment with the id, rows, chunk and parameters of the config; `evaluation_params` override some of its
// parameters. Throws ConfigError when the library cannot be used or refuses the parameters.
std::unique_ptr<Env> make_library_env(const EnvConfig& config, const std::string& evaluation_params);

}  // namespace troupe
