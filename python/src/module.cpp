// The module troupe._core: takes checked views of arrays and writes results into views that the Python layer has
// allocated. Not a public interface; users call troupe.algorithms.

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <exception>

#include "python/src/bind.h"
#include "runtime/base/errors.h"

namespace troupe::python {

namespace {

// A local translator: translates only our exceptions, not those of other modules in the same process.
void translate(std::exception_ptr pointer) {
  try {
    if (pointer) std::rethrow_exception(pointer);
  } catch (const ConfigError& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const InvariantError& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  }
}

}  // namespace
}  // namespace troupe::python

PYBIND11_MODULE(_core, module) {
  using namespace troupe::python;
  namespace py = pybind11;
  module.doc() = "The kernels behind troupe.algorithms; not a public interface.";
  module.attr("__version__") = TROUPE_PACKAGE_VERSION;
  py::register_local_exception_translator(translate);
  // The Python layer stores the owner of the memory as an attribute.
  py::class_<View>(module, "View", py::dynamic_attr())
      .def(py::init<std::string, std::uintptr_t, std::string_view, std::vector<int64_t>, std::vector<int64_t>, bool>());
  bind_scan(module);
  bind_losses(module);
  bind_estimators(module);
  bind_balance(module);
}
