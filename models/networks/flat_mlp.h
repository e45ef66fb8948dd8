#pragma once
// The encoder "mlp": the observation's numbers through fully connected layers. A plain function; any thread.

#include "models/networks/encoder.h"

namespace troupe {

// With "hidden" [] the numbers are passed on as they are.
EncoderKind flat_mlp_encoder();

}  // namespace troupe
