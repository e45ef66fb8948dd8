#include "models/networks/encoders/flat_mlp.h"

namespace troupe {

void build_flat_mlp(const ArraySpec& /*observation*/, StrictObject& settings, LayerStack& layers) {
  for (const int64_t units : settings.integers("hidden", {64}, 1, kMostUnits)) layers.linear(units);
}

}  // namespace troupe
