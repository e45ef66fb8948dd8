#pragma once
// The interface of libtroupe_mujoco.so, which is the only part of troupe that is linked to MuJoCo. It is opened when an
// environment asks for it (envs/mujoco/library.h), so it consists of plain functions and pointers. Units are MuJoCo's:
// metres, radians, seconds, newtons. Any thread; one thread at a time for each data.

namespace troupe {

struct MujocoModel;  // mjModel: constant after it is loaded, shared by all rows
struct MujocoData;   // mjData: the state of one row

struct MujocoSizes {
  int nq = 0;  // positions
  int nv = 0;  // velocities
  int nu = 0;  // actuators
  int nbody = 0;
  int state = 0;                          // numbers in a saved state
  double timestep = 0;                    // seconds
  const double* qpos0 = nullptr;          // [nq]
  const double* body_mass = nullptr;      // [nbody]
  const double* control_range = nullptr;  // [nu, 2]
};

// The arrays of one data, which stay where they are. The functions below change their contents.
struct MujocoFields {
  double* qpos = nullptr;                   // [nq]
  double* qvel = nullptr;                   // [nv]
  double* ctrl = nullptr;                   // [nu]
  const double* xpos = nullptr;             // [nbody, 3]
  const double* xipos = nullptr;            // [nbody, 3]
  const double* site_xpos = nullptr;        // [nsite, 3]
  const double* cinert = nullptr;           // [nbody, 10]
  const double* cvel = nullptr;             // [nbody, 6]
  const double* cfrc_ext = nullptr;         // [nbody, 6]
  const double* qfrc_actuator = nullptr;    // [nv]
  const double* qfrc_constraint = nullptr;  // [nv]
};

// Throw std::runtime_error with MuJoCo's message where MuJoCo reports an error.
struct MujocoFunctions {
  // Null, and a text of at most `size` bytes in `error`, when the file cannot be read.
  MujocoModel* (*load_model)(const char* file, char* error, int size);
  void (*delete_model)(MujocoModel* model);
  MujocoSizes (*sizes)(const MujocoModel* model);
  int (*body)(const MujocoModel* model, const char* name);  // number of the body; -1 if there is none
  MujocoData* (*make_data)(const MujocoModel* model);       // null if memory is short
  void (*delete_data)(MujocoData* data);
  MujocoFields (*fields)(const MujocoData* data);
  void (*reset)(const MujocoModel* model, MujocoData* data);  // to the state of a new data
  void (*forward)(const MujocoModel* model, MujocoData* data);
  // `count` time steps, then the forces on the bodies (cfrc_ext). Writes the state before the last time step to
  // `before`, [sizes.state], unless that is null.
  void (*step)(const MujocoModel* model, MujocoData* data, int count, double* before);
  // The state that determines all following steps (mjSTATE_INTEGRATION), [sizes.state].
  void (*get_state)(const MujocoModel* model, const MujocoData* data, double* state);
  void (*set_state)(const MujocoModel* model, MujocoData* data, const double* state);
};

// Takes the text of each warning of MuJoCo, one line, in the thread that causes it. Must not throw.
using MujocoWarn = void (*)(const char* text);

// The only symbol of the library: null, and a line of at most `size` bytes in `error`, when libmujoco is not the
// version that the library was compiled for.
using MujocoEntry = const MujocoFunctions* (*)(MujocoWarn warn, char* error, int size);
constexpr const char* kMujocoEntry = "troupe_mujoco_functions";

}  // namespace troupe
