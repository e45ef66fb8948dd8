#pragma once
// The bindings, one function per group of algorithms, each in the source of its name. How a function is bound:
// python/README.md.

#include <pybind11/pybind11.h>

#include "python/src/view.h"

namespace troupe::python {

// Releases the interpreter's lock for the whole bound function: arguments are converted before, results after. Inside,
// no Python object may be touched.
using NoGil = pybind11::call_guard<pybind11::gil_scoped_release>;

void bind_scan(pybind11::module_& module);
void bind_losses(pybind11::module_& module);
void bind_estimators(pybind11::module_& module);
void bind_balance(pybind11::module_& module);

}  // namespace troupe::python
