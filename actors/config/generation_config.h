#pragma once
// The sections "generation" and "warmup" of a config file: how a token run samples answers, and how it begins. Plain
// values; any thread.

#include <cstdint>
#include <string>

#include "runtime/config/fields.h"

namespace troupe {

struct GenerationConfig {
  int64_t answers = 8;     // to each prompt
  int64_t max_tokens = 0;  // of an answer, its end token included; 0 = the longest right answer of the task
  double temperature = 1.0;
  std::string stop;              // an answer ends when it has this text; empty = none
  int64_t prompt_slots = 32;     // prompts that one inference actor works on at the same time
  int64_t answer_slots = 128;    // answers likewise
  int64_t prefill_tokens = 512;  // most tokens of prompts in one step
  std::string on_new_weights = "keep";
  friend bool operator==(const GenerationConfig&, const GenerationConfig&) = default;
};

struct WarmupConfig {
  int64_t steps = 0;   // optimizer steps on demonstrations before the first update; 0 = none
  int64_t batch = 64;  // demonstrations per step
  double learning_rate = 1e-3;
  double pass_at_1 = 0.3;  // ends early once this share of held-out prompts is answered right; 0 = never early
  friend bool operator==(const WarmupConfig&, const WarmupConfig&) = default;
};

// Add the settings of the sections to `fields`, bound to the members of `config`.
void describe(GenerationConfig& config, Fields& fields);
void describe(WarmupConfig& config, Fields& fields);

}  // namespace troupe
