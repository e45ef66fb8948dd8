// The rules between settings. Each refuses a run that would hang, waste its data, learn nothing or silently ignore a
// setting.

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "actors/config/config.h"
#include "actors/config/kind_settings.h"
#include "actors/config/replay_capacity.h"
#include "actors/config/run_config.h"
#include "actors/config/shard_rules.h"
#include "algorithms/choice/algorithm_choice.h"
#include "runtime/base/text_format.h"
#include "runtime/config/effects.h"
#include "runtime/config/setting_rules.h"

namespace troupe {
namespace {

template <class T>
std::string text(const T& value) {
  return setting_text(value);
}

template <class T>
[[noreturn]] void refuse(std::string_view path, const T& value, const std::string& what) {
  refuse_setting(path, value, what);
}

// The largest value that a numeric field accepts.
double highest_of(std::string_view path) {
  RunConfig defaults;
  return highest_of(describe(defaults), path);
}

// "use at least 4096, or 0"; only "use 0" if 4096 is outside the range of the field.
std::string use_at_least(std::string_view path, int64_t least, const std::string& otherwise) {
  const bool in_range = static_cast<double>(least) <= highest_of(path);
  if (!in_range) return "use " + otherwise;
  return "use at least " + std::to_string(least) + (otherwise.empty() ? "" : ", or " + otherwise);
}

// A user who sets a setting that nobody reads would expect an effect that it cannot have. What depends on the
// environment is in models/learning/environment_rules.cpp.
void check_effects(RunConfig config) {
  static RunConfig defaults;
  static const Fields of_defaults = describe(defaults);
  require_effects(describe(config), of_defaults);
}

void check_batches(const RunConfig& c) {
  const TrainerConfig& t = c.trainer;
  if (t.minibatches > t.super_batch)
    refuse("trainer.minibatches", t.minibatches,
           "is more than the samples of trainer.super_batch " + text(t.super_batch) + "; use at most " +
               text(t.super_batch));
  const int64_t minibatch = t.super_batch / t.minibatches;
  if (t.micro_batch > minibatch)
    refuse("trainer.micro_batch", t.micro_batch,
           "is larger than a minibatch, which holds " + text(minibatch) + " samples (trainer.super_batch " +
               text(t.super_batch) + " / trainer.minibatches " + text(t.minibatches) + "); use at most " +
               text(minibatch) + ", or 0 for the whole minibatch");
  if (c.algorithm.normalize_advantages && t.super_batch < 2)
    refuse("trainer.super_batch", t.super_batch,
           "leaves nothing to learn from with algorithm.normalize_advantages true; use at least 2");
}

void check_replay(const RunConfig& c) {
  const ReplayConfig& r = c.replay;
  if (r.mode == "reuse" && r.max_policy_lag == 0)
    refuse("replay.max_policy_lag", r.max_policy_lag,
           "lets no sample be used twice, but replay.mode is \"reuse\"; use at least 1");
  if (r.capacity == 0) return;
  const bool once = r.mode == "consume_once";
  const bool bounded = r.max_policy_lag + 1 > kMostSuperBatches;
  const int64_t super_batches = !once ? 1 : bounded ? kMostSuperBatches : r.max_policy_lag + 1;
  const int64_t needed = super_batches * c.trainer.super_batch;
  if (r.capacity < needed)
    refuse("replay.capacity", r.capacity,
           "is less than the " + text(needed) + " samples of trainer.super_batch " + text(c.trainer.super_batch) +
               (!once     ? ""
                : bounded ? " x " + text(super_batches)
                          : " x (replay.max_policy_lag " + text(r.max_policy_lag) + " + 1)") +
               "; " + use_at_least("replay.capacity", needed, "0"));
  const KindSettings& kind = settings_of_kind(c);
  const int64_t rollout = static_cast<int64_t>(kind.samples_per_rollout(c));
  if (r.capacity / rollout * rollout < c.trainer.super_batch)
    refuse("replay.capacity", r.capacity,
           std::string("holds too few whole ") + kind.rollouts + " of " + text(rollout) + ' ' + kind.rollout_size +
               " for trainer.super_batch " + text(c.trainer.super_batch) + "; use at least " +
               text((c.trainer.super_batch + rollout - 1) / rollout * rollout) + ", or 0");
}

void check_algorithm(const RunConfig& c) {
  const AlgorithmConfig& a = c.algorithm;
  if (a.kl_controller == "adaptive" && a.kl_coef == 0)
    refuse("algorithm.kl_coef", a.kl_coef,
           "stays 0 with algorithm.kl_controller \"adaptive\"; start above 0, like 0.1");
  // Whole columns can exceed a super-batch by this many samples.
  const int64_t spare = settings_of_kind(c).unit(c) == UnitKind::column ? c.rollout.length - 1 : 0;
  const int64_t most_samples = c.trainer.super_batch + spare;
  const double least_horizon = static_cast<double>(most_samples) / 5;  // a fifth: see algorithms/losses/kl.h
  if (a.kl_controller == "adaptive" && a.kl_horizon <= least_horizon)
    refuse("algorithm.kl_horizon", a.kl_horizon,
           "lets one update of up to " + text(most_samples) + " samples (trainer.super_batch " +
               text(c.trainer.super_batch) + (spare > 0 ? " + rollout.length " + text(c.rollout.length) + " - 1" : "") +
               ") turn the sign of kl_coef; use more than " + text(least_horizon));
  if (rollout_extras(a).policy_parameters && c.trainer.device != "cpu")
    refuse("algorithm.kl", a.kl,
           "is computed on the CPU only; use another estimate, like \"k3\", or trainer.device \"cpu\"");
  if (c.trainer.policy_lr == 0 && c.trainer.value_lr == 0)
    refuse("trainer.policy_lr", c.trainer.policy_lr, "and trainer.value_lr 0 learn nothing; raise one");
  constexpr double kLeastNorm = 1e-6;
  if (c.trainer.max_grad_norm > 0 && c.trainer.max_grad_norm < kLeastNorm)
    refuse("trainer.max_grad_norm", c.trainer.max_grad_norm,
           "leaves nothing of the gradients; use 0 (off) or at least " + text(kLeastNorm) + ", like 0.5");
  if (c.trainer.value_only_updates > 0 && (c.trainer.value_lr == 0 || a.value_coef == 0))
    refuse("trainer.value_only_updates", c.trainer.value_only_updates,
           std::string("learn nothing with ") + (a.value_coef == 0 ? "algorithm.value_coef 0" : "trainer.value_lr 0") +
               "; raise that, or use 0");
  if (c.trainer.value_epochs > 0 && c.trainer.value_epochs < c.trainer.epochs)
    refuse("trainer.value_epochs", c.trainer.value_epochs,
           "is less than trainer.epochs " + text(c.trainer.epochs) + "; use at least that, or 0 for as many");
  if (c.trainer.value_epochs > c.trainer.epochs && (c.trainer.value_lr == 0 || a.value_coef == 0))
    refuse("trainer.value_epochs", c.trainer.value_epochs,
           std::string("learn nothing with ") + (a.value_coef == 0 ? "algorithm.value_coef 0" : "trainer.value_lr 0") +
               "; raise that, or use 0");
}

// Scaled rewards and clipped observations must not vanish, and 32-bit floats must be able to square and sum rewards.
void check_scales(const RunConfig& c) {
  constexpr double kLeastScale = 1e-6, kMostScale = 1e6, kLeastClip = 0.01;
  if (c.env.reward_scale < kLeastScale || c.env.reward_scale > kMostScale)
    refuse("env.reward_scale", c.env.reward_scale,
           (c.env.reward_scale < kLeastScale ? "makes rewards too small to learn from; use "
                                             : "makes rewards too large to learn from; use ") +
               text(kLeastScale) + " to " + text(kMostScale) + ", like 1");
  if (c.model.observation_clip < kLeastClip)
    refuse("model.observation_clip", c.model.observation_clip,
           "leaves nothing of the observations; use at least " + text(kLeastClip) + ", like 10");
}

// The largest number of updates that the run can make, or -1 if its limits do not bound it.
int64_t most_updates(const RunConfig& c) {
  const bool counts_samples = c.stop.env_steps > 0 && c.replay.mode == "consume_once";
  const int64_t by_steps = counts_samples ? c.stop.env_steps / c.trainer.super_batch : -1;
  if (c.stop.updates == 0) return by_steps;
  return by_steps < 0 ? c.stop.updates : std::min(by_steps, c.stop.updates);
}

void check_stop(const RunConfig& c) {
  const StopConfig& s = c.stop;
  if (s.env_steps == 0 && s.updates == 0 && s.seconds == 0 && !s.after_warmup)
    throw ConfigError("stop.env_steps: 0, with stop.updates 0 and stop.seconds 0, never ends the run; set one of them");
  if (s.env_steps > 0 && s.env_steps < c.trainer.super_batch)
    refuse("stop.env_steps", s.env_steps,
           "ends the run before its first update, trainer.super_batch " + text(c.trainer.super_batch) +
               "; use at least that many");
  if (s.eval_return != 0 && c.evaluation.every_updates == 0)
    refuse("stop.eval_return", s.eval_return,
           "is never looked at with evaluation.every_updates 0; set that, to 10 for example");
  if (c.checkpoint.keep_best > 1 && c.evaluation.every_updates == 0)
    refuse("checkpoint.keep_best", c.checkpoint.keep_best,
           "has only the last policy to rank with evaluation.every_updates 0; set that, to 10 for example, or use 1");
  const int64_t updates = most_updates(c);
  if (updates < 0) return;
  const std::string end = "the run ends after at most " + format_counted(static_cast<uint64_t>(updates), "update") +
                          " (stop.env_steps " + text(s.env_steps) + ", stop.updates " + text(s.updates) + ")";
  if (s.eval_return != 0 && c.evaluation.every_updates > updates)
    refuse("stop.eval_return", s.eval_return,
           "is never looked at with evaluation.every_updates " + text(c.evaluation.every_updates) + ": " + end +
               "; use evaluation.every_updates of at most " + text(updates));
  if (c.checkpoint.keep_best > 1 && c.evaluation.every_updates > updates)
    refuse("checkpoint.keep_best", c.checkpoint.keep_best,
           "has only the last policy to rank with evaluation.every_updates " + text(c.evaluation.every_updates) + ": " +
               end + "; use evaluation.every_updates of at most " + text(updates));
  if (c.trainer.value_only_updates >= updates)
    refuse("trainer.value_only_updates", c.trainer.value_only_updates,
           "leave the policy untrained: " + end + "; use at most " + text(updates - 1));
  const int64_t of_policy = updates - c.trainer.value_only_updates;
  if (c.trainer.lr_warmup > of_policy)
    refuse("trainer.lr_warmup", c.trainer.lr_warmup,
           "updates never reach the learning rate: " + end +
               (of_policy < updates
                    ? ", and the policy learns after trainer.value_only_updates " + text(c.trainer.value_only_updates)
                    : "") +
               "; use at most " + text(of_policy));
}

void require_cpu(const RunConfig& c, const std::string& why) {
  if (c.trainer.device != "cpu") refuse("trainer.device", c.trainer.device, why + "; use \"cpu\"");
  for (const auto& [path, device] :
       {std::pair{"inference.device", c.inference.device}, {"evaluation.device", c.evaluation.device}})
    if (device.starts_with("cuda")) refuse(path, device, why + "; use \"auto\" or \"cpu\"");
}

void check_deterministic(const RunConfig& c) {
  if (!c.deterministic) return;
  const std::string with = "cannot go with deterministic true; ";
  require_cpu(c, "cannot go with deterministic true");
  if (c.stop.seconds > 0) refuse("stop.seconds", c.stop.seconds, with + "use stop.env_steps or stop.updates");
  if (c.trainer.threads > 1) refuse("trainer.threads", c.trainer.threads, with + "use 1");
  if (c.inference.threads > 1) refuse("inference.threads", c.inference.threads, with + "use 1");
  if (c.reward_model.threads > 1) refuse("reward_model.threads", c.reward_model.threads, with + "use 1");
  if (c.workers.count == 0) refuse("workers.count", c.workers.count, with + "use at least 1");
  if (c.inference.count == 0) refuse("inference.count", c.inference.count, with + "use at least 1");
  if (c.scorers.threads > 1) refuse("scorers.threads", c.scorers.threads, with + "use 1");
  if (c.scorers.count == 0) refuse("scorers.count", c.scorers.count, with + "use at least 1");
}

void check_network(const NetworkConfig& n) {
  if (n.peer_timeout < 2 * n.heartbeat)
    refuse("network.peer_timeout_ms", n.peer_timeout,
           "is less than two of network.heartbeat_ms " + text(n.heartbeat) +
               ", one late heartbeat would disconnect a peer; use at least " + text(2 * n.heartbeat));
}

void check_weights(const RunConfig& c) {
  if (c.deterministic) return;  // no other process gets weights
  if (c.network.backend == "nccl" && c.trainer.device == "cpu")
    refuse(
        "network.backend", c.network.backend,
        "exchanges gradients between the GPUs of the ranks, but trainer.device is \"cpu\"; use \"gloo\", or a GPU as "
        "trainer.device");
  const std::string& weights = c.network.weights;
  if (weights == "nccl" && c.trainer.device == "cpu")
    refuse(
        "network.weights", weights,
        "sends from the GPU of the trainer, but trainer.device is \"cpu\"; use \"gloo\", or a GPU as trainer.device");
  if (!sends_weights(c.network) && c.inference.count == 0)
    refuse("network.weights", weights,
           "lets no other process answer workers, and inference.count 0 none of the trainer's; use \"gloo\", or at "
           "least 1 as inference.count");
}

// What holds of super-batches must hold of the part of each shard.
void check_one_shard(const RunConfig& config) {
  const RunConfig one = config_of_shard(config);
  const KindSettings& kind = settings_of_kind(one);
  try {
    kind.check(one);
    check_batches(one);
    kind.check_sizes(one);
    check_replay(one);
  } catch (const ConfigError& error) {
    throw ConfigError("trainer.shards: " + text(config.trainer.shards) + " leave each with trainer.super_batch " +
                      text(one.trainer.super_batch) + ", and then " + error.what() + " (sizes are those of one shard)");
  }
}

}  // namespace

void validate(const RunConfig& config) {
  const KindSettings& kind = settings_of_kind(config);
  check_effects(config);
  check_shards(config);
  kind.check(config);
  check_batches(config);
  kind.check_sizes(config);
  check_replay(config);
  check_algorithm(config);
  check_scales(config);
  check_stop(config);
  check_deterministic(config);
  if (config.model.kind == kTokenTransformerKind)
    require_cpu(config, "cannot go with model.kind \"token_transformer\", which computes on the CPU only");
  check_network(config.network);
  check_weights(config);
  if (config.trainer.shards > 1) check_one_shard(config);
}

}  // namespace troupe
