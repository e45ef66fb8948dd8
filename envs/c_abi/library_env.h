#pragma once
// Environments of shared libraries: "lib:path/file.so". Any thread.

#include <chrono>
#include <memory>
#include <string>

#include "envs/env.h"
#include "envs/env_config.h"
#include "envs/process_limit.h"

namespace troupe {

inline constexpr const char* kLibraryForm = "lib:FILE.so";  // for messages

// Whether the id begins with the scheme of shared libraries.
bool is_library_id(const std::string& id);

// What to load, and how long its functions may take.
struct LibraryTarget {
  std::string id;      // with its scheme
  std::string params;  // JSON object
  int64_t chunk = 0;   // 0: one step
  std::chrono::milliseconds timeout{}, start_timeout{};
  std::string timeout_setting = kStepTimeout, start_setting = kStartTimeout;
};

// The environment with the id, rows, chunk and parameters of the config; `evaluation_params` override some of its
// parameters. With env.isolate its library runs in another process (HostedEnv), else in this one. Throws ConfigError
// when the library cannot be used or refuses the parameters. `timeout` as for make_evaluation_env().
std::unique_ptr<Env> make_library_env(const EnvConfig& config, const std::string& evaluation_params,
                                      std::chrono::milliseconds timeout);

// The environment in this process. Throws ConfigError as above.
std::unique_ptr<Env> make_library_rows(const LibraryTarget& target, int64_t rows);

}  // namespace troupe
