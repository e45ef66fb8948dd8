#include "models/networks/model_config.h"

#include "models/networks/network_kinds.h"

namespace troupe {
namespace {

// The kinds whose layers are in model.hidden.
constexpr auto kLayered = kWords<"mlp", "token_transformer">;
constexpr Need kWithDecoder = {.condition = is("model.kind", kWords<"decoder", "token_transformer">)};
constexpr Need kContinuous = {.condition = known_later("continuous actions")};

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
        {.elsewhere = kWords<"net_arch", "fcnet_hiddens">,
         .needs = {kOnlyControlRuns,
                   {.condition = is("model.kind", kLayered), .instead = "describe the layers in model.net"}}});
  s.add_object(c.net, "net", "encoders by observation, trunk, core and value_trunk (docs/models.md)",
               {.needs = {{.condition = is("model.kind", kWords<"net">)}}});
  s.add_object(c.decoder, "decoder",
               "the shape of the transformer, with the keys of a config.json of "
               "transformers",
               {.needs = {kWithDecoder}});
  s.add(
      c.path, "path", anything(),
      "kind decoder: folder of a pre-trained model: config.json and model.safetensors of transformers "
      "(docs/checkpoints_of_language_models.md); empty = random first weights. Kind token_transformer with model.lora: "
      "the run whose model gets adapters: its folder, one of its checkpoints or a .safetensors file",
      {.elsewhere = kWords<"model_name_or_path", "pretrained">,
       .needs = {kWithDecoder,
                 {.condition = is_given("model.lora"),
                  .when = is("model.kind", kWords<"token_transformer">),
                  .instead = "set model.lora, or train all weights of that run with --init-from"}}});
  s.add_object(c.lora, "lora",
               "kind decoder: train low-rank adapters of a pre-trained model alone: rank, alpha and targets; kind "
               "token_transformer: train adapters of the decoder, and all other layers (docs/models.md)",
               {.needs = {kWithDecoder}});
  s.add(c.critic, "critic", one_of(kWords<"none", "shared", "separate">),
        "the value function: none; shared, a value head on the policy's last hidden states, whose gradient "
        "reaches the policy; separate, a decoder of the same shape with a value head, which is trained by itself",
        {.needs = {
             kOnlyTokenRuns,
             {.condition = is("algorithm.advantage", kWords<"gae", "vtrace">), .because = ", which uses no values"}}});
  s.add(c.critic_path, "critic_path", anything(),
        "folder of a pre-trained model of the policy's shape, as in model.path, with the critic's first "
        "weights; empty = the policy's first weights",
        {.elsewhere = kWords<"critic_model_path", "value_model_path", "critic_pretrain">,
         .needs = {kOnlyTokenRuns, {.condition = is("model.critic", kWords<"separate">)}}});
  s.add(c.sequence, "sequence", between(0, 65536),
        "length of the sequences of consecutive steps it is trained on, a divisor of rollout.length; "
        "0 = the largest divisor from 8 to 32, or all of a shorter rollout",
        {.elsewhere = kWords<"max_seq_len">,
         .needs = {kOnlyControlRuns, {.condition = known_later("a recurrent core")}}});
  s.add(c.burn_in, "burn_in", between(0, 65535),
        "steps at the beginning of each sequence that only bring its state up to date and are not "
        "trained on, fewer than model.sequence",
        {.needs = {kOnlyControlRuns, {.condition = known_later("a recurrent core")}}});
  s.add(c.activation, "activation", one_of(kWords<"tanh", "relu", "elu", "gelu", "silu">),
        "activation function after every layer but the heads",
        {.needs = {kOnlyControlRuns,
                   {.condition = is_given("model.hidden"),
                    .when = is("model.kind", kLayered),
                    .instead = "give model.hidden at least one layer"}}});
  s.add(c.shared_trunk, "shared_trunk", anything(), "the policy and the value function share their hidden layers",
        {.elsewhere = kWords<"vf_share_layers">,
         .needs = {{.condition = is("model.kind", kWords<"mlp", "net">), .instead = "set model.kind to \"mlp\""},
                   {.condition = is("model.kind", kWords<"mlp">),
                    .because = ", whose trunk is shared unless model.net has a value_trunk"},
                   {.condition = is_given("model.hidden"), .instead = "give model.hidden at least one layer"}}});
  s.add(c.normalize_observations, "normalize_observations", anything(),
        "subtract the running mean, divide by the running standard deviation", {.needs = {kOnlyControlRuns}});
  s.add(c.observation_clip, "observation_clip", above(0, 1e6), "normalised observations are clipped to this magnitude",
        {.needs = {kOnlyControlRuns, {.condition = is_true("model.normalize_observations")}}});
  s.add(c.normalize_returns, "normalize_returns", anything(),
        "the value head predicts in units of the running return statistics", {.needs = {kOnlyControlRuns}});
  s.add(c.log_std, "log_std", one_of(kWords<"state_independent", "scheduled">),
        "log standard deviation of continuous actions: learned, or moved from log_std_start to log_std_end",
        {.needs = {kOnlyControlRuns, kContinuous}});
  s.add(c.log_std_start, "log_std_start", between(-20, 5), "log standard deviation at the start",
        {.elsewhere = kWords<"log_std_init">, .needs = {kOnlyControlRuns, kContinuous}});
  s.add(c.log_std_end, "log_std_end", between(-20, 5),
        "log standard deviation at the end of the run, with log_std scheduled",
        {.needs = {kOnlyControlRuns, kContinuous, {.condition = is("model.log_std", kWords<"scheduled">)}}});
  s.add(c.policy_gain, "policy_gain", between(0, 100), "gain of the orthogonal initialisation of the policy head",
        {.needs = {kOnlyControlRuns}});
}

}  // namespace troupe
