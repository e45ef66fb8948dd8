// Token balancing: partitions, micro-batches, restoring order.

#include "python/src/bind.h"

namespace troupe::python {

void bind_balance(pybind11::module_& /*module*/) {}

}  // namespace troupe::python
