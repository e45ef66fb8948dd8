#include "models/model_meaning.h"

#include <algorithm>
#include <string>

#include "models/networks/net_layout.h"
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

// Throws unless the two lists of layers compute the same. Their tensors have been compared before. An error counts
// convolutions as the setting "layers" does.
void require_same_layers(const std::string& encoder, const std::vector<NetLayer>& source,
                         const std::vector<NetLayer>& now) {
  const auto reads_image = [](const std::vector<NetLayer>& layers) {
    return std::ranges::any_of(layers, [](const NetLayer& each) { return each.kind == NetLayer::Kind::image; });
  };
  require_same(encoder + ".kind", std::string(reads_image(source) ? "conv" : "mlp"),
               std::string(reads_image(now) ? "conv" : "mlp"));
  const auto order = [](const NetLayer& image) { return std::string(image.channels_last ? "hwc" : "chw"); };
  size_t convolutions = 0;
  for (size_t i = 0; i < std::min(source.size(), now.size()); ++i) {
    const NetLayer &before = source[i], &after = now[i];
    if (before.kind == NetLayer::Kind::image) require_same(encoder + ".order", order(before), order(after));
    if (before.kind != NetLayer::Kind::conv) continue;
    const std::string layer = encoder + ".layers[" + std::to_string(convolutions++) + ']';
    require_same(layer + ".stride", before.stride, after.stride);
    require_same(layer + ".padding", before.padding, after.padding);
  }
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
