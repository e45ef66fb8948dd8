#include "runtime/config/run_config.h"

#include <charconv>
#include <cmath>

#include "runtime/config/fields.h"

namespace troupe {
namespace {

constexpr double kMany = 1e12;  // integers above this are surely mistakes, and sums of a few stay far from overflow

Limits between(double low, double high) { return {.low = low, .high = high}; }
Limits above(double low, double high) { return {.low = low, .high = high, .open_low = true}; }
Limits below(double low, double high) { return {.low = low, .high = high, .open_high = true}; }
Limits one_of(std::vector<std::string_view> choices) { return {.choices = std::move(choices)}; }
Limits matching(std::string_view pattern, std::string_view words) { return {.pattern = pattern, .words = words}; }
Limits anything() { return {}; }
// A name of a table in algorithms/, which is looked up there.
Limits table_name(std::string_view example) { return matching("^[A-Za-z0-9_+-]{1,60}$", example); }

using Fields = std::vector<Field>;

void describe_run(RunConfig& c, Fields& f) {
  f.push_back(
      {"name", &c.name,
       matching("^([A-Za-z0-9_][A-Za-z0-9._-]{0,99})?$", "up to 100 of A-Z a-z 0-9 . _ -, the first not . or -"),
       "shown in reports; empty = the config file's name"});
  f.push_back({"seed", &c.seed, between(0, 18446744073709551615.0), "the one source of all randomness"});
  f.push_back({"deterministic", &c.deterministic, anything(), "every actor on one thread, in a fixed order"});
}

void describe_env(EnvConfig& c, Fields& f) {
  f.push_back({"env.id", &c.id, matching("^[A-Za-z0-9_./:-]{1,100}$", "an environment id like CartPole-v1"),
               "the environment; `troupe envs` lists them"});
  f.push_back({"env.params", ObjectText{&c.params}, anything(), "the environment's own parameters"});
  f.push_back({"env.rows", &c.rows, between(1, 65536), "sub-environments stepped together by one group of a worker"});
  f.push_back({"env.chunk", &c.chunk, between(0, 1024),
               "environment steps executed per action; 0 = the environment's own, 1 for most"});
  f.push_back({"env.reward_scale", &c.reward_scale, above(0, 1e9),
               "rewards are multiplied by this before training sees them; reports show unscaled returns"});
  f.push_back({"env.max_abs_reward", &c.max_abs_reward, between(0, 1e9),
               "scaled rewards are clipped to this magnitude; 0 = no clipping"});
}

void describe_sampling(RunConfig& c, Fields& f) {
  f.push_back({"workers.count", &c.workers.count, between(0, 4096),
               "rollout workers inside the trainer's process; 0 = all of them join over the network"});
  f.push_back({"workers.groups", &c.workers.groups, between(1, 64),
               "vector environments per worker: one steps while another waits for its actions"});
  f.push_back({"workers.quarantine_after", &c.workers.quarantine_after, between(1, 1e6),
               "failures in a row after which a sub-environment is left out"});
  f.push_back({"workers.restart_backoff_ms", &c.workers.restart_backoff, between(0, 600'000),
               "pause after a sub-environment's failure, doubled at each further one in a row"});
  f.push_back({"workers.failure_timeout_ms", &c.workers.failure_timeout, between(0, 86'400'000),
               "the run ends when every environment has failed for this long without one step; 0 = never"});
  f.push_back({"rollout.length", &c.rollout.length, between(1, 65536), "decisions per row and rollout (T)"});
  f.push_back({"inference.count", &c.inference.count, between(0, 256),
               "inference actors inside the trainer's process; 0 = all of them join over the network"});
  f.push_back(
      {"inference.batch_size", &c.inference.batch_size, between(1, 65536), "rows at which a batch leaves at once"});
  f.push_back({"inference.max_batch", &c.inference.max_batch, between(1, 65536), "rows no batch exceeds"});
  f.push_back({"inference.timeout_us", &c.inference.timeout, between(0, 10'000'000),
               "age of the oldest request at which a batch leaves"});
  f.push_back({"inference.threads", &c.inference.threads, between(1, 1024), "compute threads of one forward"});
}

void describe_replay(ReplayConfig& c, Fields& f) {
  f.push_back({"replay.mode", &c.mode, one_of({"consume_once", "reuse"}),
               "consume_once: each sample is used in exactly one update; reuse: bounded FIFO, drawn from repeatedly"});
  f.push_back({"replay.capacity", &c.capacity, between(0, kMany),
               "samples held at most; 0 = max_policy_lag + 2 super-batches, at most 16"});
  f.push_back({"replay.max_policy_lag", &c.max_policy_lag, between(0, 1e6),
               "updates between the weights that made a sample and its use; 0 = synchronous on-policy"});
  f.push_back(
      {"replay.max_reuse", &c.max_reuse, between(1, 1e6),
       "updates that may use one sample, with mode reuse; a full buffer takes new samples at that pace (64 at most)"});
}

void describe_model(ModelConfig& c, Fields& f) {
  f.push_back({"model.kind", &c.kind, one_of({"mlp", "net"}), "the network: mlp, or what model.net describes"});
  f.push_back({"model.hidden", &c.hidden, between(1, 65536), "units of each hidden layer; [] = a linear model"});
  f.push_back({"model.net", ObjectText{&c.net}, anything(),
               "encoders by observation, trunk, core and value_trunk of kind net (docs/models.md)"});
  f.push_back({"model.sequence", &c.sequence, between(0, 65536),
               "recurrent core: consecutive steps that are trained together, a divisor of rollout.length; 0 = the "
               "largest one up to 32"});
  f.push_back({"model.burn_in", &c.burn_in, between(0, 65535),
               "recurrent core: steps at the beginning of each sequence that bring its state up to date and are not "
               "trained on"});
  f.push_back({"model.activation", &c.activation, one_of({"tanh", "relu", "elu", "gelu", "silu"}), "between layers"});
  f.push_back({"model.shared_trunk", &c.shared_trunk, anything(), "policy and value use one trunk"});
  f.push_back({"model.normalize_observations", &c.normalize_observations, anything(),
               "subtract the running mean, divide by the running deviation"});
  f.push_back({"model.observation_clip", &c.observation_clip, above(0, 1e6),
               "magnitude normalised observations are clipped to"});
  f.push_back({"model.normalize_returns", &c.normalize_returns, anything(),
               "the value head predicts in units of the running return statistics"});
  f.push_back({"model.log_std", &c.log_std, one_of({"state_independent", "scheduled"}),
               "log standard deviation of continuous actions: learnt, or moved from log_std_start to log_std_end"});
  f.push_back({"model.log_std_start", &c.log_std_start, between(-20, 5), "its first value"});
  f.push_back({"model.log_std_end", &c.log_std_end, between(-20, 5), "its last value, with log_std scheduled"});
  f.push_back(
      {"model.policy_gain", &c.policy_gain, between(0, 100), "orthogonal initialisation gain of the policy head"});
}

void describe_estimator(AlgorithmConfig& c, Fields& f) {
  f.push_back({"algorithm.advantage", &c.advantage, table_name("a name like gae"),
               "the advantage estimator: gae, vtrace, or one for whole sequences"});
  f.push_back({"algorithm.advantage_params", ObjectText{&c.advantage_params}, anything(),
               "the parameters of an estimator for whole sequences"});
  f.push_back({"algorithm.gamma", &c.gamma, between(0, 1), "discount per decision"});
  f.push_back(
      {"algorithm.lambda", &c.lambda, between(0, 1), "weight of longer returns: 0 = one step, 1 = whole returns"});
  f.push_back({"algorithm.bootstrap_on_truncation", &c.bootstrap_on_truncation, anything(),
               "an episode cut off by its time limit is continued by the value of its last state"});
  f.push_back(
      {"algorithm.rho_bar", &c.rho_bar, above(0, 1e6), "V-trace: clip of the importance weight in the value target"});
  f.push_back({"algorithm.c_bar", &c.c_bar, above(0, 1e6), "V-trace: clip of the trace coefficients"});
  f.push_back({"algorithm.pg_rho_bar", &c.pg_rho_bar, above(0, 1e6),
               "V-trace: clip of the importance weight in the policy gradient"});
  f.push_back({"algorithm.vtrace_adv", &c.vtrace_adv, one_of({"unweighted", "pg_rho"}),
               "V-trace: pg_rho multiplies the advantage by the clipped importance weight, which the surrogate's ratio "
               "repeats"});
  f.push_back(
      {"algorithm.incomplete", &c.incomplete, one_of({"bootstrap", "drop"}),
       "sequences that do not end in a terminal state: gamma times the value of what follows is added to their last "
       "reward, or they are left out"});
  f.push_back({"algorithm.group_by", &c.group_by, one_of({"batch", "task"}),
               "sequences that estimators with groups compare: all of a super-batch, or those of one task"});
  f.push_back({"algorithm.normalize_advantages", &c.normalize_advantages, anything(),
               "to mean 0 and deviation 1 over the whole super-batch, unless the estimator does that itself"});
  f.push_back(
      {"algorithm.whitening", &c.whitening, table_name("a name like auto"),
       "how: as accerl, verl, slime, openrlhf or lm_human_preferences; auto: accerl for gae and vtrace, else none"});
}

void describe_losses(AlgorithmConfig& c, Fields& f) {
  f.push_back({"algorithm.surrogate", &c.surrogate, table_name("a name like clip"), "the policy loss"});
  f.push_back(
      {"algorithm.surrogate_params", ObjectText{&c.surrogate_params}, anything(), "the parameters of the surrogate"});
  f.push_back({"algorithm.clip_config", ObjectText{&c.clip_config}, anything(),
               "the same as AcceRL writes them: {surrogate: {parameter: value}}; only the chosen surrogate's count"});
  f.push_back({"algorithm.clip_low", &c.clip_low, above(0, 1),
               "importance ratios below 1 - clip_low are clipped; at its default, `clip` of surrogate_params counts"});
  f.push_back({"algorithm.clip_high", &c.clip_high, above(0, 1e6),
               "importance ratios above 1 + clip_high are clipped; at its default, `clip` of surrogate_params counts"});
  f.push_back({"algorithm.dual_clip", &c.dual_clip, between(0, 1e6),
               "bound above 1 of the ratio where the advantage is negative; 0 = off"});
  f.push_back({"algorithm.ratio", &c.ratio, one_of({"joint", "per_dimension"}),
               "one importance ratio per action, or one per action dimension"});
  f.push_back({"algorithm.aggregation", &c.aggregation,
               one_of({"auto", "token-mean", "seq-mean-token-sum", "seq-mean-token-mean", "seq-mean-token-sum-norm"}),
               "how the policy losses of tokens become one number; auto: as the surrogate's source does"});
  f.push_back({"algorithm.aggregation_length", &c.aggregation_length, between(0, 1e9),
               "divisor of seq-mean-token-sum-norm, in tokens; 0 = those of rollout.length steps"});
  f.push_back(
      {"algorithm.rollout_correction", ObjectText{&c.rollout_correction}, anything(),
       "importance weights and rejection of samples by the distance of the policy at the start of an update from the "
       "one that acted; {} = off"});
  f.push_back({"algorithm.value_loss", &c.value_loss, one_of({"l2", "huber"}), "the value loss"});
  f.push_back({"algorithm.value_coef", &c.value_coef, between(0, 1e6), "weight of the value loss"});
  f.push_back({"algorithm.value_clip", &c.value_clip, between(0, 1e6),
               "largest move of a value in one update that the loss rewards; 0 = off"});
  f.push_back({"algorithm.huber_delta", &c.huber_delta, above(0, 1e6), "error at which the Huber loss turns linear"});
  f.push_back({"algorithm.entropy_coef", &c.entropy_coef, between(0, 1e6), "weight of the entropy bonus"});
  f.push_back({"algorithm.entropy_coef_end", &c.entropy_coef_end, between(-1, 1e6),
               "where a linear schedule of entropy_coef ends; negative = constant"});
  f.push_back({"algorithm.kl", &c.kl, table_name("a name like k3"),
               "the KL estimate (behaviour to current) of the penalty: k1, abs, k2, k3 or low_var_kl; a name with + at "
               "its end has the gradient of k2"});
  f.push_back({"algorithm.kl_coef", &c.kl_coef, between(0, 1e6), "weight of the KL estimate in the loss"});
  f.push_back({"algorithm.kl_controller", &c.kl_controller, one_of({"fixed", "adaptive"}),
               "adaptive: kl_coef is moved towards a KL estimate of kl_target"});
  f.push_back({"algorithm.kl_target", &c.kl_target, above(0, 1e6), "KL estimate per token that adaptive aims at"});
  f.push_back({"algorithm.kl_horizon", &c.kl_horizon, above(0, 1e15),
               "samples over which adaptive moves kl_coef by up to a fifth"});
  f.push_back({"algorithm.target_kl", &c.target_kl, between(0, 1e6),
               "an update's epochs stop when the KL estimate passes this; 0 = off"});
}

void describe_trainer(TrainerConfig& c, Fields& f) {
  f.push_back({"trainer.super_batch", &c.super_batch, between(1, 1e9),
               "least samples per update; batches are made of whole rows of rollouts, so an update may use up to "
               "rollout.length - 1 more"});
  f.push_back({"trainer.minibatches", &c.minibatches, between(1, 1e6), "optimizer steps per epoch"});
  f.push_back({"trainer.micro_batch", &c.micro_batch, between(0, 1e9),
               "samples per forward and backward inside a minibatch; 0 = the whole minibatch"});
  f.push_back({"trainer.epochs", &c.epochs, between(1, 1000), "passes over the super-batch per update"});
  f.push_back({"trainer.policy_lr", &c.policy_lr, between(0, 10), "learning rate of the policy"});
  f.push_back({"trainer.value_lr", &c.value_lr, between(0, 10), "learning rate of the value function"});
  f.push_back(
      {"trainer.lr_schedule", &c.lr_schedule, one_of({"constant", "linear", "cosine", "wsd"}),
       "over the run, up to the nearest of stop.env_steps, stop.updates and stop.seconds; wsd = at the peak for "
       "lr_stable_ratio of it, then the cosine"});
  f.push_back({"trainer.lr_min_ratio", &c.lr_min_ratio, between(0, 1),
               "of the peak learning rate, at the end of the schedule"});
  f.push_back({"trainer.lr_stable_ratio", &c.lr_stable_ratio, between(0, 1),
               "part of the run at the peak learning rate, with lr_schedule wsd"});
  f.push_back({"trainer.lr_warmup", &c.lr_warmup, between(0, kMany),
               "updates until the learning rate is whole: the k-th update has k / lr_warmup of it"});
  f.push_back({"trainer.adam_beta1", &c.adam_beta1, below(0, 1), "decay of Adam's first moment"});
  f.push_back({"trainer.adam_beta2", &c.adam_beta2, below(0, 1), "decay of Adam's second moment"});
  f.push_back({"trainer.adam_epsilon", &c.adam_epsilon, above(0, 1), "added to Adam's denominator"});
  f.push_back({"trainer.weight_decay", &c.weight_decay, between(0, 10), "decoupled weight decay"});
  f.push_back(
      {"trainer.max_grad_norm", &c.max_grad_norm, between(0, 1e9), "gradients are scaled down to this norm; 0 = off"});
  f.push_back({"trainer.value_only_updates", &c.value_only_updates, between(0, kMany),
               "the first updates train the value function alone"});
  f.push_back({"trainer.max_skipped", &c.max_skipped, between(1, 1e6),
               "non-finite updates in a row after which the run stops"});
  f.push_back({"trainer.threads", &c.threads, between(1, 1024), "compute threads of one step"});
  f.push_back({"trainer.device", &c.device, matching("^(cpu|cuda|cuda:[0-9]{1,3})$", "cpu, cuda or cuda:N"),
               "where the trainer computes"});
}

void describe_course(RunConfig& c, Fields& f) {
  f.push_back({"stop.env_steps", &c.stop.env_steps, between(0, 1e15), "0 = no limit"});
  f.push_back({"stop.updates", &c.stop.updates, between(0, kMany), "0 = no limit"});
  f.push_back({"stop.seconds", &c.stop.seconds, between(0, 1e9), "seconds of training in one start; 0 = no limit"});
  f.push_back({"stop.eval_return", &c.stop.eval_return, between(-1e12, 1e12),
               "stop when an evaluation during training reaches this mean return; 0 = off"});
  f.push_back({"evaluation.every_updates", &c.evaluation.every_updates, between(0, kMany),
               "updates between evaluations during training; 0 = only the last one"});
  f.push_back({"evaluation.episodes", &c.evaluation.episodes, between(1, 1e6), "episodes of one evaluation"});
  f.push_back({"evaluation.rows", &c.evaluation.rows, between(1, 65536), "sub-environments stepped together"});
  f.push_back({"evaluation.env_params", ObjectText{&c.evaluation.env_params}, anything(),
               "parameters of the environment that evaluations have in place of those of env.params"});
  f.push_back({"checkpoint.every_updates", &c.checkpoint.every_updates, between(0, kMany),
               "updates between checkpoints; 0 = only at the end"});
  f.push_back({"checkpoint.keep", &c.checkpoint.keep, between(0, 1e6), "newest checkpoints kept; 0 = all"});
}

void describe_outside(RunConfig& c, Fields& f) {
  f.push_back({"stats.interval_ms", &c.stats.interval, between(10, 3'600'000), "between reports"});
  f.push_back({"stats.every_updates", &c.stats.every_updates, between(1, 1e9),
               "between reports of a deterministic run, which has no clock"});
  f.push_back({"stats.window", &c.stats.window, between(1, 1e6), "episodes over which returns are averaged"});
  f.push_back({"stats.history", &c.stats.history, between(1, 1e6), "snapshots kept for clients that ask for history"});
  f.push_back({"network.heartbeat_ms", &c.network.heartbeat, between(10, 600'000), "between signs of life"});
  f.push_back({"network.peer_timeout_ms", &c.network.peer_timeout, between(20, 3'600'000),
               "silence after which a peer counts as gone"});
  f.push_back({"network.transfer_timeout_ms", &c.network.transfer_timeout, between(10, 3'600'000),
               "deadline of one weight transfer"});
  f.push_back({"network.chunk_bytes", &c.network.chunk_bytes, between(4096, 8 << 20),
               "larger messages travel in parts of this size"});
}

std::string interval_text(const Limits& limits) {
  return (limits.open_low ? "(" : "[") + number_text(limits.low) + ", " + number_text(limits.high) +
         (limits.open_high ? ")" : "]");
}

std::string choices_text(const Limits& limits) {
  std::string text = "one of: ";
  for (size_t i = 0; i < limits.choices.size(); ++i) text.append(i ? ", " : "").append(limits.choices[i]);
  return text;
}

}  // namespace

std::string_view Field::section() const {
  const size_t dot = path.find('.');
  return dot == std::string_view::npos ? std::string_view{} : path.substr(0, dot);
}

std::string_view Field::key() const { return path.substr(path.find('.') + 1); }

std::vector<Field> describe(RunConfig& config) {
  Fields fields;
  describe_run(config, fields);
  describe_env(config.env, fields);
  describe_sampling(config, fields);
  describe_replay(config.replay, fields);
  describe_model(config.model, fields);
  describe_estimator(config.algorithm, fields);
  describe_losses(config.algorithm, fields);
  describe_trainer(config.trainer, fields);
  describe_course(config, fields);
  describe_outside(config, fields);
  return fields;
}

std::string range_text(const Field& field) {
  const Limits& limits = field.limits;
  if (!limits.choices.empty()) return choices_text(limits);
  if (!limits.pattern.empty()) return std::string(limits.words);
  if (std::holds_alternative<uint64_t*>(field.value)) return "[0, 18446744073709551615]";
  return std::isfinite(limits.low) ? interval_text(limits) : "";
}

std::string expected(const Field& field) {
  struct {
    std::string operator()(bool*) const { return "true or false"; }
    std::string operator()(double*) const { return "a number in "; }
    std::string operator()(std::string*) const { return ""; }
    std::string operator()(std::vector<int64_t>*) const {
      return "an array of at most " + std::to_string(kMaxItems) + " integers in ";
    }
    std::string operator()(ObjectText) const { return "an object"; }
    std::string operator()(std::chrono::milliseconds*) const { return "whole milliseconds in "; }
    std::string operator()(std::chrono::microseconds*) const { return "whole microseconds in "; }
    std::string operator()(void*) const { return "an integer in "; }
  } type;
  return std::visit(type, field.value) + range_text(field);
}

std::string number_text(double value) {
  char buffer[40];
  const bool whole = std::abs(value) < 1e16 && value == std::trunc(value);
  const auto end = whole ? std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed).ptr
                         : std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return std::string(buffer, end);
}

}  // namespace troupe
