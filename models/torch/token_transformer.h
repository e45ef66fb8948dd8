#pragma once
// TokenTransformer: a policy that makes the decisions of an action one after another with a decoder transformer, so
// that each depends on those before it; model.kind "token_transformer". The value function is an MLP. On the CPU, with
// the kernels of the language models: the log-probability of an action is the same bits when it is drawn and when it is
// trained on. With model.lora the decoder is that of the base, with adapters that are trained. Used by one thread at a
// time. Includes LibTorch: for the sources of models/ only.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "envs/env.h"
#include "models/decoder/decoder.h"
#include "models/heads/heads.h"
#include "models/networks/model_config.h"
#include "models/networks/token_transformer_base.h"
#include "models/torch/device_weights.h"
#include "models/torch/mlp_stack.h"
#include "models/torch/network.h"

namespace troupe {

class TokenTransformer final : public Network {
 public:
  // Throws ConfigError unless `weights` are on the CPU.
  TokenTransformer(const ModelConfig& config, const EnvSpec& env, const DeviceWeights& weights);

  NetworkOutput forward(const NetworkInput& input, bool backward_follows) override;
  NetworkOutput act(const NetworkInput& input, const Draw& draw) override;
  at::Tensor values(const NetworkInput& input) override;
  void backward(const at::Tensor& policy_gradients, const at::Tensor& value_gradients) override;
  void gradients_complete_to(std::function<void(ElementRange)> complete) override { complete_ = std::move(complete); }
  void weights_changed() override { packed_ = false; }

 private:
  void bind(const DeviceWeights& weights);
  void bind_gradients(const DeviceWeights& weights);
  // Of the decoder.
  void say_complete(std::span<const float> gradients) const;
  void pack_decoder();
  void pack();
  int32_t token(const int32_t* actions, int64_t decision) const;
  // The logits of one decision from every `rows_between`-th row of `hidden`.
  void decide(int64_t decision, const float* hidden, int64_t samples, int64_t rows_between, float* outputs);
  void write_input(const float* observed, const int32_t* actions, int64_t decision, float* out) const;
  LmBatch batch() const { return {ids_, sequences_, inputs_.span()}; }

  LmShape shape_;
  LoraConfig lora_;
  std::shared_ptr<const TokenTransformerBase> base_;  // with adapters only
  std::vector<Head::Decision> decisions_;
  DecoderWeights tensors_;
  DecoderGradients gradients_;
  std::map<const float*, ElementRange> elements_;  // of each tensor of gradients_, by where it begins
  std::function<void(ElementRange)> complete_;
  bool learns_;
  ParallelFor parallel_;
  Decoder decoder_;
  std::shared_ptr<PackedDecoder> packed_decoder_;  // of a policy
  std::vector<PackedWeights> heads_;               // of each decision
  MlpStack input_, value_;
  bool packed_ = false;
  // Of the last forward().
  int64_t samples_ = 0;
  at::Tensor actions_;  // [B, D] int32
  FloatBuffer inputs_;  // [B * D, hidden]; in act() [B, hidden]
  std::vector<int32_t> ids_;
  std::vector<LmSequence> sequences_;
  Activations activations_;
  FloatBuffer hidden_, d_hidden_, d_inputs_;
  at::Tensor outputs_, d_observed_;
  std::unique_ptr<KvStore> cells_;  // of act()
};

}  // namespace troupe
