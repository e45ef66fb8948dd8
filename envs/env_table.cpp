#include "envs/env_table.h"

namespace troupe {

void require_rows(int64_t rows) {
  constexpr int64_t kMaxRows = 65536;
  if (rows < 1 || rows > kMaxRows)
    throw ConfigError("env.rows: " + std::to_string(rows) + " is not right, expected an integer in [1, " +
                      std::to_string(kMaxRows) + "]");
}

void apply_chunk(EnvSpec& spec, const EnvConfig& config) {
  constexpr int64_t kMaxChunk = 1024;
  if (config.chunk < 0 || config.chunk > kMaxChunk)
    throw ConfigError("env.chunk: " + std::to_string(config.chunk) + " is not right, expected an integer in [0, " +
                      std::to_string(kMaxChunk) + "], where 0 means the environment's default");
  if (config.chunk == 0) return;
  spec.action.chunk = static_cast<int32_t>(config.chunk);
  if (spec.action.masked && spec.action.chunk != 1)
    throw ConfigError("env.chunk: " + std::to_string(config.chunk) + " with " + spec.id +
                      ", whose action mask is only known for one step; expected 1");
}

std::vector<EnvInfo> list_environments(std::span<const EnvEntry> table) {
  std::vector<EnvInfo> infos;
  for (const EnvEntry& entry : table) {
    EnvConfig config;
    config.id = entry.id;
    config.rows = 1;
    EnvInfo& info = infos.emplace_back();
    info.id = entry.id;
    info.description = entry.description;
    try {
      const MadeEnv made = entry.make(entry.id, config, "{}");
      info.params = made.params;
      info.parameters = made.parameters;
      info.spec = made.env->spec();
    } catch (const ConfigError& error) {
      info.error = error.what();
    } catch (const std::exception& error) {
      info.error = info.id + ": " + error.what();
    }
  }
  return infos;
}

}  // namespace troupe
