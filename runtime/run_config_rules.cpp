// The rules between fields. Each refuses a run that would hang, waste its data or ignore a setting without a word.

#include <algorithm>
#include <numeric>
#include <string>

#include "runtime/errors.h"
#include "runtime/fields.h"
#include "runtime/run_config.h"

namespace troupe {
namespace {

std::string text(int64_t value) { return std::to_string(value); }
std::string text(double value) { return number_text(value); }
std::string text(const std::string& value) { return '"' + value + '"'; }
std::string text(std::chrono::milliseconds value) { return std::to_string(value.count()); }

// "trainer.micro_batch: 600 conflicts with ..." as `path: value what`.
template <class T>
[[noreturn]] void refuse(const char* path, const T& value, const std::string& what) {
  throw ConfigError(std::string(path) + ": " + text(value) + ' ' + what);
}

// A setting that another one switches off must keep its default, else someone waits for an effect that never comes.
template <class T>
void no_effect(const char* path, const T& value, const T& fallback, bool used, const std::string& because) {
  if (!used && value != fallback)
    refuse(path, value, "has no effect with " + because + "; change that, or leave this at " + text(fallback));
}

void check_ignored(const RunConfig& c) {
  const RunConfig d;
  const AlgorithmConfig& a = c.algorithm;
  const bool vtrace = a.advantage == "vtrace";
  const std::string gae = "algorithm.advantage " + text(a.advantage);
  no_effect("algorithm.rho_bar", a.rho_bar, d.algorithm.rho_bar, vtrace, gae);
  no_effect("algorithm.c_bar", a.c_bar, d.algorithm.c_bar, vtrace, gae);
  no_effect("algorithm.pg_rho_bar", a.pg_rho_bar, d.algorithm.pg_rho_bar, vtrace, gae);
  no_effect("algorithm.vtrace_adv", a.vtrace_adv, d.algorithm.vtrace_adv, vtrace, gae);
  no_effect("algorithm.huber_delta", a.huber_delta, d.algorithm.huber_delta, a.value_loss == "huber",
            "algorithm.value_loss " + text(a.value_loss));
  no_effect("algorithm.aggregation_length", a.aggregation_length, d.algorithm.aggregation_length,
            a.aggregation == "seq-mean-token-sum-norm", "algorithm.aggregation " + text(a.aggregation));
  const bool adaptive = a.kl_controller == "adaptive";
  no_effect("algorithm.kl", a.kl, d.algorithm.kl, a.kl_coef > 0, "algorithm.kl_coef 0");
  no_effect("algorithm.kl_target", a.kl_target, d.algorithm.kl_target, adaptive, "algorithm.kl_controller \"fixed\"");
  no_effect("algorithm.kl_horizon", a.kl_horizon, d.algorithm.kl_horizon, adaptive,
            "algorithm.kl_controller \"fixed\"");
  no_effect("model.log_std_end", c.model.log_std_end, d.model.log_std_end, c.model.log_std == "scheduled",
            "model.log_std " + text(c.model.log_std));
  no_effect("model.observation_clip", c.model.observation_clip, d.model.observation_clip,
            c.model.normalize_observations, "model.normalize_observations false");
  no_effect("replay.max_reuse", c.replay.max_reuse, d.replay.max_reuse, c.replay.mode == "reuse",
            "replay.mode " + text(c.replay.mode));
  no_effect("trainer.lr_min_ratio", c.trainer.lr_min_ratio, d.trainer.lr_min_ratio, c.trainer.lr_schedule != "constant",
            "trainer.lr_schedule " + text(c.trainer.lr_schedule));
  no_effect("trainer.lr_stable_ratio", c.trainer.lr_stable_ratio, d.trainer.lr_stable_ratio,
            c.trainer.lr_schedule == "wsd", "trainer.lr_schedule " + text(c.trainer.lr_schedule));
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

void check_inference(const RunConfig& c) {
  const InferenceConfig& i = c.inference;
  const std::string limit = "inference.max_batch " + text(i.max_batch);
  if (i.batch_size > i.max_batch)
    refuse("inference.batch_size", i.batch_size, "is above " + limit + "; lower it or raise max_batch");
  if (2 * c.env.rows > i.max_batch)
    refuse("env.rows", c.env.rows,
           "ask for up to " + text(2 * c.env.rows) +
               " rows at once (each may need an action and the value of a final observation), above " + limit +
               "; use at most " + text(i.max_batch / 2) + " rows or raise max_batch");
  if (c.evaluation.rows > i.max_batch)
    refuse("evaluation.rows", c.evaluation.rows,
           "do not fit into one batch of " + limit + "; use fewer rows or raise max_batch");
}

// Workers are admitted whole rollouts, at most (lag + 1) super-batches ahead of the trainer. Rounding down to whole rollouts
// leaves up to rollout - gcd(rollout, super_batch) samples unmade; when the lag does not cover them, some update never fills.
void check_rollouts(const RunConfig& c) {
  const int64_t rollout = c.rollout.length * c.env.rows;
  const int64_t super_batch = c.trainer.super_batch;
  const int64_t lag = c.replay.max_policy_lag;
  const std::string made = "rollouts of " + text(rollout) + " samples (rollout.length " + text(c.rollout.length) +
                           " x env.rows " + text(c.env.rows) + ")";
  if (super_batch < c.rollout.length)
    refuse("trainer.super_batch", super_batch,
           "is less than one row of a rollout, rollout.length " + text(c.rollout.length) + "; use at least " +
               text(c.rollout.length));
  if (rollout - std::gcd(rollout, super_batch) <= lag * super_batch) return;
  const int64_t nearest = (super_batch + rollout - 1) / rollout * rollout;
  refuse("trainer.super_batch", super_batch,
         "cannot be filled from " + made + " within replay.max_policy_lag " + text(lag) + "; use a multiple of " +
             text(rollout) + ", like " + text(nearest));
}

void check_replay(const RunConfig& c) {
  const ReplayConfig& r = c.replay;
  if (r.mode == "reuse" && r.max_policy_lag == 0)
    refuse("replay.max_policy_lag", r.max_policy_lag,
           "lets no sample be used twice, but replay.mode is \"reuse\"; use at least 1");
  if (r.capacity == 0) return;
  const bool once = r.mode == "consume_once";
  const int64_t needed = (once ? r.max_policy_lag + 1 : 1) * c.trainer.super_batch;
  if (r.capacity < needed)
    refuse("replay.capacity", r.capacity,
           "is less than the " + text(needed) + " samples of trainer.super_batch " + text(c.trainer.super_batch) +
               (once ? " x (replay.max_policy_lag " + text(r.max_policy_lag) + " + 1)" : "") + "; use at least " +
               text(needed) + ", or 0");
  const int64_t rollout = c.rollout.length * c.env.rows;
  if (r.capacity / rollout * rollout < c.trainer.super_batch)
    refuse("replay.capacity", r.capacity,
           "holds too few whole rollouts of " + text(rollout) +
               " samples (rollout.length x env.rows) for trainer.super_batch " + text(c.trainer.super_batch) +
               "; use at least " + text((c.trainer.super_batch + rollout - 1) / rollout * rollout) + ", or 0");
}

void check_algorithm(const RunConfig& c) {
  const AlgorithmConfig& a = c.algorithm;
  if (a.dual_clip != 0 && a.dual_clip <= 1)
    refuse("algorithm.dual_clip", a.dual_clip,
           "would clip ratios that have not moved; use 0 (off) or more than 1, like 3");
  if (a.dual_clip != 0 && a.dual_clip <= 1 + a.clip_high)
    refuse("algorithm.dual_clip", a.dual_clip,
           "is within algorithm.clip_high " + text(a.clip_high) + " of 1; use more than " + text(1 + a.clip_high) +
               ", like 3");
  if (a.advantage == "vtrace" && a.rho_bar < a.c_bar)
    refuse("algorithm.rho_bar", a.rho_bar,
           "is below algorithm.c_bar " + text(a.c_bar) + ", V-trace needs rho_bar >= c_bar");
  if (a.kl_controller == "adaptive" && a.kl_coef == 0)
    refuse("algorithm.kl_coef", a.kl_coef,
           "stays 0 with algorithm.kl_controller \"adaptive\"; start above 0, like 0.1");
  if (a.kl_controller == "adaptive" && a.kl_horizon <= 0.2 * static_cast<double>(c.trainer.super_batch))
    refuse("algorithm.kl_horizon", a.kl_horizon,
           "lets one update of trainer.super_batch " + text(c.trainer.super_batch) +
               " samples turn the sign of kl_coef; use more than " +
               text(0.2 * static_cast<double>(c.trainer.super_batch)));
  if (c.trainer.policy_lr == 0 && c.trainer.value_lr == 0)
    refuse("trainer.policy_lr", c.trainer.policy_lr, "and trainer.value_lr 0 learn nothing; raise one");
  if (c.trainer.value_only_updates > 0 && c.trainer.value_lr == 0)
    refuse("trainer.value_only_updates", c.trainer.value_only_updates,
           "learn nothing with trainer.value_lr 0; raise it");
}

// Most updates the run can make, or -1 when its limits do not say.
int64_t most_updates(const RunConfig& c) {
  const bool counts_samples = c.stop.env_steps > 0 && c.replay.mode == "consume_once";
  const int64_t by_steps = counts_samples ? c.stop.env_steps / c.trainer.super_batch : -1;
  if (c.stop.updates == 0) return by_steps;
  return by_steps < 0 ? c.stop.updates : std::min(by_steps, c.stop.updates);
}

void check_stop(const RunConfig& c) {
  const StopConfig& s = c.stop;
  if (s.env_steps == 0 && s.updates == 0 && s.seconds == 0)
    throw ConfigError("stop.env_steps: 0, with stop.updates 0 and stop.seconds 0, never ends the run; set one of them");
  if (s.env_steps > 0 && s.env_steps < c.trainer.super_batch)
    refuse("stop.env_steps", s.env_steps,
           "ends the run before its first update, trainer.super_batch " + text(c.trainer.super_batch) +
               "; use at least that many");
  if (s.eval_return != 0 && c.evaluation.every_updates == 0)
    refuse("stop.eval_return", s.eval_return,
           "is never looked at with evaluation.every_updates 0; set that to 10, say");
  const int64_t updates = most_updates(c);
  const std::string ends = "but the run ends after at most " + text(updates) + " updates (stop.env_steps " +
                           text(s.env_steps) + ", stop.updates " + text(s.updates) + "); use less";
  if (updates >= 0 && c.trainer.value_only_updates >= updates)
    refuse("trainer.value_only_updates", c.trainer.value_only_updates, "leaves the policy untrained, " + ends);
  if (updates >= 0 && c.trainer.lr_warmup > 0 && c.trainer.lr_warmup >= updates)
    refuse("trainer.lr_warmup", c.trainer.lr_warmup, "never reaches the learning rate, " + ends);
}

void check_deterministic(const RunConfig& c) {
  const StatsConfig d;
  no_effect("stats.every_updates", c.stats.every_updates, d.every_updates, c.deterministic, "deterministic false");
  if (!c.deterministic) return;
  const std::string with = "cannot go with deterministic true; ";
  if (c.trainer.device != "cpu") refuse("trainer.device", c.trainer.device, with + "use \"cpu\"");
  if (c.stop.seconds > 0) refuse("stop.seconds", c.stop.seconds, with + "use stop.env_steps or stop.updates");
  if (c.trainer.threads > 1) refuse("trainer.threads", c.trainer.threads, with + "use 1");
  if (c.inference.threads > 1) refuse("inference.threads", c.inference.threads, with + "use 1");
  if (c.workers.count == 0) refuse("workers.count", c.workers.count, with + "use at least 1");
  if (c.inference.count == 0) refuse("inference.count", c.inference.count, with + "use at least 1");
}

void check_network(const NetworkConfig& n) {
  if (n.peer_timeout < 2 * n.heartbeat)
    refuse("network.peer_timeout_ms", n.peer_timeout,
           "is less than two of network.heartbeat_ms " + text(n.heartbeat) +
               ", one late sign of life would end a peer; use at least " + text(2 * n.heartbeat));
}

}  // namespace

void validate(const RunConfig& config) {
  check_ignored(config);
  check_batches(config);
  check_inference(config);
  check_rollouts(config);
  check_replay(config);
  check_algorithm(config);
  check_stop(config);
  check_deterministic(config);
  check_network(config.network);
}

}  // namespace troupe
