#pragma once
// The encoder "embedding": a learnt vector for every value of an integer. An observation of n integers becomes n
// vectors side by side. A plain function; any thread.

#include "models/networks/encoder.h"

namespace troupe {

// Refuses an observation that is not made of integers.
EncoderKind embedding_encoder();

}  // namespace troupe
