#include "models/networks/model_config.h"

#include "models/networks/network_kinds.h"

namespace troupe {
namespace {

constexpr auto kModelKinds = [] {
  std::array<std::string_view, std::size(kNetworkNames) + 1> kinds;
  std::ranges::copy(kNetworkNames, kinds.begin());
  kinds.back() = kDecoderKind;
  return kinds;
}();

}  // namespace

void describe(ModelConfig& c, Fields& fields) {
  const Section s(fields, "model", "models/networks");
  s.add(c.kind, "kind", one_of(kModelKinds),
        "the network: mlp, the layers of model.hidden; net, what model.net describes; token_transformer, a transformer "
        "that chooses the components of an action one after another; decoder, a language model, which makes the run a "
        "token run");
  s.add(c.hidden, "hidden", between(1, kMostUnits), "units of each hidden layer; [] = a linear model",
        {.elsewhere = kWords<"net_arch", "fcnet_hiddens">});
  s.add_object(c.net, "net", "kind net: encoders by observation, trunk, core and value_trunk (docs/models.md)");
  s.add_object(c.decoder, "decoder",
               "kinds decoder and token_transformer: the shape of the transformer, with the keys of a config.json of "
               "transformers");
  s.add(
      c.path, "path", anything(),
      "kind decoder: folder of a pre-trained model: config.json and model.safetensors of transformers "
      "(docs/checkpoints_of_language_models.md); empty = random first weights. Kind token_transformer with model.lora: "
      "the run whose model gets adapters: its folder, one of its checkpoints or a .safetensors file",
      {.elsewhere = kWords<"model_name_or_path", "pretrained">});
  s.add_object(c.lora, "lora",
               "kind decoder: train low-rank adapters of a pre-trained model alone: rank, alpha and targets; kind "
               "token_transformer: train adapters of the decoder, and all other layers (docs/models.md)");
  s.add(
      c.critic, "critic", one_of(kWords<"none", "shared", "separate">),
      "kind decoder: the value function: none; shared, a value head on the policy's last hidden states, whose gradient "
      "reaches the policy; separate, a decoder of the same shape with a value head, which is trained by itself");
  s.add(
      c.critic_path, "critic_path", anything(),
      "critic separate: folder of a pre-trained model of the policy's shape, as in model.path, with the critic's first "
      "weights; empty = the policy's first weights",
      {.elsewhere = kWords<"critic_model_path", "value_model_path", "critic_pretrain">});
  s.add(c.sequence, "sequence", between(0, 65536),
        "recurrent core: length of the sequences of consecutive steps it is trained on, a divisor of rollout.length; "
        "0 = the largest divisor from 8 to 32, or all of a shorter rollout",
        {.elsewhere = kWords<"max_seq_len">});
  s.add(c.burn_in, "burn_in", between(0, 65535),
        "recurrent core: steps at the beginning of each sequence that only bring its state up to date and are not "
        "trained on, fewer than model.sequence");
  s.add(c.activation, "activation", one_of(kWords<"tanh", "relu", "elu", "gelu", "silu">),
        "activation function after every layer but the heads");
  s.add(c.shared_trunk, "shared_trunk", anything(), "the policy and the value function share their hidden layers",
        {.elsewhere = kWords<"vf_share_layers">});
  s.add(c.normalize_observations, "normalize_observations", anything(),
        "subtract the running mean, divide by the running standard deviation");
  s.add(c.observation_clip, "observation_clip", above(0, 1e6), "normalised observations are clipped to this magnitude");
  s.add(c.normalize_returns, "normalize_returns", anything(),
        "the value head predicts in units of the running return statistics");
  s.add(c.log_std, "log_std", one_of(kWords<"state_independent", "scheduled">),
        "log standard deviation of continuous actions: learned, or moved from log_std_start to log_std_end");
  s.add(c.log_std_start, "log_std_start", between(-20, 5), "log standard deviation at the start",
        {.elsewhere = kWords<"log_std_init">});
  s.add(c.log_std_end, "log_std_end", between(-20, 5),
        "log standard deviation at the end of the run, with log_std scheduled");
  s.add(c.policy_gain, "policy_gain", between(0, 100), "gain of the orthogonal initialisation of the policy head");
}

}  // namespace troupe
