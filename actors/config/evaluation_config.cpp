#include "actors/config/evaluation_config.h"

#include "models/devices.h"

namespace troupe {

void describe(EvaluationConfig& c, Fields& fields) {
  const Section s(fields, "evaluation", "actors", Change::at_resume);
  s.add(c.every_updates, "every_updates", between(0, kMostCount),
        "updates between evaluations during training; 0 = only the last one");
  s.add(c.episodes, "episodes", between(1, 1e6), "episodes of one evaluation");
  s.add(c.rows, "rows", between(1, 65536), "sub-environments stepped together");
  s.add(c.device, "device", device_name_or_auto(),
        "where evaluations compute, troupe eval and play included; auto as in inference.device");
  s.add_object(c.env_params, "env_params",
               "parameters of the environment that evaluations have in place of those of env.params");
}

}  // namespace troupe
