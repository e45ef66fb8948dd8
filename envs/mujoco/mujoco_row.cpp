#include "envs/mujoco/mujoco_row.h"

#include <algorithm>

namespace troupe {

MujocoRow::MujocoRow(const Options& options)
    : options_(&options),
      simulation_(std::make_unique<Simulation>(options.model)),
      observation_(static_cast<size_t>(options.task->observation_size(options.model->sizes()))) {}

void MujocoRow::reset(Rng& rng) {
  const MujocoSizes& sizes = options_->model->sizes();
  std::vector<double> qpos(sizes.qpos0, sizes.qpos0 + sizes.nq), qvel(static_cast<size_t>(sizes.nv));
  options_->task->randomize(qpos, qvel, rng);
  start(qpos, qvel);
}

void MujocoRow::start(const std::vector<double>& qpos, const std::vector<double>& qvel) {
  simulation_->start(qpos, qvel);
  position_ = options_->task->position(simulation_->fields());
}

TaskStep MujocoRow::advance(std::span<const float> action) {
  const MujocoFields& fields = simulation_->fields();
  std::ranges::copy(action, fields.ctrl);
  simulation_->step(options_->frame_skip);
  const double before = position_, seconds = options_->model->sizes().timestep * options_->frame_skip;
  position_ = options_->task->position(fields);
  return options_->task->outcome(fields, action, (position_ - before) / seconds);
}

RowStep MujocoRow::step(std::span<const float> action, Rng&) {
  const TaskStep step = advance(action);
  return {.reward = static_cast<float>(step.reward), .terminated = step.terminated};
}

std::span<const double> MujocoRow::observation() const {
  options_->task->observe(simulation_->fields(), observation_.data());
  return observation_;
}

void MujocoRow::observe(RowWriter out) const {
  std::ranges::transform(observation(), out.array<float>().begin(),
                         [](double value) { return static_cast<float>(value); });
}

void MujocoRow::save(std::string& bytes) const { bytes += simulation_->save(); }

void MujocoRow::load(std::string_view bytes) {
  simulation_->restore(bytes);
  position_ = options_->task->position(simulation_->fields());
}

template class Batched<MujocoRow>;

}  // namespace troupe
