// The module troupe._cuda: the scan family on NVIDIA GPUs. Optional and, like troupe._core, not a public interface.
// Importing it needs neither a GPU nor its driver.

#include <pybind11/pybind11.h>

#include <exception>

#include "algorithms/cuda/scan.h"
#include "python/src/scan_functions.h"
#include "runtime/base/errors.h"

namespace troupe::python {

namespace {

// Enqueues the scan on the stream and returns 0. If the workspace at this address is too small, does nothing and
// returns the required bytes.
int64_t run_on_gpu(ScanRule rule, const ScanTask& task, std::uintptr_t workspace, int64_t workspace_bytes, int device,
                   std::uintptr_t stream) {
  const int64_t needed = gpu_scan_workspace(rule, task);
  if (needed > workspace_bytes) return needed;
  run_scan_on_gpu(rule, task, reinterpret_cast<void*>(workspace), device, reinterpret_cast<void*>(stream));
  return 0;
}

// Translates our exceptions; CudaError becomes RuntimeError.
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

PYBIND11_MODULE(_cuda, module) {
  using namespace troupe::python;
  module.doc() = "The CUDA kernels behind troupe.algorithms; not a public interface.";
  pybind11::module_::import("troupe._core");  // defines the class View
  pybind11::register_local_exception_translator(translate);
  bind_scan_functions<run_on_gpu, std::uintptr_t, int64_t, int, std::uintptr_t>(module);
}
