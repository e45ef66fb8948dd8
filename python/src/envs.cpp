// The module troupe._envs: our environments as an object whose results are numpy arrays over its own buffers. Not a
// public interface; users call troupe.make_env and troupe.make_vec. An object is used by one thread at a time.

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "envs/env.h"
#include "envs/make/make_env.h"
#include "runtime/base/errors.h"

namespace troupe::python {

namespace py = pybind11;

namespace {

void translate(std::exception_ptr pointer) {
  try {
    if (pointer) std::rethrow_exception(pointer);
  } catch (const ConfigError& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const InvariantError& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  }
}

py::dict action_of(const ActionSpec& action) {
  static constexpr const char* kKinds[] = {"discrete", "multi_discrete", "continuous"};
  py::dict result;
  result["kind"] = kKinds[static_cast<size_t>(action.kind)];
  result["bins"] = action.bins;
  result["low"] = action.low;
  result["high"] = action.high;
  result["chunk"] = action.chunk;
  result["masked"] = action.masked;
  return result;
}

// The rows of one environment, with the buffers of their steps.
class Rows {
 public:
  Rows(const std::string& id, const std::string& params, int64_t rows, int64_t chunk) {
    EnvConfig config;
    config.id = id;
    config.params = params;
    config.rows = rows;
    config.chunk = chunk;
    env_ = make_env(config);
    step_ = EnvStep::allocate(env_->spec(), rows);
    const EnvSpec& spec = env_->spec();
    actions_ = Array(spec.action.dtype(), spec.action.shape().prepended(rows));
  }

  // As `troupe envs ID --json` prints it.
  py::dict spec() const {
    const EnvSpec& spec = env_->spec();
    py::list observations;
    for (const ArraySpec& each : spec.observations) {
      py::dict entry;
      entry["name"] = each.name;
      entry["dtype"] = std::string(name_of(each.dtype));
      entry["shape"] = std::vector<int64_t>(each.shape.begin(), each.shape.end());
      observations.append(entry);
    }
    py::dict result;
    result["id"] = spec.id;
    result["observations"] = observations;
    result["action"] = action_of(spec.action);
    result["max_episode_steps"] = spec.max_episode_steps;
    result["tasks"] = spec.tasks;
    result["reports_success"] = spec.reports_success;
    return result;
  }

  void reset(uint64_t seed) {
    const py::gil_scoped_release released;
    env_->reset(seed, 0, step_);
  }

  void step() {
    const py::gil_scoped_release released;
    env_->step(actions_, step_);
  }

  std::vector<std::string> errors() const { return step_.errors; }
  std::string render(int64_t row) const { return env_->render(row); }

  // The buffers by name, as arrays over their memory, which the object keeps for its whole life.
  static py::dict buffers(const py::object& self) {
    Rows& rows = self.cast<Rows&>();
    EnvStep& step = rows.step_;
    py::dict observations, finals, result;
    for (auto& [name, array] : step.observations) observations[py::str(name)] = numpy_of(array, self);
    for (auto& [name, array] : step.final_observations) finals[py::str(name)] = numpy_of(array, self);
    result["observations"] = observations;
    result["final_observations"] = finals;
    result["actions"] = numpy_of(rows.actions_, self);
    result["action_mask"] = numpy_of(step.action_mask, self);
    result["rewards"] = numpy_of(step.rewards, self);
    result["terminated"] = numpy_of(step.terminated, self);
    result["truncated"] = numpy_of(step.truncated, self);
    result["success"] = numpy_of(step.success, self);
    result["failed"] = numpy_of(step.failed, self);
    return result;
  }

 private:
  static py::array numpy_of(Array& array, const py::object& owner) {
    const std::vector<py::ssize_t> shape(array.shape().begin(), array.shape().end());
    return py::array(py::dtype(std::string(name_of(array.dtype()))), shape, array.mutable_data(), owner);
  }

  std::unique_ptr<Env> env_;
  EnvStep step_;
  Array actions_;
};

}  // namespace
}  // namespace troupe::python

PYBIND11_MODULE(_envs, module) {
  using troupe::python::Rows;
  namespace py = pybind11;
  module.doc() = "The environments behind troupe.make_env and troupe.make_vec; not a public interface.";
  py::register_local_exception_translator(troupe::python::translate);
  py::class_<Rows>(module, "Rows")
      .def(py::init<const std::string&, const std::string&, int64_t, int64_t>())
      .def("spec", &Rows::spec)
      .def("reset", &Rows::reset)
      .def("step", &Rows::step)
      .def("errors", &Rows::errors)
      .def("render", &Rows::render)
      .def("buffers", [](const py::object& self) { return Rows::buffers(self); });
}
