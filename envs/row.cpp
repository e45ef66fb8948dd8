#include "envs/row.h"
#include "envs/observation_called.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <sstream>
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
    throw InvariantError("observation " + std::to_string(index) + " is written, but the spec has only " +
                         std::to_string(count_));
  throw InvariantError("observation " + std::to_string(index) + " is written as " + std::string(name_of(wanted)) +
                       ", but the spec says " + std::string(name_of(fields_[index].dtype)));
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
  throw std::runtime_error(observation_called(spec.observations[index].name) + " is not finite");
}

void StepBuffers::throw_no_choice(const EnvSpec& spec, size_t choice) {
  const std::string which = spec.action.dims() == 1 ? "" : " for choice " + std::to_string(choice);
  throw std::runtime_error("the action mask allows no action" + which);
}

namespace {

void check_observations(const EnvSpec& spec) {
  const auto refuse = [&](const std::string& what) { refuse_spec(spec, what, "EnvSpec::observations"); };
  if (spec.observations.empty()) refuse("there is no observation, expected at least one");
  std::set<std::string> names;
  for (const ArraySpec& array : spec.observations) {
    if (array.name.empty()) refuse("an observation has an empty name");
    if (!names.insert(array.name).second) refuse("two observations are named \"" + array.name + "\"");
    int64_t elements = 0;
    try {
      elements = array.shape.elements();
    } catch (const InvariantError&) {  // a negative extent, or a product that overflows
    }
    if (elements < 1)
      refuse("observation \"" + array.name + "\" has the shape " + array.shape.text() +
             ", expected extents of at least 1 whose product fits in 63 bits");
  }
}

std::string number_text(float value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

void check_bounds(const EnvSpec& spec) {
  const ActionSpec& action = spec.action;
  const auto refuse = [&](const std::string& what) { refuse_spec(spec, what, "EnvSpec::action"); };
  if (!action.bins.empty()) refuse("continuous actions have bins, expected only low and high");
  if (action.low.empty() && action.high.empty())
    refuse("continuous actions have no bounds, expected low and high for each dimension");
  if (action.low.size() != action.high.size())
    refuse("continuous actions have " + std::to_string(action.low.size()) + " low and " +
           std::to_string(action.high.size()) + " high bounds, expected as many of each");
  for (size_t a = 0; a < action.low.size(); ++a) {
    const std::string low = number_text(action.low[a]), high = number_text(action.high[a]);
    if (!std::isfinite(action.low[a]) || !std::isfinite(action.high[a]))
      refuse("the action bounds low " + low + " and high " + high + " are not both finite");
    if (action.low[a] >= action.high[a]) refuse("action bound low " + low + " is not below high " + high);
  }
  if (action.masked) refuse("continuous actions cannot be masked");
}

void check_bins(const EnvSpec& spec) {
  const ActionSpec& action = spec.action;
  const auto refuse = [&](const std::string& what) { refuse_spec(spec, what, "EnvSpec::action"); };
  if (!action.low.empty() || !action.high.empty()) refuse("discrete actions have bounds, expected only bins");
  if (action.bins.empty()) refuse("discrete actions have no bins, expected the number of categories per dimension");
  if (action.kind == ActionKind::discrete && action.bins.size() != 1)
    refuse("actions of kind discrete have " + std::to_string(action.bins.size()) +
           " bins, expected one, or the kind multi_discrete");
  for (const int32_t bins : action.bins)
    if (bins < 1) refuse("bins contains " + std::to_string(bins) + ", expected at least 1");
  if (action.masked && action.chunk != 1)
    refuse("masked actions have a chunk of " + std::to_string(action.chunk) +
           ", expected 1, because the action mask is only known for one step");
}

}  // namespace

void refuse_spec(const EnvSpec& spec, const std::string& what, const std::string& where) {
  throw ConfigError(spec.id + ": " + what + " (" + where + ")");
}

void check_spec(const EnvSpec& spec) {
  check_observations(spec);
  if (spec.action.chunk < 1)
    refuse_spec(spec, "the chunk is " + std::to_string(spec.action.chunk) + ", expected at least 1", "EnvSpec::action");
  if (spec.max_episode_steps < 0)
    refuse_spec(spec, std::to_string(spec.max_episode_steps) + " is negative, expected 0 (no limit) or more",
                "EnvSpec::max_episode_steps");
  spec.action.kind == ActionKind::continuous ? check_bounds(spec) : check_bins(spec);
}

std::string row_error(int64_t row, const std::string& text) {
  constexpr size_t kMaxLength = 300;
  std::string line = "row " + std::to_string(row) + ": " + (text.empty() ? "failed without an error message" : text);
  if (line.size() > kMaxLength) line.replace(kMaxLength - 3, std::string::npos, "...");
  std::replace_if(line.begin(), line.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return line;
}

}  // namespace troupe
