#pragma once
// The binding functions, one per group of algorithms, each defined in the source with that name. python/README.md
// explains how a function is bound.

#include <pybind11/pybind11.h>

#include "python/src/view.h"

namespace troupe::python {

// Releases the interpreter's lock while the bound function runs: arguments are converted before, results afterwards.
// The function must not access any Python object.
using NoGil = pybind11::call_guard<pybind11::gil_scoped_release>;

void bind_scan(pybind11::module_& module);
void bind_losses(pybind11::module_& module);
void bind_estimators(pybind11::module_& module);
void bind_balance(pybind11::module_& module);

}  // namespace troupe::python
