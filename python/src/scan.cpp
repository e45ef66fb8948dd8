// The scan family on the CPU.

#include "python/src/scan_functions.h"

namespace troupe::python {

void bind_scan(pybind11::module_& module) { bind_scan_functions<run_scan>(module); }

}  // namespace troupe::python
