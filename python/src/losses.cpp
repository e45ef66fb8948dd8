// Surrogates, value losses, KL, log-probs and entropy.

#include "python/src/bind.h"

namespace troupe::python {

void bind_losses(pybind11::module_& /*module*/) {}

}  // namespace troupe::python
