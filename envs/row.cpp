#include "envs/row.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <stdexcept>

namespace troupe {

namespace {

void bind_fields(const EnvSpec& spec, int64_t rows, Arrays& arrays, std::vector<ObservationField>& fields) {
  TROUPE_CHECK(arrays.size() == spec.observations.size(), spec.id, arrays.size(), spec.observations.size());
  for (size_t k = 0; k < fields.size(); ++k) {
    Array& array = arrays[k].second;
    const ArraySpec& wanted = spec.observations[k];
    TROUPE_CHECK(arrays[k].first == wanted.name && array.dtype() == wanted.dtype, spec.id, arrays[k].first,
                 wanted.name);
    TROUPE_CHECK(
        array.rank() >= 1 && array.dim(0) == rows && static_cast<size_t>(array.row_size()) == fields[k].elements,
        spec.id, wanted.name, array.shape().text(), "rows:", rows);
    fields[k].data = array.mutable_data();
  }
}

template <class T>
T* bind_column(const char* name, Array& array, int64_t rows) {
  TROUPE_CHECK(array.size() == rows, name, array.shape().text(), "rows:", rows);
  const std::span<T> column = array.mutable_view<T>();
  std::fill(column.begin(), column.end(), T{0});
  return column.data();
}

}  // namespace

void RowWriter::refuse(size_t index, DType wanted) const {
  if (index >= count_)
    throw InvariantError("observation " + std::to_string(index) + " is written but the spec has " +
                         std::to_string(count_));
  throw InvariantError("observation " + std::to_string(index) + " is written as " + std::string(name_of(wanted)) +
                       " but the spec says " + std::string(name_of(fields_[index].dtype)));
}

StepBuffers::StepBuffers(const EnvSpec& spec, int64_t rows)
    : mask_size(spec.action.masked ? spec.action.mask_size() : 0), rows_(rows) {
  for (const ArraySpec& array : spec.observations)
    observations.push_back({nullptr, static_cast<size_t>(array.shape.elements()), array.dtype});
  final_observations = observations;
}

void StepBuffers::bind(const EnvSpec& spec, EnvStep& out) {
  bind_fields(spec, rows_, out.observations, observations);
  bind_fields(spec, rows_, out.final_observations, final_observations);
  if (mask_size > 0) mask = bind_column<uint8_t>("action_mask", out.action_mask, rows_ * mask_size);
  rewards = bind_column<float>("rewards", out.rewards, rows_);
  terminated = bind_column<uint8_t>("terminated", out.terminated, rows_);
  truncated = bind_column<uint8_t>("truncated", out.truncated, rows_);
  success = bind_column<uint8_t>("success", out.success, rows_);
  executed = bind_column<int32_t>("executed", out.executed, rows_);
  failed = bind_column<uint8_t>("failed", out.failed, rows_);
  task = bind_column<int32_t>("task", out.task, rows_);
  out.errors.clear();
}

void StepBuffers::blank(int64_t i) {
  for (const ObservationField& field : observations)
    std::memset(field.row(i), 0, field.elements * size_of(field.dtype));
  if (mask_size > 0) std::memset(mask + i * mask_size, 1, static_cast<size_t>(mask_size));
  task[i] = 0;
}

void detail::throw_not_finite_observation(const EnvSpec& spec, size_t index) {
  throw std::runtime_error("observation " + spec.observations[index].name + " is not finite");
}

void StepBuffers::throw_no_choice(const EnvSpec& spec, size_t choice) {
  const std::string which = spec.action.dims() == 1 ? "" : " for choice " + std::to_string(choice);
  throw std::runtime_error("the action mask allows no action" + which);
}

void check_spec(const EnvSpec& spec) {
  TROUPE_CHECK(!spec.observations.empty(), spec.id, "has no observation");
  std::set<std::string> names;
  for (const ArraySpec& array : spec.observations) {
    TROUPE_CHECK(!array.name.empty() && names.insert(array.name).second, spec.id, "observation name:", array.name);
    TROUPE_CHECK(array.shape.elements() > 0, spec.id, array.name, array.shape.text());
  }
  const ActionSpec& action = spec.action;
  TROUPE_CHECK(action.chunk >= 1 && action.dims() >= 1, spec.id, "chunk:", action.chunk, "dims:", action.dims());
  TROUPE_CHECK(spec.max_episode_steps >= 0, spec.id, spec.max_episode_steps);
  if (action.kind == ActionKind::continuous) {
    TROUPE_CHECK(action.low.size() == action.high.size() && action.bins.empty(), spec.id);
    for (size_t a = 0; a < action.low.size(); ++a)
      TROUPE_CHECK(std::isfinite(action.low[a]) && std::isfinite(action.high[a]) && action.low[a] < action.high[a],
                   spec.id, "bounds:", action.low[a], action.high[a]);
    TROUPE_CHECK(!action.masked, spec.id, "continuous actions cannot be masked");
  } else {
    TROUPE_CHECK(action.low.empty() && action.high.empty(), spec.id, "bounds are for continuous actions");
    TROUPE_CHECK(action.kind == ActionKind::multi_discrete || action.dims() == 1, spec.id, "dims:", action.dims());
    for (int32_t bins : action.bins) TROUPE_CHECK(bins >= 1, spec.id, "bins:", bins);
    TROUPE_CHECK(!action.masked || action.chunk == 1, spec.id, "a mask is known for the first step of a chunk only");
  }
}

std::string row_error(int64_t row, const std::string& text) {
  constexpr size_t kMaxLength = 300;
  std::string line = "row " + std::to_string(row) + ": " + (text.empty() ? "failed without a message" : text);
  if (line.size() > kMaxLength) line.replace(kMaxLength - 3, std::string::npos, "...");
  std::replace_if(line.begin(), line.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return line;
}

}  // namespace troupe
