#include "envs/mujoco/library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <set>
#include <stdexcept>
#include <system_error>

#include "runtime/base/errors.h"
#include "runtime/base/log.h"
#include "runtime/base/mutex.h"
#include "runtime/base/suggest.h"

namespace troupe {

namespace fs = std::filesystem;

namespace {

constexpr int kErrorBytes = 1024;
constexpr size_t kErrorShown = 400;

struct Files {
  fs::path library;
  fs::path models;
};

// Installed with the program, or where the build has them if the program is in its build folder.
Files find_files() {
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed).parent_path(), prefix = program.parent_path();
  if (program.string().starts_with(TROUPE_BUILD_DIR))
    return {fs::path(TROUPE_BUILD_DIR) / "libtroupe_mujoco.so", TROUPE_MUJOCO_DIR "/models"};
  return {prefix / "lib" / "troupe" / "libtroupe_mujoco.so", prefix / "share" / "troupe" / "mujoco"};
}

// While it exists, this thread reads a model. The models come with troupe, so a user can do nothing about what MuJoCo
// says of them.
struct ReadingModel {
  ReadingModel() { now = true; }
  ~ReadingModel() { now = false; }
  static thread_local bool now;
};
thread_local bool ReadingModel::now = false;

// Logs each warning once. That of an unstable simulation ends with its time, which differs from row to row.
void log_warning(const char* text) {
  static Mutex mutex;
  static std::set<std::string> logged;
  const std::string_view line = text, kind = line.substr(0, line.find(" Time = "));
  {
    const MutexLock lock(mutex);
    if (!logged.emplace(kind).second) return;
  }
  (ReadingModel::now ? log_info : log_warn)("mujoco", line);
}

[[noreturn]] void refuse(const std::string& id, const std::string& why) {
  throw ConfigError("env.id: \"" + printable(id) + "\": " + why);
}

const MujocoFunctions* open(const std::string& id) {
  const fs::path file = find_files().library;
  std::error_code failed;
  if (!fs::exists(file, failed))
    refuse(id, "this build of troupe has no MuJoCo; run tools/fetch_mujoco and build again");
  // Lazily, so that a libmujoco of another version is refused by its number and not by the first function it lacks.
  void* library = dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library == nullptr)  // NOLINTNEXTLINE(concurrency-mt-unsafe): glibc's dlerror() is per thread
    refuse(id, "cannot be loaded: " + printable(dlerror(), kErrorShown) + "; run tools/fetch_mujoco and build again");
  const auto entry = reinterpret_cast<MujocoEntry>(dlsym(library, kMujocoEntry));
  if (entry == nullptr) refuse(id, file.string() + " is not of this build of troupe; build again");
  char error[kErrorBytes] = "";
  const MujocoFunctions* functions = entry(log_warning, error, kErrorBytes);
  if (functions == nullptr) refuse(id, printable(error, kErrorShown));
  return functions;
}

}  // namespace

const MujocoFunctions& mujoco_functions(const std::string& id) {
  static std::mutex mutex;
  static const MujocoFunctions* functions = nullptr;
  const std::lock_guard lock(mutex);
  if (functions == nullptr) functions = open(id);
  return *functions;
}

SimulationModel::SimulationModel(const std::string& id, const std::string& file)
    : functions_(mujoco_functions(id)), model_(nullptr, functions_.delete_model) {
  char error[kErrorBytes] = "";
  const fs::path path = find_files().models / file;
  {
    const ReadingModel reading;
    model_.reset(functions_.load_model(path.c_str(), error, kErrorBytes));
  }
  if (model_ == nullptr) refuse(id, "MuJoCo cannot read " + path.string() + ": " + printable(error, kErrorShown));
  sizes_ = functions_.sizes(model_.get());
}

int SimulationModel::body(const char* name) const {
  const int number = functions_.body(model_.get(), name);
  TROUPE_CHECK(number >= 0, name);
  return number;
}

Simulation::Simulation(std::shared_ptr<const SimulationModel> model)
    : model_(std::move(model)),
      data_(model_->functions().make_data(model_->get()), model_->functions().delete_data),
      before_(static_cast<size_t>(model_->sizes().state)) {
  if (data_ == nullptr) throw std::runtime_error("there is not enough memory for MuJoCo's data");
  fields_ = model_->functions().fields(data_.get());
}

void Simulation::start(const std::vector<double>& qpos, const std::vector<double>& qvel) {
  const MujocoFunctions& mujoco = model_->functions();
  mujoco.reset(model_->get(), data_.get());
  std::ranges::copy(qpos, fields_.qpos);
  std::ranges::copy(qvel, fields_.qvel);
  mujoco.get_state(model_->get(), data_.get(), before_.data());
  last_ = Last::forward;
  mujoco.forward(model_->get(), data_.get());
}

void Simulation::step(int count) {
  last_ = Last::step;
  model_->functions().step(model_->get(), data_.get(), count, before_.data());
}

std::string Simulation::save() const {
  std::string bytes(1, static_cast<char>(last_));
  bytes.append(reinterpret_cast<const char*>(before_.data()), before_.size() * sizeof(double));
  return bytes;
}

void Simulation::restore(std::string_view bytes) {
  const size_t expected = 1 + before_.size() * sizeof(double);
  if (bytes.size() != expected)
    throw std::runtime_error("the saved state of the simulation has " + std::to_string(bytes.size()) +
                             " bytes, expected " + std::to_string(expected));
  const MujocoFunctions& mujoco = model_->functions();
  last_ = static_cast<Last>(bytes.front());
  std::memcpy(before_.data(), bytes.data() + 1, bytes.size() - 1);
  mujoco.reset(model_->get(), data_.get());
  mujoco.set_state(model_->get(), data_.get(), before_.data());
  if (last_ == Last::forward)
    mujoco.forward(model_->get(), data_.get());
  else
    step(1);
}

}  // namespace troupe
