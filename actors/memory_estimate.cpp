#include "actors/memory_estimate.h"

#include <algorithm>
#include <array>
#include <utility>

#include "actors/config/replay_capacity.h"
#include "actors/memory_bytes.h"
#include "actors/memory_of_answers.h"
#include "algorithms/choice/algorithm_choice.h"
#include "models/decoder/lora.h"
#include "models/experience/rollout.h"
#include "models/learning/recurrence.h"
#include "models/networks/inputs.h"
#include "models/networks/token_transformer_layout.h"
#include "models/shards/shard_sum.h"
#include "models/weights/model_weights.h"
#include "runtime/config/setting_rules.h"

namespace troupe {
namespace {

constexpr double kFloat = 4, kInt = 4;
// The program, its libraries and threads, in a run that has little else: peak_rss_bytes in summary.json after
// troupe train cartpole --set model.hidden=[1] --set stop.updates=5
constexpr double kProgramOfSteps = 134e6;
// and of a token run, which uses less of LibTorch: troupe train tokens/reverse --set stop.updates=2, with a decoder of
// one layer of 32 numbers.
constexpr double kProgramOfAnswers = 127e6;

double observation_bytes(const EnvSpec& env) {
  double bytes = 0;
  for (const ArraySpec& array : env.observations)
    bytes += to_double(array.shape.elements()) * to_double(size_of(array.dtype));
  return bytes;
}

// Observation, mask, action and log-probabilities of one sample.
double decision_bytes(const EnvSpec& env) {
  return observation_bytes(env) + (env.action.masked ? to_double(env.action.mask_size()) : 0) +
         to_double(env.action.decisions()) * 2 * kFloat;
}

// One sample of a rollout (models/experience/rollout.h): the decision, three numbers, three flags, a version, the
// executed steps of an action chunk, the extras of the algorithm, and a part of the states that a recurrent model
// stores.
double rollout_bytes(const RunConfig& config, const EnvSpec& env) {
  const double executed = env.action.chunk > 1 ? kInt : 0;
  const RolloutExtras extras = rollout_extras(config.algorithm);
  const double asked_for = (extras.advantages ? kFloat : 0) + (extras.returns ? kFloat : 0) +
                           (extras.tasks ? kInt : 0) +
                           (extras.policy_parameters ? kFloat * to_double(env.action.policy_parameters()) : 0);
  const Recurrence recurrence = recurrence_of(config, env);
  const double states =
      recurrence.state_size > 0 ? 1 + kFloat * to_double(recurrence.state_size) / to_double(recurrence.sequence) : 0;
  return decision_bytes(env) + 3 * kFloat + 3 + 8 + executed + asked_for + states;
}

// One sample as staged for the trainer: the decision, nine numbers (targets and their inputs), and its place in the
// order.
double staged_bytes(const EnvSpec& env) { return decision_bytes(env) + 9 * kFloat + 8; }

// One row of an EnvStep: current and final observations.
double step_bytes(const EnvSpec& env) { return 2 * observation_bytes(env); }

double model_bytes(const RunConfig& config, const EnvSpec& env) {
  double bytes = 0;
  for (const TensorSpec& tensor : model_signature(config.model, env).tensors)
    bytes += to_double(tensor.shape.elements()) * to_double(size_of(tensor.dtype));
  return bytes;
}

// Weights, gradients with their sums over shards, and two moments of the learner, the published snapshot and the next
// one, a state that is saved, and the replicas of the evaluator and of each inference actor.
MemoryNeed of_weights(const RunConfig& config, const EnvSpec& env) {
  const double bytes = model_bytes(config, env);
  const ModelConfig& model = config.model;
  const auto [setting, value] = model.kind == "mlp" ? std::pair{"model.hidden", setting_text(model.hidden)}
                                : model.kind == kTokenTransformerKind ? std::pair{"model.decoder", model.decoder}
                                                                      : std::pair{"model.net", model.net};
  // With adapters: the base, and a packed copy of it in each replica.
  double base = 0;
  if (model.kind == kTokenTransformerKind && lora_from_config(model.lora, "model.lora").used())
    base = to_double(lm_parameter_count(token_transformer_shape(model, env))) * kFloat *
           (2 + to_double(config.inference.count));
  return {setting, value, "weights, gradients, moments and copies of the model",
          bytes * (8 + gradient_sums(config.trainer.shards) + to_double(config.inference.count)) + base};
}

// What a forward pass on the CPU computes for one sample.
double forward_bytes_of_sample(const RunConfig& config, const EnvSpec& env) {
  const NetworkLayout layout = network_layout(config.model, env);
  return kFloat * to_double(InputEncoder(env.observations, layout.inputs).elements() + layout.units);
}

// A super-batch in replay and staged, and the activations that the network keeps for a backward on the CPU.
MemoryNeed of_super_batch(const RunConfig& config, const EnvSpec& env) {
  const TrainerConfig& t = config.trainer;
  const double rows = to_double(t.micro_batch > 0 ? t.micro_batch : t.super_batch / t.minibatches);
  const double forward = t.device == "cpu" ? rows * forward_bytes_of_sample(config, env) : 0;
  return {"trainer.super_batch", setting_text(t.super_batch), "one super-batch in replay and its training",
          to_double(t.super_batch) * (rollout_bytes(config, env) + staged_bytes(env)) + forward};
}

// The largest batch of each inference actor, on the CPU.
MemoryNeed of_batches(const RunConfig& config, const EnvSpec& env) {
  const InferenceConfig& i = config.inference;
  const int64_t asked = config.workers.count * config.workers.groups * config.env.rows;
  const bool on_cpu = i.device == "cpu" || (i.device == "auto" && config.trainer.device == "cpu");
  const double rows = to_double(i.count * std::min(asked, i.max_batch));
  return {"inference.max_batch", setting_text(i.max_batch), "passes of inference actors",
          on_cpu ? rows * forward_bytes_of_sample(config, env) : 0};
}

// One rollout in every group of every worker. The entry names the setting that is largest relative to its default.
MemoryNeed of_workers(const RunConfig& config, const EnvSpec& env) {
  const RunConfig d;
  const std::array<std::pair<const char*, std::array<int64_t, 2>>, 4> factors = {{
      {"rollout.length", {config.rollout.length, d.rollout.length}},
      {"env.rows", {config.env.rows, d.env.rows}},
      {"workers.groups", {config.workers.groups, d.workers.groups}},
      {"workers.count", {config.workers.count, d.workers.count}},
  }};
  const auto excess = [](const auto& factor) { return to_double(factor.second[0]) / to_double(factor.second[1]); };
  const auto& largest = *std::ranges::max_element(factors, {}, excess);
  const double rows = to_double(config.workers.count) * to_double(config.workers.groups) * to_double(config.env.rows);
  return {largest.first, setting_text(largest.second[0]),
          "rollouts under way (workers.count " + setting_text(config.workers.count) + " x workers.groups " +
              setting_text(config.workers.groups) + " x env.rows " + setting_text(config.env.rows) +
              " x rollout.length " + setting_text(config.rollout.length) + " samples)",
          rows * (to_double(config.rollout.length) * rollout_bytes(config, env) + step_bytes(env))};
}

MemoryNeed of_evaluation(const RunConfig& config, const EnvSpec& env) {
  const int64_t rows = std::min(config.evaluation.rows, config.evaluation.episodes);
  return {"evaluation.rows", setting_text(config.evaluation.rows), "the environments of an evaluation and its passes",
          to_double(rows) * (step_bytes(env) + forward_bytes_of_sample(config, env))};
}

MemoryNeed of_history(const RunConfig& config) {
  constexpr double kSnapshotBytes = 2000;  // as JSON
  return {"stats.history", setting_text(config.stats.history), "snapshots for clients of the statistics",
          to_double(config.stats.history) * kSnapshotBytes};
}

std::vector<MemoryNeed> needs_of_steps(const RunConfig& config, const EnvSpec& env) {
  std::vector<MemoryNeed> needs = {of_weights(config, env), of_super_batch(config, env), of_workers(config, env),
                                   of_batches(config, env), of_evaluation(config, env)};
  if (config.trainer.ranks > 1)
    needs.push_back(memory_of_ranks(config, model_bytes(config, env), rollout_bytes(config, env)));
  return needs;
}

std::vector<MemoryNeed> needs_of_answers(const RunConfig& config, const EnvSpec& /*env*/) {
  return memory_of_answers(config);
}

std::vector<MemoryNeed> possible_of_answers(const RunConfig& config, const EnvSpec& /*env*/) {
  return possible_memory_of_answers(config);
}

std::vector<MemoryNeed> replay_of_steps(const RunConfig& config, const EnvSpec& env) {
  return {memory_of_replay(config, rollout_bytes(config, env))};
}

// In what follows, sizes are in copies of the weights, and rank 0 has its own moments of all parameters besides.

constexpr double kMoments = 2;

// Moments of a rank.
double moments_of_rank(const TrainerConfig& t) { return t.zero > 0 ? kMoments / to_double(t.ranks) : kMoments; }

// What each rank does not have with freed gradients: the sum of the micro-batches, outside its slice; with a shard for
// each rank also the gradients, which are said while they are computed.
double freed_gradients(const TrainerConfig& t) {
  if (!frees_gradients(t)) return 0;
  return (1 - 1 / to_double(t.ranks)) * (t.shards == t.ranks ? 2 : 1);
}

// In an update: the gradients of each rank, and their sum.
double exchanged_gradients(const TrainerConfig& t) { return to_double(t.ranks) + 1; }

// The ranks of a deterministic run are in its process, each with weights, gradients and moments.
double copies_with_ranks_here(const TrainerConfig& t) {
  const double of_rank = 2 + gradient_sums(t.shards) + moments_of_rank(t) - freed_gradients(t);
  return to_double(t.ranks - 1) * of_rank + moments_of_rank(t) - kMoments - freed_gradients(t) + exchanged_gradients(t);
}

// The largest of what rank 0 has when it sends ranks the state, which it serializes for each and has in parts for all;
// in an update; and when it saves. A rank process may be lost, so it keeps the state from before the update; with
// divided moments only if it has copies of the next rank's, from before the update and after it. It gets the divided
// moments of all ranks, and joins them to save.
double copies_with_rank_processes(const TrainerConfig& t) {
  const bool divided = t.zero > 0, copied = divided && t.redundancy == "neighbour";
  const double own = moments_of_rank(t), next = copied ? own : 0;
  const double sent = 1 + (1 + own + next) * to_double(t.ranks) + (divided ? kMoments : 0);
  const double updated = exchanged_gradients(t) + (divided && !copied ? 0 : 1 + own) + 2 * next;
  const double saved = divided ? 2 * kMoments - own + next : 0;
  return own - kMoments - freed_gradients(t) + std::max({sent, updated, saved});
}

struct KindMemory {
  std::vector<MemoryNeed> (*needs)(const RunConfig& config, const EnvSpec& env);
  std::vector<MemoryNeed> (*possible)(const RunConfig& config, const EnvSpec& env);  // besides the statistics
  double program;
};

// In the order of Experience.
constexpr KindMemory kKinds[] = {{needs_of_steps, replay_of_steps, kProgramOfSteps},
                                 {needs_of_answers, possible_of_answers, kProgramOfAnswers}};

}  // namespace

std::vector<MemoryNeed> memory_needs(const RunConfig& config, const EnvSpec& env) {
  const KindMemory& kind = entry_of(kKinds, experience_of(config));
  std::vector<MemoryNeed> needs = kind.needs(config, env);
  needs.push_back({"", "", "the program and its libraries", kind.program});
  return needs;
}

MemoryNeed memory_of_replay(const RunConfig& config, double sample_bytes) {
  const ReplayConfig& r = config.replay;
  auto samples = static_cast<double>(replay_capacity(r, static_cast<uint64_t>(config.trainer.super_batch)));
  if (config.stop.env_steps > 0) samples = std::min(samples, to_double(config.stop.env_steps));
  const double bytes = samples * sample_bytes;
  const std::string what = "samples in replay";
  if (r.capacity > 0) return {"replay.capacity", setting_text(r.capacity), what, bytes};
  if (r.max_policy_lag + 2 < kMostSuperBatches)
    return {"replay.max_policy_lag", setting_text(r.max_policy_lag), what, bytes};
  return {"trainer.super_batch", setting_text(config.trainer.super_batch), what, bytes};
}

MemoryNeed memory_of_ranks(const RunConfig& config, double model_bytes, double sample_bytes) {
  const TrainerConfig& t = config.trainer;
  const double copies = config.deterministic ? copies_with_ranks_here(t) : copies_with_rank_processes(t);
  const double samples = to_double(t.super_batch) * sample_bytes;  // of all shards of the next update
  return {"trainer.ranks", setting_text(t.ranks), "what rank 0 keeps for the other ranks",
          copies * model_bytes + samples};
}

std::vector<MemoryNeed> possible_memory(const RunConfig& config, const EnvSpec& env) {
  std::vector<MemoryNeed> needs = entry_of(kKinds, experience_of(config)).possible(config, env);
  needs.push_back(of_history(config));
  return needs;
}

}  // namespace troupe
