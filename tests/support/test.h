#pragma once
// The one place that includes doctest. Files that use tensors include tests/support/torch_test.h instead.
#include <doctest/doctest.h>
