#pragma once
// libtroupe_mujoco.so and the models, found and opened when an environment asks for them, and owners of MuJoCo's
// objects. Any thread; one thread at a time for each Simulation.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "envs/mujoco/simulator.h"

namespace troupe {

// The functions of libtroupe_mujoco.so, opened by the first call. Throws ConfigError that begins with the environment's
// `id` when there is no such library, it cannot be loaded, or libmujoco has another version.
const MujocoFunctions& mujoco_functions(const std::string& id);

// A model file of Gymnasium's, compiled by MuJoCo.
class SimulationModel {
 public:
  // `file` is a name such as "hopper.xml". Throws ConfigError that begins with the environment's `id`.
  SimulationModel(const std::string& id, const std::string& file);

  const MujocoFunctions& functions() const { return functions_; }
  const MujocoModel* get() const { return model_.get(); }
  const MujocoSizes& sizes() const { return sizes_; }
  // The number of the body. Throws InvariantError if the model has none with this name.
  int body(const char* name) const;

 private:
  const MujocoFunctions& functions_;
  std::unique_ptr<MujocoModel, void (*)(MujocoModel*)> model_;
  MujocoSizes sizes_;
};

// The state of one row.
class Simulation {
 public:
  // Throws std::runtime_error if memory is short.
  explicit Simulation(std::shared_ptr<const SimulationModel> model);

  const SimulationModel& model() const { return *model_; }
  const MujocoFields& fields() const { return fields_; }

  // Starts from `qpos` [nq] and `qvel` [nv] at time 0.
  void start(const std::vector<double>& qpos, const std::vector<double>& qvel);
  // `count` time steps with the controls in fields().ctrl; count must be at least 1.
  void step(int count);
  // Everything that determines the present fields and the future. restore() takes bytes of save() for the same model;
  // it throws std::runtime_error when they have another size.
  std::string save() const;
  void restore(std::string_view bytes);

 private:
  // What MuJoCo computed last. Its results (such as positions of bodies) are not part of its state, so it is computed
  // again after restore().
  enum class Last : uint8_t { forward = 0, step = 1 };

  std::shared_ptr<const SimulationModel> model_;
  std::unique_ptr<MujocoData, void (*)(MujocoData*)> data_;
  MujocoFields fields_;
  std::vector<double> before_;  // the state before what was computed last
  Last last_ = Last::forward;
};

}  // namespace troupe
