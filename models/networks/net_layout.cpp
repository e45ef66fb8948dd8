#include "models/networks/net_layout.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include <nlohmann/json.hpp>

#include "envs/observation_called.h"
#include "models/heads/heads.h"
#include "models/networks/encoder_table.h"
#include "models/networks/object_setting.h"
#include "models/networks/strict_object.h"
#include "runtime/base/errors.h"
#include "runtime/base/strict_json.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace {

constexpr std::string_view kOthers = "*";

constexpr ObjectSetting kCoreKind =
    defaulted_key(R"("none")", choice_key("kind", kWords<"none", "lstm", "gru">, "the recurrent core"));
constexpr ObjectSetting kCoreSize = defaulted_key("64", integer_key("size", 1, kMostUnits, "lstm, gru: units"));
constexpr ObjectSetting kCoreKeys[] = {kCoreKind, kCoreSize};

constexpr ObjectSetting kEncoders =
    optional_key(object_key("encoders", "an encoder for each observation; * stands for those that are not named"));
constexpr ObjectSetting kTrunk = defaulted_key(
    "[64]", integers_key("trunk", 1, kMostUnits, "units of the layers that read the outputs of all encoders"));
constexpr ObjectSetting kCore = {.setting = object_key("core", "recurrent core behind the trunk"),
                                 .members = [] { return std::span<const ObjectSetting>(kCoreKeys); }};
constexpr ObjectSetting kValueTrunk = optional_key(integers_key(
    "value_trunk", 1, kMostUnits, "units of separate layers for the value; by default the policy's layers serve both"));
constexpr ObjectSetting kNetKeys[] = {kEncoders, kTrunk, kCore, kValueTrunk};

// Throws unless every observation with settings exists and "*" matches at least one.
void check_observations(StrictObject& encoders, const EnvSpec& env) {
  std::vector<std::string> names;
  for (const ArraySpec& observation : env.observations) names.push_back(observation.name);
  for (const std::string& key : encoders.keys()) {
    if (key == kOthers || std::ranges::find(names, key) != names.end()) continue;
    const std::string near = closest(key, names);
    std::string known;
    for (const std::string& name : names) known += (known.empty() ? "only: " : ", ") + name;
    throw ConfigError(encoders.path_of(key) + ": " + env.id + " gives no such observation, " +
                      (near.empty() ? known : "did you mean " + near + '?'));
  }
  const bool all_named = std::ranges::all_of(names, [&](const std::string& name) { return encoders.has(name); });
  if (all_named && encoders.has(kOthers))
    throw ConfigError(encoders.path_of(kOthers) + ": has no effect, because every observation of " + env.id +
                      " is named beside it; remove it");
}

// {"kind": "lstm"}, as an example in an error.
std::string object_of_kind(std::string_view kind, const std::string& more = "") {
  return "{\"kind\": \"" + std::string(kind) + '"' + more + '}';
}

// Refuses settings of other kinds, which are left over when only the kind of an encoder was changed.
void check_settings_of_kind(const StrictObject& settings, const EncoderKind& kind) {
  std::string required;
  for (const ObjectSetting& setting : kind.settings)
    if (setting.missing == ObjectSetting::Missing::refused)
      required += ", \"" + std::string(setting.setting.key) + "\": N";
  for (const std::string& key : settings.unknown_keys()) {
    const bool known = std::ranges::any_of(encoder_kinds(), [&](const EncoderKind& other) {
      return std::ranges::any_of(other.settings, [&](const ObjectSetting& has) { return has.setting.key == key; });
    });
    if (!known) continue;
    throw ConfigError(settings.path_of(key) + ": has no effect with " + settings.path_of("kind") + " \"" +
                      std::string(kind.name) + "\"; remove it, or replace the whole object: --set '" + settings.path() +
                      '=' + object_of_kind(kind.name, required) + '\'');
  }
}

// Adds the encoder of one observation; returns the number of its features.
int64_t add_encoder(NetPlan& plan, StrictObject& encoders, const EnvSpec& env, size_t index) {
  const ArraySpec& observation = env.observations[index];
  const bool named = encoders.has(observation.name);
  if (observation.shape.elements() == 0)
    throw ConfigError("env.id: " + observation_called(observation.name) + " of " + env.id + " is empty, " +
                      observation.shape.text());
  StrictObject settings =
      encoders.object(named ? observation.name : kOthers, object_of_kind(default_encoder(observation)));
  const ObjectSetting& kind_key = encoder_kind_key();
  const EncoderKind& kind =
      find_encoder(settings.has(kind_key) ? settings.choice(kind_key) : default_encoder(observation));
  const Shape input = kind.numbers ? Shape{observation.shape.elements()} : observation.shape;
  LayerStack layers(plan.layout, "encoder." + observation.name, input, TensorGroup::policy);
  kind.build(observation, settings, layers);
  check_settings_of_kind(settings, kind);
  settings.finish();
  plan.layout.inputs.push_back({{index}, kind.numbers});
  plan.encoders.push_back(layers.take());
  return layers.width();
}

int64_t add_encoders(NetPlan& plan, StrictObject encoders, const EnvSpec& env) {
  check_observations(encoders, env);
  int64_t features = 0;
  for (size_t i = 0; i < env.observations.size(); ++i) features += add_encoder(plan, encoders, env, i);
  return features;
}

// Adds the layers of a trunk; returns the width of the last one.
int64_t add_trunk(NetPlan& plan, const std::string& prefix, const std::vector<int64_t>& units, int64_t features,
                  TensorGroup group, std::vector<NetLayer>& out) {
  LayerStack layers(plan.layout, prefix, {features}, group);
  for (const int64_t each : units) layers.linear(each);
  out = layers.take();
  return layers.width();
}

// Adds the recurrent core. Its initial values are orthogonal matrices of gain 1 and biases 0, as for the LSTMs of Huang
// et al. 2022, "The 37 Implementation Details of Proximal Policy Optimization"
// (iclr-blog-track.github.io/2022/03/25/ppo-implementation-details). The LSTM's forget gate begins with a bias of 1, so
// that memory lasts before anything is learnt (Jozefowicz et al. 2015, "An Empirical Exploration of Recurrent Network
// Architectures", proceedings.mlr.press/v37/jozefowicz15.html).
int64_t add_core(NetPlan& plan, StrictObject settings, int64_t features) {
  const std::string kind = settings.choice(kCoreKind);
  plan.core = kind == "lstm" ? Core::lstm : kind == "gru" ? Core::gru : Core::none;
  if (plan.core == Core::none && settings.has(kCoreSize)) {
    settings.finish();  // reports keys that are wrong, like "type" in place of "kind"
    if (!settings.has(kCoreKind))
      throw ConfigError(settings.path_of("kind") + ": is missing, but " + settings.path_of("size") +
                        " is given; use \"lstm\" or \"gru\"");
    throw ConfigError(settings.path_of("size") + ": has no effect with " + settings.path_of("kind") +
                      " \"none\"; use \"lstm\" or \"gru\", or replace the whole object: --set '" + settings.path() +
                      "={\"kind\": \"none\"}'");
  }
  plan.core_size = plan.core == Core::none ? 0 : settings.integer(kCoreSize);
  settings.finish();
  if (plan.core == Core::none) return features;
  const int64_t rows = gates_of(plan.core) * plan.core_size;
  auto& tensors = plan.layout.tensors;
  tensors.push_back({.name = "core.bias_hh", .shape = {rows}});
  tensors.push_back({.name = "core.bias_ih", .shape = {rows}});
  if (plan.core == Core::lstm) tensors.back().start_blocks = {0.0, 1.0, 0.0, 0.0};
  tensors.push_back({.name = "core.weight_hh", .shape = {rows, plan.core_size}, .gain = 1.0});
  tensors.push_back({.name = "core.weight_ih", .shape = {rows, features}, .gain = 1.0});
  plan.layout.state_size = states_of(plan.core) * plan.core_size;
  plan.layout.units += 2 * rows + plan.layout.state_size;  // the sums of inputs and of state, and the state
  return plan.core_size;
}

void check_normalizer(const ModelConfig& config, const NetworkLayout& layout) {
  const bool numbers = std::ranges::any_of(layout.inputs, [](const NetworkInputSpec& input) { return input.numbers; });
  if (config.normalize_observations && !numbers)
    throw ConfigError(
        "model.normalize_observations: true has no effect, because no encoder of model.net has kind \"mlp\", the one "
        "that reads numbers; remove model.normalize_observations (default false)");
}

}  // namespace

std::span<const ObjectSetting> net_keys() { return kNetKeys; }

NetPlan net_plan(const ModelConfig& config, const EnvSpec& env) {
  const std::string path = "model.net";
  const Json json = parse_strict(config.net, path);
  StrictObject net(json, path);
  NetPlan plan;
  const int64_t encoded = add_encoders(plan, net.object(kEncoders, "{\"*\": " + object_of_kind("conv") + '}'), env);
  int64_t features = add_trunk(plan, "trunk", net.integers(kTrunk), encoded, TensorGroup::policy, plan.trunk);
  features = add_core(plan, net.object(kCore, object_of_kind("lstm", ", \"size\": 64")), features);
  plan.separate_values = net.has(kValueTrunk);
  const int64_t before = plan.core == Core::none && plan.separate_values ? encoded : features;
  const std::vector<int64_t> units = net.integers(kValueTrunk);
  const int64_t value_features = add_trunk(plan, "value", units, before, TensorGroup::value, plan.value_trunk);
  net.finish();
  check_normalizer(config, plan.layout);
  add_linear(plan.layout, "policy.head", Head(env.action).outputs(), features, TensorGroup::policy, config.policy_gain);
  plan.layout.value_head = add_linear(plan.layout, "value.head", 1, value_features, TensorGroup::value, 1.0);
  return plan;
}

NetworkLayout net_layout(const ModelConfig& config, const EnvSpec& env) { return net_plan(config, env).layout; }

}  // namespace troupe
