#include "models/networks/encoders/flat_mlp.h"

namespace troupe {

namespace {

constexpr ObjectSetting kHidden =
    defaulted_key("[64]", integers_key("hidden", 1, kMostUnits, "units of the fully connected layers"));
constexpr ObjectSetting kSettings[] = {kHidden};

void build(const ArraySpec& /*observation*/, StrictObject& settings, LayerStack& layers) {
  for (const int64_t units : settings.integers(kHidden)) layers.linear(units);
}

}  // namespace

EncoderKind flat_mlp_encoder() { return {.name = "mlp", .numbers = true, .settings = kSettings, .build = build}; }

}  // namespace troupe
