#pragma once
// For tests that use tensors. LibTorch and doctest both define CHECK; doctest's is the one tests mean.
#include <torch/torch.h>

#undef CHECK
#include "tests/support/test.h"
