#include "envs/mujoco/simulator.h"

#include <mujoco/mujoco.h>

#include <csetjmp>
#include <cstdio>
#include <stdexcept>
#include <string>

namespace troupe {

namespace {

const mjModel* own(const MujocoModel* model) { return reinterpret_cast<const mjModel*>(model); }
mjModel* own(MujocoModel* model) { return reinterpret_cast<mjModel*>(model); }
const mjData* own(const MujocoData* data) { return reinterpret_cast<const mjData*>(data); }
mjData* own(MujocoData* data) { return reinterpret_cast<mjData*>(data); }

MujocoWarn warn = nullptr;

// Where the call of MuJoCo that this thread makes goes on after an error, and the text of that error. Not in the
// function that calls: a jump leaves its variables undefined, as far as they were changed since setjmp().
thread_local std::jmp_buf* after_error = nullptr;
thread_local char error_text[1024] = "";

// MuJoCo's own handler writes MUJOCO_LOG.TXT into the current folder, and ends the process after an error; it also ends
// when a handler returns. MuJoCo is C, so no exception may pass through it: a jump leaves it, as its own compiler does.
void on_message(const mjLogMessage* message) {
  if (message->level == mjLOG_WARNING) warn(message->subject);
  if (message->level != mjLOG_ERROR || after_error == nullptr) return;
  std::snprintf(error_text, sizeof error_text, "%s", message->subject);
  std::longjmp(*after_error, 1);
}

// Calls `body`, which consists of calls of MuJoCo and has no objects with destructors. Throws std::runtime_error after
// an error of MuJoCo.
template <class Body>
void guarded(const Body& body) {
  std::jmp_buf place;
  std::jmp_buf* const outer = after_error;
  if (setjmp(place) == 0) {  // NOLINT(cert-err52-cpp,modernize-avoid-setjmp-longjmp)
    after_error = &place;
    body();
    after_error = outer;
    return;
  }
  after_error = outer;
  throw std::runtime_error(std::string("MuJoCo: ") + error_text);
}

MujocoModel* load_model(const char* file, char* error, int size) {
  return reinterpret_cast<MujocoModel*>(mj_loadXML(file, nullptr, error, size));
}

void delete_model(MujocoModel* model) { mj_deleteModel(own(model)); }

MujocoSizes sizes(const MujocoModel* model) {
  const mjModel* m = own(model);
  return {.nq = static_cast<int>(m->nq),
          .nv = static_cast<int>(m->nv),
          .nu = static_cast<int>(m->nu),
          .nbody = static_cast<int>(m->nbody),
          .state = static_cast<int>(mj_stateSize(m, mjSTATE_INTEGRATION)),
          .timestep = m->opt.timestep,
          .qpos0 = m->qpos0,
          .body_mass = m->body_mass,
          .control_range = m->actuator_ctrlrange};
}

int body(const MujocoModel* model, const char* name) { return mj_name2id(own(model), mjOBJ_BODY, name); }

MujocoData* make_data(const MujocoModel* model) {
  mjData* data = nullptr;
  guarded([&] { data = mj_makeData(own(model)); });
  return reinterpret_cast<MujocoData*>(data);
}

void delete_data(MujocoData* data) { mj_deleteData(own(data)); }

MujocoFields fields(const MujocoData* data) {
  const mjData* d = own(data);
  return {.qpos = d->qpos,
          .qvel = d->qvel,
          .ctrl = d->ctrl,
          .xpos = d->xpos,
          .xipos = d->xipos,
          .site_xpos = d->site_xpos,
          .cinert = d->cinert,
          .cvel = d->cvel,
          .cfrc_ext = d->cfrc_ext,
          .qfrc_actuator = d->qfrc_actuator,
          .qfrc_constraint = d->qfrc_constraint};
}

void reset(const MujocoModel* model, MujocoData* data) {
  guarded([=] { mj_resetData(own(model), own(data)); });
}

void forward(const MujocoModel* model, MujocoData* data) {
  guarded([=] { mj_forward(own(model), own(data)); });
}

void step(const MujocoModel* model, MujocoData* data, int count, double* before) {
  guarded([=] {
    for (int k = 0; k < count; ++k) {
      if (k + 1 == count && before != nullptr) mj_getState(own(model), own(data), before, mjSTATE_INTEGRATION);
      mj_step(own(model), own(data));
    }
    mj_rnePostConstraint(own(model), own(data));
  });
}

void get_state(const MujocoModel* model, const MujocoData* data, double* state) {
  guarded([=] { mj_getState(own(model), own(data), state, mjSTATE_INTEGRATION); });
}

void set_state(const MujocoModel* model, MujocoData* data, const double* state) {
  guarded([=] { mj_setState(own(model), own(data), state, mjSTATE_INTEGRATION); });
}

constexpr MujocoFunctions kFunctions = {load_model, delete_model, sizes,   body, make_data, delete_data,
                                        fields,     reset,        forward, step, get_state, set_state};

}  // namespace

}  // namespace troupe

extern "C" [[gnu::visibility("default")]] const troupe::MujocoFunctions* troupe_mujoco_functions(
    troupe::MujocoWarn warn, char* error, int size) {
  if (mj_version() != mjVERSION_HEADER) {
    std::snprintf(error, static_cast<size_t>(size),
                  "libmujoco has version number %d, but troupe was built with the headers of %d; run "
                  "tools/fetch_mujoco and build again",
                  mj_version(), mjVERSION_HEADER);
    return nullptr;
  }
  troupe::warn = warn;
  mju_setLogHandler(troupe::on_message);
  return &troupe::kFunctions;
}
