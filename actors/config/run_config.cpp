#include "actors/config/run_config.h"

#include "actors/config/config.h"
#include "actors/config/kind_settings.h"
#include "algorithms/advantages/advantages.h"

namespace troupe {

bool is_token_run(const RunConfig& config) { return config.model.kind == kDecoderKind; }

Experience experience_of(const RunConfig& config) {
  return is_token_run(config) ? Experience::answers : Experience::steps;
}

const std::string& env_or_task(const RunConfig& config) { return settings_of_kind(config).env_or_task(config); }

uint64_t samples_per_rollout(const RunConfig& config) { return settings_of_kind(config).samples_per_rollout(config); }

bool needs_greedy_answer(const RunConfig& config) {
  return is_token_run(config) && (find_advantage(config.algorithm.advantage).needs & kNeedsBaselines) != 0;
}

int64_t answers_asked(const RunConfig& config) {
  return config.generation.answers + (needs_greedy_answer(config) ? 1 : 0);
}

bool waits_for_late(const RunConfig& config) {
  const std::string& late = config.replay.late;
  return config.replay.mode == "consume_once" &&
         (late == "wait" || (late == "auto" && settings_of_kind(config).waits_for_late));
}

bool masks_late(const RunConfig& config) { return config.replay.late == "mask"; }

bool has_scorers(const RunConfig& config) { return config.reference.by_scorers() || config.reward_model.by_scorers(); }

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
  describe(c.reward_model, fields);
  describe(c.scorers, fields);
  for (Field& field : fields)
    if (is_file_setting(field.path)) field.setting.change = Change::at_resume;
  return fields;
}

}  // namespace troupe
