#pragma once
// The encoder "nature": the network of Mnih et al. 2015 (Nature 518, doi:10.1038/nature14236, Methods), which Atari
// agents use: 32 channels of 8 x 8 at stride 4, 64 of 4 x 4 at stride 2, 64 of 3 x 3 at stride 1, and 512 units.
// A plain function; any thread.

#include "models/networks/encoder.h"

namespace troupe {

// Refuses an image of fewer than 36 x 36 pixels.
EncoderKind nature_encoder();

}  // namespace troupe
