#include "models/networks/flat_mlp.h"

namespace troupe {

namespace {

constexpr ObjectSetting kMlpHidden =
    defaulted_key("[64]", integers_key("hidden", 1, kMostUnits, "units of the fully connected layers"));
constexpr ObjectSetting kMlpSettings[] = {kMlpHidden};

void build_flat_mlp(const ArraySpec& /*observation*/, StrictObject& settings, LayerStack& layers) {
  for (const int64_t units : settings.integers(kMlpHidden)) layers.linear(units);
}

}  // namespace

EncoderKind flat_mlp_encoder() {
  return {.name = "mlp", .numbers = true, .settings = kMlpSettings, .build = build_flat_mlp};
}

}  // namespace troupe
