#pragma once
// Tables of environments: how an entry is created and described. envs/make/make_env.cpp contains the table that the
// programs use. Usable from any thread.

#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "envs/batched.h"
#include "envs/env_config.h"
#include "envs/env_info.h"
#include "envs/params.h"

namespace troupe {

struct MadeEnv {
  std::unique_ptr<Env> env;
  std::string params;  // as text: "size=8 slip=0"
  std::vector<SettingInfo> parameters;
};

struct EnvEntry {
  const char* id;
  const char* description;
  MadeEnv (*make)(const char* id, const EnvConfig& config, const std::string& evaluation_params);
};

// Descriptions of every environment of the table, in its order.
std::vector<EnvInfo> list_environments(std::span<const EnvEntry> table);

// Throws ConfigError for a number of rows that is not allowed.
void require_rows(int64_t rows);
// Writes env.chunk into the spec if it is set. Throws ConfigError when the environment does not support it.
void apply_chunk(EnvSpec& spec, const EnvConfig& config);
// Returns the result of `make`; converts its exceptions to ConfigError with the name of the environment.
template <class Make>
EnvSpec spec_of(const char* id, Make make);

// An environment with N copies of Row. Throws ConfigError.
template <class Row>
MadeEnv make_rows(const char* id, const EnvConfig& config, const std::string& evaluation_params) {
  using Options = typename Batched<Row>::Options;
  require_rows(config.rows);
  EnvParams params(config.params, evaluation_params);
  Options options;
  if constexpr (!std::is_same_v<Options, NoOptions>) options = Options::read(params);
  params.finish();
  EnvSpec spec = spec_of(id, [&] {
    if constexpr (std::is_same_v<Options, NoOptions>)
      return Row::spec();
    else
      return Row::spec(options);
  });
  spec.id = id;
  apply_chunk(spec, config);
  const std::string identity = spec.id + (params.text().empty() ? "" : " with " + params.text());
  return {std::make_unique<Batched<Row>>(std::move(spec), config.rows, std::move(options), identity), params.text(),
          params.asked()};
}

template <class Make>
EnvSpec spec_of(const char* id, Make make) {
  try {
    return make();
  } catch (const ConfigError&) {
    throw;
  } catch (const std::exception& error) {
    throw ConfigError(std::string(id) + ": spec() failed: " + error.what());
  }
}

}  // namespace troupe
