#include "models/learning/staging.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "models/experience/rollout_units.h"
#include "models/learning/lag_classes.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

// Steps [begin, begin + count) of a rollout's arrays, viewed as [T * N, ...], which are also adjacent in the batch.
struct Run {
  int64_t begin;
  int64_t count;
};

std::vector<Run> runs_of(const RolloutUnits& part, bool whole_columns) {
  const auto valid = part.rollout->grid().valid.view<uint8_t>();
  std::vector<Run> result;
  for (const int64_t step : steps_of(part)) {
    if (!whole_columns && !valid[step]) continue;
    if (!result.empty() && result.back().begin + result.back().count == step)
      ++result.back().count;
    else
      result.push_back({step, 1});
  }
  return result;
}

struct StagedPart {
  const RolloutUnits* units;
  std::vector<Run> runs;
};

// The runs of one array of every part, one after the other: [B] + sample_shape.
template <class ArrayOf>
Array gather(const std::vector<StagedPart>& parts, int64_t count, DType dtype, const Shape& sample_shape,
             const char* name, ArrayOf array_of) {
  Array result = Array::uninitialized(dtype, sample_shape.prepended(count));
  const size_t sample_bytes = static_cast<size_t>(sample_shape.elements()) * size_of(dtype);
  std::byte* out = result.mutable_data();
  for (const StagedPart& part : parts) {
    const Rollout& rollout = *part.units->rollout;
    const Grid& grid = rollout.grid();
    const Array& source = array_of(grid);
    const int64_t wanted = grid.steps() * grid.columns() * sample_shape.elements();
    if (source.dtype() != dtype || source.size() != wanted)
      throw InvariantError("rollout " + std::to_string(rollout.sequence) + " of worker " +
                           std::to_string(rollout.worker) + ": " + name + " is " +
                           std::string(name_of(source.dtype())) + ' ' + source.shape().text() + ", expected " +
                           std::string(name_of(dtype)) + " [" + std::to_string(grid.steps()) + ", " +
                           std::to_string(grid.columns()) + "] times " + sample_shape.text());
    for (const Run& run : part.runs) {
      std::memcpy(out, source.data() + static_cast<size_t>(run.begin) * sample_bytes,
                  static_cast<size_t>(run.count) * sample_bytes);
      out += static_cast<size_t>(run.count) * sample_bytes;
    }
  }
  return result;
}

void check_part(const RolloutUnits& part, bool whole_columns) {
  TROUPE_CHECK(part.rollout != nullptr);
  TROUPE_CHECK(!whole_columns || part.kind == UnitKind::column, static_cast<int>(part.kind));
  const Grid& grid = part.rollout->grid();
  TROUPE_CHECK(grid.values.rank() == 2 && grid.valid.size() == grid.values.size(), grid.values.shape().text());
}

// The observations that follow a rollout's last step and each cut inside it, one after the other.
class Bootstraps {
 public:
  explicit Bootstraps(const EnvSpec& env) : env_(env) {}

  // Adds those of a part of whole columns, whose samples begin at `first_sample` in the batch.
  void add(const RolloutUnits& part, int64_t first_sample) {
    const Grid& grid = part.rollout->grid();
    const auto columns = static_cast<int64_t>(part.indices.size());
    if (grid.last_observations.empty()) return;  // the stored next_values are used
    for (int64_t c = 0; c < columns; ++c)
      bootstraps_.push_back(
          {&grid.last_observations, part.indices[c], first_sample + (grid.steps() - 1) * columns + c});
    const int64_t cuts = grid.final_steps.empty() ? 0 : grid.final_steps.dim(0);
    for (int64_t f = 0; f < cuts; ++f) {
      const auto step = grid.final_steps.view<int32_t>().subspan(2 * f, 2);
      const auto column = std::ranges::find(part.indices, step[1]);
      if (column == part.indices.end()) continue;
      // After those of the last step, so that a cut at the last step takes precedence over the next episode's first
      // observation.
      bootstraps_.push_back(
          {&grid.final_observations, f, first_sample + step[0] * columns + (column - part.indices.begin())});
    }
  }

  void write(const InputEncoder& encoder, StagedSamples& out) const {
    Arrays observations;
    for (const ArraySpec& spec : env_.observations) {
      Array array = Array::uninitialized(spec.dtype, spec.shape.prepended(static_cast<int64_t>(bootstraps_.size())));
      const size_t sample_bytes = static_cast<size_t>(spec.shape.elements()) * size_of(spec.dtype);
      for (size_t i = 0; i < bootstraps_.size(); ++i) {
        const Array& source = bootstraps_[i].observations->at(spec.name);
        TROUPE_CHECK(source.dtype() == spec.dtype && source.shape().without_first() == spec.shape, spec.name,
                     source.shape().text());
        std::memcpy(array.mutable_data() + i * sample_bytes, source.data() + bootstraps_[i].index * sample_bytes,
                    sample_bytes);
      }
      observations.set(spec.name, std::move(array));
    }
    out.bootstrap_inputs = encoder.encode(observations);
    for (const Bootstrap& bootstrap : bootstraps_) out.bootstrap_samples.push_back(bootstrap.target);
  }

 private:
  struct Bootstrap {
    const Arrays* observations;
    int64_t index;
    int64_t target;
  };
  const EnvSpec& env_;
  std::vector<Bootstrap> bootstraps_;
};

void stage_rollouts(const std::vector<StagedPart>& parts, const EnvSpec& env, const InputEncoder& encoder,
                    StagedSamples& out) {
  const auto column = [&](const char* name, DType dtype, auto member) {
    return gather(parts, out.count, dtype, {}, name,
                  [member](const Grid& grid) -> const Array& { return grid.*member; });
  };
  out.rewards = column("rewards", DType::f32, &Grid::rewards);
  out.next_values = column("next_values", DType::f32, &Grid::next_values);
  out.terminated = column("terminated", DType::u8, &Grid::terminated);
  out.truncated = column("truncated", DType::u8, &Grid::truncated);
  out.valid = column("valid", DType::u8, &Grid::valid);
  const auto has_tasks = [](const StagedPart& part) { return !part.units->rollout->grid().task.empty(); };
  if (std::ranges::any_of(parts, has_tasks)) out.task = column("task", DType::i32, &Grid::task);
  Bootstraps bootstraps(env);
  int64_t first_sample = 0;
  for (const StagedPart& part : parts) {
    const int64_t steps = part.units->rollout->grid().steps(),
                  columns = static_cast<int64_t>(part.units->indices.size());
    out.rollouts.push_back({first_sample, steps, columns});
    bootstraps.add(*part.units, first_sample);
    first_sample += steps * columns;
  }
  bootstraps.write(encoder, out);
}

// Rollouts say how many environment steps of a chunk were executed; a step has one decision per action dimension.
Array stage_executed(const std::vector<StagedPart>& parts, const EnvSpec& env, int64_t count) {
  const auto has_counts = [](const StagedPart& part) { return !part.units->rollout->grid().executed.empty(); };
  if (std::ranges::none_of(parts, has_counts)) return {};
  Array result =
      gather(parts, count, DType::i32, {}, "executed", [](const Grid& grid) -> const Array& { return grid.executed; });
  for (int32_t& count : result.mutable_view<int32_t>()) {
    TROUPE_CHECK(count >= 0 && count <= env.action.chunk, count, env.action.chunk);
    count *= static_cast<int32_t>(env.action.dims());
  }
  return result;
}

Arrays gather_observations(const std::vector<StagedPart>& parts, const EnvSpec& env, int64_t count) {
  Arrays result;
  for (const ArraySpec& spec : env.observations)
    result.set(spec.name, gather(parts, count, spec.dtype, spec.shape, spec.name.c_str(),
                                 [&](const Grid& grid) -> const Array& { return grid.observations.at(spec.name); }));
  return result;
}

}  // namespace

Array stage_versions(const SuperBatch& batch, bool whole_columns) {
  std::vector<StagedPart> parts;
  int64_t count = 0;
  for (const RolloutUnits& part : batch.parts) {
    if (part.rollout->grid().version.empty()) return {};
    parts.push_back({&part, runs_of(part, whole_columns)});
    for (const Run& run : parts.back().runs) count += run.count;
  }
  return gather(parts, count, DType::i64, {}, "version", [](const Grid& grid) -> const Array& { return grid.version; });
}

std::vector<uint8_t> stage_lags(const SuperBatch& batch, const Array& versions) {
  std::vector<uint8_t> result;
  if (versions.empty()) return result;
  for (const int64_t version : versions.view<int64_t>())
    result.push_back(lag_class(static_cast<int64_t>(batch.index) - version));
  return result;
}

StagedSamples stage_samples(const SuperBatch& batch, const EnvSpec& env, const InputEncoder& encoder,
                            bool whole_columns, const RolloutExtras& extras) {
  StagedSamples out;
  std::vector<StagedPart> parts;
  for (const RolloutUnits& part : batch.parts) {
    check_part(part, whole_columns);
    parts.push_back({&part, runs_of(part, whole_columns)});
    for (const Run& run : parts.back().runs) out.count += run.count;
  }
  const auto column = [&](const char* name, DType dtype, const Shape& shape, auto member) {
    return gather(parts, out.count, dtype, shape, name,
                  [member](const Grid& grid) -> const Array& { return grid.*member; });
  };
  out.inputs = encoder.encode(gather_observations(parts, env, out.count));
  const int64_t decisions = env.action.decisions();
  out.actions = column("actions", env.action.dtype(), {decisions}, &Grid::actions);
  out.log_probs = column("log_probs", DType::f32, {decisions}, &Grid::log_probs);
  out.executed = stage_executed(parts, env, out.count);
  if (env.action.masked)
    out.action_mask = column("action_mask", DType::u8, {env.action.mask_size()}, &Grid::action_mask);
  out.values = column("values", DType::f32, {}, &Grid::values);
  if (extras.advantages) out.advantages = column("advantages", DType::f32, {}, &Grid::advantages);
  if (extras.policy_parameters)
    out.policy_parameters =
        column("policy_parameters", DType::f32, {env.action.policy_parameters()}, &Grid::policy_parameters);
  if (extras.returns) out.returns = column("returns", DType::f32, {}, &Grid::returns);
  if (whole_columns) stage_rollouts(parts, env, encoder, out);
  for (int64_t sample = 0; sample < out.count; ++sample)
    if (!whole_columns || out.valid.view<uint8_t>()[sample]) out.trained.push_back(sample);
  return out;
}

}  // namespace troupe
