#pragma once
// The section "model" of a config file: the network and its normalisers. Plain values; any thread.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/config/fields.h"

namespace troupe {

// Units of a layer, channels of a convolution, numbers of an embedding.
inline constexpr int64_t kMostUnits = 65536;

// The model.kind of token runs.
inline constexpr std::string_view kDecoderKind = "decoder";
// That of policies that make decisions one after another.
inline constexpr std::string_view kTokenTransformerKind = "token_transformer";

struct ModelConfig {
  std::string kind = "mlp";                // or "net", "token_transformer", "decoder"
  std::vector<int64_t> hidden = {64, 64};  // "mlp" and "token_transformer" only
  // "net" only: JSON object with encoders, trunk and core; its keys are checked by models/networks/net_layout.h.
  std::string net = "{}";
  // "decoder" and "token_transformer" only: JSON object with the shape of a decoder; its keys are checked by
  // models/lm/lm_config.h and models/networks/token_transformer_layout.h.
  std::string decoder = "{}";
  // "decoder": folder of a pre-trained model in the layout of transformers; empty = random first weights.
  // "token_transformer" with lora: the checkpoint or safetensors file with the base.
  std::string path;
  // "decoder" and "token_transformer" only: JSON object {"rank", "alpha", "targets"}; its keys are checked by
  // models/decoder/lora.h.
  std::string lora = "{}";
  // "decoder" only: the value function: or "shared", a head on the policy, or "separate", a decoder of its own.
  std::string critic = "none";
  std::string critic_path;  // "separate": folder of its first weights, as `path`; empty = those of the policy
  int64_t sequence = 0;     // steps of a sequence that a recurrent network learns from; 0 = chosen from rollout.length
  int64_t burn_in = 0;      // steps at the beginning of a sequence that only bring its state up to date
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

// Adds the settings of the section, whose values are those of `config`.
void describe(ModelConfig& config, Fields& fields);

}  // namespace troupe
