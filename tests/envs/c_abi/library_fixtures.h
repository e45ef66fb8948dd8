#pragma once
// Environments of shared libraries that a test compiles with `cc` or `c++` out of the source tree.

#include <string>

#include "envs/env_config.h"
#include "envs/make/make_env.h"
#include "tests/support/run_program.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

namespace troupe::test {

// "lib:..." of the source, compiled into `folder` with these macros.
inline std::string compiled(const TempFolder& folder, const std::string& source, const std::string& macros = "") {
  static int number = 0;
  const std::string file = folder / ("env" + std::to_string(number++) + ".so");
  const std::string compiler = source.ends_with(".cpp") ? "c++ -std=c++17" : "cc -std=c99";
  const ProgramResult result = run_program(compiler + " -Wall -Wextra -Werror -shared -fPIC -I envs/c_abi " + macros +
                                           ' ' + source + " -lm -o " + file + " 2>&1");
  REQUIRE_MESSAGE(result.exit_code == 0, result.output);
  return "lib:" + file;
}

inline EnvConfig config_of(const std::string& id, int64_t rows, const std::string& params = "{}") {
  EnvConfig config;
  config.id = id;
  config.rows = rows;
  config.params = params;
  return config;
}

// Actions of zeros.
inline Array zeros(const Env& env) {
  return Array(env.spec().action.dtype(), env.spec().action.shape().prepended(env.rows()));
}

// Why the environment is refused, with ID in place of its id; "accepted" if it is not.
inline std::string refusal_of(EnvConfig config) {
  try {
    make_env(config);
  } catch (const ConfigError& error) {
    std::string text = error.what();
    for (size_t at = text.find(config.id); at != std::string::npos; at = text.find(config.id))
      text.replace(at, config.id.size(), "ID");
    return text;
  }
  return "accepted";
}

}  // namespace troupe::test
