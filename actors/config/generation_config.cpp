#include "actors/config/generation_config.h"

namespace troupe {
namespace {

// Without steps there is no warm-up; its other settings may stay.
constexpr Need kWithSteps = {.condition = is_at_least("warmup.steps", 1), .refused = false};

}  // namespace

void describe(GenerationConfig& c, Fields& fields) {
  const Section s(fields, "generation", "actors", Change::never, {kOnlyTokenRuns});
  s.add(c.answers, "answers", between(1, 1024), "answers sampled to each prompt (n)",
        {.elsewhere = kWords<"num_generations", "n_samples_per_prompt", "group_size">,
         .change = Change::before_first_update});
  s.add(c.max_tokens, "max_tokens", between(0, 65536),
        "most tokens of an answer, its end token included; 0 = as many as the longest right answer of the task needs",
        {.elsewhere = kWords<"max_completion_length", "max_response_length", "max_new_tokens", "response_length">});
  s.add(c.temperature, "temperature", between(0.001, 100),
        "temperature at which answers are sampled; log-probabilities are those at this temperature");
  s.add(c.stop, "stop", matching(R"(^[^\x00]{0,200}$)", "a text of at most 200 bytes"),
        "an answer ends when it has this text, which is left out when it is scored; empty = at end tokens alone");
  s.add(c.prompt_slots, "prompt_slots", between(1, 65536), "prompts that one inference actor works on at a time");
  s.add(c.answer_slots, "answer_slots", between(1, 65536), "answers that one inference actor works on at a time",
        {.elsewhere = kWords<"max_num_seqs">});
  s.add(c.prefill_tokens, "prefill_tokens", between(1, 1'000'000), "most tokens of prompts computed in one step",
        {.elsewhere = kWords<"max_num_batched_tokens">});
  s.add(c.on_new_weights, "on_new_weights", one_of(kWords<"keep", "recompute", "finish">),
        "what happens with the answers in progress when there are new weights. keep: they go on with the new weights, "
        "and keep the keys and values of the older ones; recompute: the same, but their keys and values are computed "
        "anew with the new weights; finish: they are finished with the weights with which they began, and the new "
        "weights wait for that",
        {.elsewhere = kWords<"partial_rollout", "partial_rollout_enable">});
}

void describe(WarmupConfig& c, Fields& fields) {
  const Section s(fields, "warmup", "actors", Change::at_resume_unless_deterministic, {kOnlyTokenRuns});
  s.add(c.steps, "steps", between(0, 10'000'000),
        "optimizer steps on demonstrations of the task before the first update; 0 = none");
  s.add(c.batch, "batch", between(1, 65536), "demonstrations per step", {.needs = {kWithSteps}});
  s.add(c.learning_rate, "policy_lr", above(0, 10), "learning rate of these steps", {.needs = {kWithSteps}});
  s.add(c.pass_at_1, "pass_at_1", between(0, 1),
        "ends the warm-up early, once this share of 64 held-out prompts is answered right; 0 = never early",
        {.needs = {kWithSteps}});
}

}  // namespace troupe
