// Advantage estimators, whitening, schedules and task weights.

#include "python/src/bind.h"

namespace troupe::python {

void bind_estimators(pybind11::module_& /*module*/) {}

}  // namespace troupe::python
