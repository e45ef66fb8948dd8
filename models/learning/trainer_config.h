#pragma once
// The section "trainer" of a config file: batches, optimizer and where the trainer computes. Plain values; any thread.

#include <cstdint>
#include <string>

#include "runtime/config/fields.h"

namespace troupe {

inline constexpr int64_t kMostShards = 1024;

struct TrainerConfig {
  int64_t super_batch = 2048;  // minimum number of samples per update
  int64_t shards = 1;          // parts of an update, each with workers of its own
  int64_t ranks = 1;           // that compute the shards
  int64_t zero = 0;            // 1: each rank keeps the moments of its slice of the parameters; 2: and gradients
  std::string redundancy = "none";
  int64_t minibatches = 4;         // optimizer steps per epoch
  int64_t micro_batch = 0;         // samples per forward and backward inside a minibatch; 0 = the whole minibatch
  int64_t micro_batch_tokens = 0;  // token runs, likewise: of a pass; 0 = chosen from the model's sizes
  std::string recompute = "auto";  // token runs: layers again in the backward pass; "on", "off"
  int64_t epochs = 4;
  int64_t value_epochs = 0;  // with those after `epochs`, of the value function alone; 0 = epochs
  double policy_lr = 3e-4;
  double value_lr = 3e-4;
  std::string lr_schedule = "linear";  // "constant", "linear", "cosine", "wsd"
  double lr_min_ratio = 0.0;           // of the peak, at the end of the schedule
  double lr_stable_ratio = 0.9;        // "wsd" only: part of the run that is spent at the peak
  int64_t lr_warmup = 0;               // updates of linear warm-up: the k-th that trains has k / lr_warmup of the rate
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.999;
  double adam_epsilon = 1e-5;
  double weight_decay = 0.0;
  double max_grad_norm = 0.5;      // 0 = off
  int64_t value_only_updates = 0;  // the first updates train the value function alone
  int64_t max_skipped = 10;        // the run stops after this many updates in a row without a finite step
  int64_t threads = 1;             // compute threads of one step
  std::string device = "cpu";      // "cpu", "cuda", "cuda:N"
  int64_t bucket_bytes = 1 << 20;  // of gradients that ranks exchange at a time
  friend bool operator==(const TrainerConfig&, const TrainerConfig&) = default;
};

// How many gradients or parameters the ranks exchange at a time.
inline size_t piece_elements(const TrainerConfig& config) {
  return static_cast<size_t>(config.bucket_bytes) / sizeof(float);
}

// Whether a rank gives back the memory of gradients that it has said.
inline bool frees_gradients(const TrainerConfig& config) { return config.zero > 1 && config.ranks > 1; }

// Adds the settings of the section, whose values are those of `config`.
void describe(TrainerConfig& config, Fields& fields);

}  // namespace troupe
