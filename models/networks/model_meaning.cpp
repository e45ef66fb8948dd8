#include "models/networks/model_meaning.h"

#include <algorithm>
#include <string>

#include "models/decoder/lora.h"
#include "models/networks/net_layout.h"
#include "models/networks/token_transformer_layout.h"
#include "runtime/base/errors.h"
#include "runtime/base/suggest.h"
#include "runtime/config/setting_rules.h"

namespace troupe {

namespace {

template <class T>
void require_same(const std::string& setting, const T& source, const T& now) {
  if (source == now) return;
  throw ConfigError("was trained with " + setting + ' ' + setting_text(source) + ", this run has " + setting_text(now) +
                    "; give this run the same value");
}

std::string text_of(const NetLayer& layer) {
  switch (layer.kind) {
    case NetLayer::Kind::image: return std::string("an image in the order ") + (layer.channels_last ? "hwc" : "chw");
    case NetLayer::Kind::conv:
      return "a convolution with stride " + std::to_string(layer.stride) + " and padding " +
             std::to_string(layer.padding);
    case NetLayer::Kind::embedding: return "an embedding";
    case NetLayer::Kind::linear: return "a linear layer";
  }
  TROUPE_CHECK(false, "layer kind", static_cast<int>(layer.kind));
}

// Throws unless the two lists of layers compute the same. Their tensors have been compared before.
void require_same_layers(const std::string& encoder, const std::vector<NetLayer>& source,
                         const std::vector<NetLayer>& now) {
  if (source == now) return;
  const size_t i = static_cast<size_t>(std::ranges::mismatch(source, now).in1 - source.begin());
  const auto text = [i](const std::vector<NetLayer>& layers) {
    return i < layers.size() ? text_of(layers[i]) : std::string("missing");
  };
  throw ConfigError("was trained with " + encoder + ", whose layer " + std::to_string(i) + " is " + text(source) +
                    "; in this run it is " + text(now) + "; give this run the same encoder");
}

void require_same_net(const ModelConfig& source, const ModelConfig& now, const EnvSpec& env) {
  const NetPlan before = net_plan(source, env), after = net_plan(now, env);
  for (size_t i = 0; i < env.observations.size(); ++i)
    require_same_layers("model.net.encoders." + env.observations[i].name, before.encoders[i], after.encoders[i]);
  if (before.separate_values != after.separate_values)  // it has no layers, as the tensors are the same
    throw ConfigError(std::string("was trained ") + (before.separate_values ? "with" : "without") +
                      " model.net.value_trunk [], this run has " + (after.separate_values ? "it" : "none") +
                      "; give this run the same");
}

std::string text_of(const std::vector<ArraySpec>& observations) {
  std::string text;
  for (const ArraySpec& each : observations)
    text += (text.empty() ? "" : ", ") + each.name + ' ' + std::string(name_of(each.dtype)) + ' ' + each.shape.text();
  return printable(text, 200);
}

}  // namespace

void require_same_meaning(const ModelConfig& source, const ModelConfig& now, const EnvSpec& env) {
  require_same("model.kind", source.kind, now.kind);
  require_same("model.activation", source.activation, now.activation);
  if (now.normalize_observations) require_same("model.observation_clip", source.observation_clip, now.observation_clip);
  if (now.kind == "net") require_same_net(source, now, env);
  if (now.kind == kTokenTransformerKind && token_transformer_shape(source, env) != token_transformer_shape(now, env))
    require_same("model.decoder", source.decoder, now.decoder);
  if (lora_from_config(source.lora, "model.lora") != lora_from_config(now.lora, "model.lora"))
    require_same("model.lora", source.lora, now.lora);
}

void require_same_observations(const EnvSpec& source, const EnvSpec& now) {
  const auto same = [](const ArraySpec& a, const ArraySpec& b) {
    return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape;
  };
  if (std::ranges::equal(source.observations, now.observations, same)) return;
  throw ConfigError("was trained on the observations " + text_of(source.observations) + " of " + source.id +
                    ", this run's " + now.id + " gives " + text_of(now.observations));
}

}  // namespace troupe
