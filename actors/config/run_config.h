#pragma once
// Every setting of a run, with its default. Plain values, which never change while a process uses them.
// actors/config/config.h reads them from a config. Each section is a struct in a header `*_config.h`; the source beside
// that header gives the key, limits and help of each member.

#include <cstdint>
#include <string>

#include "actors/config/checkpoint_config.h"
#include "actors/config/evaluation_config.h"
#include "actors/config/generation_config.h"
#include "actors/config/inference_config.h"
#include "actors/config/replay_config.h"
#include "actors/config/reward_model_config.h"
#include "actors/config/rollout_config.h"
#include "actors/config/scorers_config.h"
#include "actors/config/stats_config.h"
#include "actors/config/stop_config.h"
#include "actors/config/workers_config.h"
#include "algorithms/choice/algorithm_config.h"
#include "envs/env_config.h"
#include "models/learning/learner_config.h"
#include "models/learning/reference_config.h"
#include "models/learning/trainer_config.h"
#include "models/networks/model_config.h"
#include "runtime/caf/network_config.h"
#include "tasks/task_config.h"
#include "text/tokenizer_config.h"

namespace troupe {

enum class Experience : uint8_t;

struct RunConfig {
  std::string name;  // shown in reports; empty = the config file's name
  uint64_t seed = 1;
  bool deterministic = false;  // every actor on one thread, in a fixed order
  EnvConfig env;
  WorkersConfig workers;
  RolloutConfig rollout;
  InferenceConfig inference;
  ReplayConfig replay;
  ModelConfig model;
  AlgorithmConfig algorithm;
  TrainerConfig trainer;
  StopConfig stop;
  EvaluationConfig evaluation;
  CheckpointConfig checkpoint;
  StatsConfig stats;
  NetworkConfig network;
  // Of token runs.
  TaskConfig task;
  TokenizerConfig tokenizer;
  GenerationConfig generation;
  WarmupConfig warmup;
  ReferenceConfig reference;
  RewardModelConfig reward_model;
  ScorersConfig scorers;
  friend bool operator==(const RunConfig&, const RunConfig&) = default;

  // The settings from which models and learners are made.
  operator LearnerConfig() const {  // NOLINT
    return {seed, rollout.length, model, algorithm, trainer, replay.max_policy_lag, reference};
  }
};

// What the run learns from; actors/config/kind_settings.h has what follows from it for the settings.
Experience experience_of(const RunConfig& config);
// Whether the run trains a language model on a task, instead of a policy on an environment.
bool is_token_run(const RunConfig& config);
// What workers sample from: the id of the environment, or the name of the task.
const std::string& env_or_task(const RunConfig& config);
// Whether the estimator compares answers with the most likely answer to the same prompt, which is then asked for too.
bool needs_greedy_answer(const RunConfig& config);
// Whether scorers compute with frozen models.
bool has_scorers(const RunConfig& config);
// Answers that are asked for to each prompt: generation.answers samples, and after them the most likely one, if needed.
int64_t answers_asked(const RunConfig& config);
// Samples of a whole rollout: steps of environments, or the answers to one prompt.
uint64_t samples_per_rollout(const RunConfig& config);
// Whether updates wait for late samples: what replay.late says, or stands for.
bool waits_for_late(const RunConfig& config);
// Whether late answers stay, without their tokens that are too old.
bool masks_late(const RunConfig& config);

// Cross-field rules. Throws ConfigError naming both fields, both values and what would be right. Assumes that each
// field is within its own range, which the reader has checked.
void validate(const RunConfig& config);

}  // namespace troupe
