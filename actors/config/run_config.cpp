#include "actors/config/run_config.h"

#include "actors/config/config.h"

namespace troupe {

bool is_token_run(const RunConfig& config) { return config.model.kind == kDecoderKind; }

const std::string& env_or_task(const RunConfig& config) {
  return is_token_run(config) ? config.task.name : config.env.id;
}

uint64_t samples_per_rollout(const RunConfig& config) {
  if (is_token_run(config)) return static_cast<uint64_t>(config.generation.answers);
  return static_cast<uint64_t>(config.rollout.length) * static_cast<uint64_t>(config.env.rows);
}

bool waits_for_late(const RunConfig& config) {
  const std::string& late = config.replay.late;
  return config.replay.mode == "consume_once" && (late == "wait" || (late == "auto" && is_token_run(config)));
}

Fields describe(RunConfig& c) {
  Fields fields;
  const Section s(fields, "", "actors");
  s.add(c.name, "name",
        matching(R"(^(?!\.{1,2}$)[^/\x00-\x1f\x7f]{0,255}$)",
                 "up to 255 bytes without / and control characters, and not . or .."),
        "shown in reports, and the default run folder is runs/NAME; empty = the config file's name without its ending",
        {.elsewhere = kWords<"exp_name">, .change = Change::at_resume});
  s.add(c.seed, "seed", anything(), "the one source of all randomness");
  s.add(c.deterministic, "deterministic", anything(), "every actor on one thread, in a fixed order",
        {.elsewhere = kWords<"torch_deterministic">});
  describe(c.env, fields);
  describe(c.workers, fields);
  describe(c.rollout, fields);
  describe(c.inference, fields);
  describe(c.replay, fields);
  describe(c.model, fields);
  describe(c.algorithm, fields);
  describe(c.trainer, fields);
  describe(c.stop, fields);
  describe(c.evaluation, fields);
  describe(c.checkpoint, fields);
  describe(c.stats, fields);
  describe(c.network, fields);
  describe(c.task, fields);
  describe(c.tokenizer, fields);
  describe(c.generation, fields);
  describe(c.warmup, fields);
  describe(c.reference, fields);
  return fields;
}

}  // namespace troupe
