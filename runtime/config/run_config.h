#pragma once
// Every setting of a run, with its default. Plain values; read once before any actor starts (runtime/config/config.h), then constant.
// A field is listed once more, in run_config.cpp, with its key, range and help text (runtime/config/fields.h); nothing else
// knows the keys.

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe {

struct EnvConfig {
  std::string id = "CartPole-v1";
  // JSON object with the environment's own parameters; its keys are checked by the environment.
  std::string params = "{}";
  int64_t rows = 32;  // sub-environments stepped together by one group of a worker
  int64_t chunk = 0;  // environment steps executed per action; 0 = the environment's own (1 for most)
  // Rewards are multiplied by this before anything else sees them; reports show unscaled returns.
  double reward_scale = 1.0;
  double max_abs_reward = 0.0;  // scaled rewards are clipped to this magnitude; 0 = no clipping
  friend bool operator==(const EnvConfig&, const EnvConfig&) = default;
};

struct WorkersConfig {
  int64_t count = 1;             // rollout workers inside the trainer's process
  int64_t groups = 2;            // vector environments per worker: one steps while the other waits for its actions
  int64_t quarantine_after = 5;  // failures in a row after which a sub-environment is left out
  std::chrono::milliseconds restart_backoff{100};  // pause after a failure, doubled at each further one in a row
  // Time without a step of any environment, while all of them fail, after which the run ends; 0 = it goes on for ever.
  std::chrono::milliseconds failure_timeout{60'000};
  friend bool operator==(const WorkersConfig&, const WorkersConfig&) = default;
};

struct RolloutConfig {
  int64_t length = 32;  // T: decisions per row and rollout
  friend bool operator==(const RolloutConfig&, const RolloutConfig&) = default;
};

struct InferenceConfig {
  int64_t count = 1;                        // inference actors inside the trainer's process
  int64_t batch_size = 64;                  // rows at which a batch leaves at once
  int64_t max_batch = 4096;                 // rows no batch exceeds
  std::chrono::microseconds timeout{2000};  // age of the oldest request at which a batch leaves
  int64_t threads = 1;                      // compute threads of one forward
  friend bool operator==(const InferenceConfig&, const InferenceConfig&) = default;
};

struct ReplayConfig {
  std::string mode = "consume_once";  // or "reuse"
  int64_t capacity = 0;               // samples held at most; 0 = max_policy_lag + 2 super-batches, at most 16
  int64_t max_policy_lag = 1;  // updates between the weights that made a sample and its use; 0 = synchronous on-policy
  int64_t max_reuse = 4;       // "reuse" only: updates that may use one sample
  friend bool operator==(const ReplayConfig&, const ReplayConfig&) = default;
};

struct ModelConfig {
  std::string kind = "mlp";                // or "net"
  std::vector<int64_t> hidden = {64, 64};  // "mlp" only
  // "net" only: JSON object with encoders, trunk and core; its keys are checked by models/networks/net_layout.h.
  std::string net = "{}";
  int64_t sequence = 0;  // steps of a chunk that a recurrent network is trained on; 0 = chosen from rollout.length
  int64_t burn_in = 0;   // steps at the beginning of a chunk that only bring its state up to date
  std::string activation = "tanh";      // "tanh", "relu", "elu", "gelu", "silu"
  bool shared_trunk = false;            // "mlp" only: policy and value use one trunk
  bool normalize_observations = false;  // running mean and variance, clipped to +-observation_clip
  double observation_clip = 10.0;
  bool normalize_returns = false;             // the value head predicts in units of the running return statistics
  std::string log_std = "state_independent";  // continuous: or "scheduled"
  double log_std_start = 0.0;                 // initial value, or where the schedule starts
  double log_std_end = -1.0;                  // "scheduled": where it ends
  double policy_gain = 0.01;                  // orthogonal initialisation gain of the policy head
  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

struct AlgorithmConfig {
  // The names, and the parameters of what they name, are looked up in the tables of algorithms/ (algorithm_choice.h).
  std::string advantage = "gae";  // "gae", "vtrace" or a name of the advantage table
  std::string advantage_params = "{}";
  double gamma = 0.99;
  double lambda = 0.95;
  bool bootstrap_on_truncation = true;
  double rho_bar = 1.0;  // V-trace clips
  double c_bar = 1.0;
  double pg_rho_bar = 1.0;
  std::string vtrace_adv = "unweighted";  // or "pg_rho": multiply by the clipped importance weight a second time
  std::string incomplete = "bootstrap";   // sequences that do not end in a terminal state: or "drop"
  std::string group_by = "batch";         // what sequences are compared within: or "task"
  bool normalize_advantages = true;       // over the whole super-batch, before it is split
  std::string whitening = "auto";         // how: a variant's name, "none", or what fits the estimator
  std::string surrogate = "clip";         // a name of the surrogate table
  std::string surrogate_params = "{}";
  std::string clip_config = "{}";  // parameters as AcceRL writes them: {surrogate: {key: value}}
  // Common parameters of surrogates; where left as they are here, the surrogate's own default counts.
  double clip_low = 0.2;
  double clip_high = 0.2;
  double dual_clip = 0.0;            // bound c > 1 for negative advantages; 0 = off
  std::string ratio = "joint";       // or "per_dimension": one importance ratio per action dimension
  std::string aggregation = "auto";  // how the losses of tokens become one: a mode, or the surrogate's own
  double aggregation_length = 0.0;   // L of "seq-mean-token-sum-norm"; 0 = tokens of rollout.length steps
  std::string rollout_correction = "{}";
  std::string value_loss = "l2";  // or "huber"
  double value_coef = 0.5;
  double value_clip = 0.0;  // 0 = off
  double huber_delta = 1.0;
  double entropy_coef = 0.0;
  double entropy_coef_end = -1.0;       // linear schedule to this value; negative = constant
  std::string kl = "k3";                // estimate of KL(behaviour || current) for the penalty
  double kl_coef = 0.0;                 // its weight in the loss
  std::string kl_controller = "fixed";  // or "adaptive": kl_coef follows the measured KL
  double kl_target = 0.01;              // per token
  double kl_horizon = 100'000.0;        // samples of updates
  double target_kl = 0.0;               // epochs stop when the k3 estimate passes this; 0 = off
  friend bool operator==(const AlgorithmConfig&, const AlgorithmConfig&) = default;
};

struct TrainerConfig {
  int64_t super_batch = 2048;  // least samples per update, made up of whole rows of rollouts
  int64_t minibatches = 4;     // optimizer steps per epoch
  int64_t micro_batch = 0;     // samples per forward and backward inside a minibatch; 0 = the whole minibatch
  int64_t epochs = 4;
  double policy_lr = 3e-4;
  double value_lr = 3e-4;
  std::string lr_schedule = "linear";  // "constant", "linear", "cosine", "wsd"
  double lr_min_ratio = 0.0;           // of the peak, at the end of the schedule
  double lr_stable_ratio = 0.9;        // "wsd" only: part of the run that is spent at the peak
  int64_t lr_warmup = 0;               // updates of linear warm-up: the k-th one has k / lr_warmup of the rate
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-5;
  double weight_decay = 0.0;
  double max_grad_norm = 0.5;      // 0 = off
  int64_t value_only_updates = 0;  // the first updates train the value function alone
  int64_t max_skipped = 10;        // non-finite updates in a row after which the run stops
  int64_t threads = 1;             // compute threads of one step
  std::string device = "cpu";      // "cpu", "cuda", "cuda:N"
  friend bool operator==(const TrainerConfig&, const TrainerConfig&) = default;
};

struct StopConfig {
  int64_t env_steps = 500'000;  // 0 = no limit
  int64_t updates = 0;          // 0 = no limit
  double seconds = 0.0;         // 0 = no limit
  double eval_return = 0.0;     // stop when an evaluation during training reaches this mean return; 0 = off
  friend bool operator==(const StopConfig&, const StopConfig&) = default;
};

struct EvaluationConfig {
  int64_t every_updates = 0;  // evaluations during training; 0 = only the last one
  int64_t episodes = 100;
  int64_t rows = 50;  // sub-environments stepped together
  // JSON object: parameters of the environment that evaluations have in place of those of env.params.
  std::string env_params = "{}";
  friend bool operator==(const EvaluationConfig&, const EvaluationConfig&) = default;
};

struct CheckpointConfig {
  int64_t every_updates = 50;  // 0 = only at the end
  int64_t keep = 3;            // newest checkpoints kept; 0 = all
  friend bool operator==(const CheckpointConfig&, const CheckpointConfig&) = default;
};

struct StatsConfig {
  std::chrono::milliseconds interval{2000};
  int64_t every_updates = 10;  // deterministic runs, which have no clock: updates between reports
  int64_t window = 100;        // episodes over which returns are averaged
  int64_t history = 2000;      // snapshots kept for clients that ask for history
  friend bool operator==(const StatsConfig&, const StatsConfig&) = default;
};

struct NetworkConfig {
  std::chrono::milliseconds heartbeat{1000};
  std::chrono::milliseconds peer_timeout{5000};       // silence after which a peer counts as gone
  std::chrono::milliseconds transfer_timeout{30000};  // deadline of one weight transfer
  int64_t chunk_bytes = 4 << 20;                      // larger messages travel in parts of this size
  friend bool operator==(const NetworkConfig&, const NetworkConfig&) = default;
};

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
  friend bool operator==(const RunConfig&, const RunConfig&) = default;
};

// Cross-field rules. Throws ConfigError naming both fields, both values and what would be right. Assumes that each field
// is within its own range, which the reader has checked.
void validate(const RunConfig& config);

}  // namespace troupe
