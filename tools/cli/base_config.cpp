#include "tools/cli/base_config.h"

#include <cstdlib>

#include "envs/bridge/make_python_env.h"
#include "tasks/python_task.h"

namespace troupe {

RunConfig base_config() {
  RunConfig config;
  const char* python = std::getenv("TROUPE_ENV_PYTHON");  // NOLINT(concurrency-mt-unsafe): nothing sets it
  if (python != nullptr && *python != '\0') config.env.python = config.task.python = python;
  return config;
}

void forget_unused_python(RunConfig& config) {
  const std::string given = base_config().env.python;
  if (!is_python_id(config.env.id) && config.env.python == given) config.env.python = EnvConfig{}.python;
  const bool called = !config.task.verifier.empty() || !config.task.reply.empty();
  if (!called && config.task.python == given) config.task.python = TaskConfig{}.python;
}

void use_python_task(RunConfig& config) {
  if (is_python_task(config.task) && config.task.verifier.empty()) config.task.verifier = config.task.name;
}

}  // namespace troupe
