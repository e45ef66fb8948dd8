#pragma once
// The building blocks of a single-row environment: the result of a step, and the destination of an observation.
// Batched<Row> (envs/batched.h) turns a row class into an Env. A row class has
//
//   static EnvSpec spec();                          // or spec(const Options&) and a constructor from const Options&
//   void reset(Rng& rng);                           // starts a new episode, from any state
//   RowStep step(Action action, Rng& rng);          // one environment step
//   void observe(RowWriter out) const;              // writes every element of every observation
//
// where Action is int32_t (one discrete choice), std::span<const int32_t> (several) or std::span<const float>
// (continuous, already clipped to the bounds). It may also have
//
//   State state;                                    // trivially copyable, without padding: makes the row saveable; or
//   void save(std::string& bytes) const; void load(std::string_view bytes);  // the same; preferred if a row has both
//   void mask(std::span<uint8_t> allowed) const;    // [M], if spec().action.masked
//   int32_t task() const;                           // if spec().tasks has names
//   void begin(uint64_t row);                       // before reset(), at Env::reset and Env::begin_episode, with the
//                                                   // number there: drop what outlives an episode
//   std::string render() const;
//   struct Options { static Options read(EnvParams&); };  // its parameters, see envs/params.h; must outlive the rows
//
// Any of these may throw: Batched<> then marks the row as failed and resets it; the other rows continue.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "envs/env.h"
#include "runtime/base/rng.h"

namespace troupe {

struct RowStep {
  float reward = 0.0f;
  bool terminated = false;  // the state is terminal
  bool success = false;     // only read when the episode ends with this step
  bool truncated = false;   // the row itself cuts the episode off; for time limits use spec().max_episode_steps
};

// The location of one observation array of all rows.
struct ObservationField {
  std::byte* data = nullptr;
  size_t elements = 0;  // of one row
  DType dtype = DType::f32;

  std::byte* row(int64_t i) const { return data + static_cast<size_t>(i) * elements * size_of(dtype); }
};

// The buffer for the observation of one row. Small; pass it by value.
class RowWriter {
 public:
  RowWriter(std::span<const ObservationField> fields, int64_t row)
      : fields_(fields.data()), count_(static_cast<uint32_t>(fields.size())), row_(static_cast<uint32_t>(row)) {}

  // The elements of observation number `index` of the spec. Throws InvariantError when the spec has no such observation
  // or its dtype is not T.
  template <class T>
  std::span<T> array(size_t index = 0) const {
    if (index >= count_ || fields_[index].dtype != dtype_of<T>()) [[unlikely]]
      refuse(index, dtype_of<T>());
    const ObservationField& field = fields_[index];
    return {reinterpret_cast<T*>(field.data) + row_ * field.elements, field.elements};
  }

  // The buffers of all observations, in the order of the spec, for code that knows their dtypes and sizes.
  void addresses(std::vector<void*>& out) const {
    out.clear();
    for (size_t k = 0; k < count_; ++k) out.push_back(fields_[k].row(row_));
  }

 private:
  [[noreturn]] void refuse(size_t index, DType wanted) const;

  const ObservationField* fields_;
  uint32_t count_, row_;
};

namespace detail {

template <class T>
bool all_finite(const std::byte* data, size_t count) {
  const T* values = reinterpret_cast<const T*>(data);
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, BFloat16>) {
    return std::all_of(values, values + count, [](T x) { return is_finite(x); });
  } else {
    T sum = 0;  // 0 * x is 0 for finite x and NaN otherwise
    for (size_t i = 0; i < count; ++i) sum += T{0} * values[i];
    return sum == 0;
  }
}

// Whether one row of an observation contains neither NaN nor infinity.
inline bool all_finite(const ObservationField& field, int64_t i) {
  const std::byte* row = field.row(i);
  switch (field.dtype) {
    case DType::u8:
    case DType::i32:
    case DType::i64: return true;
    case DType::f32: return all_finite<float>(row, field.elements);
    case DType::f64: return all_finite<double>(row, field.elements);
    case DType::f16: return all_finite<Float16>(row, field.elements);
    case DType::bf16: return all_finite<BFloat16>(row, field.elements);
  }
  return true;
}

[[noreturn]] void throw_not_finite_observation(const EnvSpec& spec, size_t index);

}  // namespace detail

// The buffers of an EnvStep as plain pointers, checked against a spec. Used by Batched<>.
class StepBuffers {
 public:
  StepBuffers(const EnvSpec& spec, int64_t rows);

  // Points at the buffers of `out` and zeros all of them except observations, mask and task. Throws InvariantError that
  // names the first buffer that does not fit.
  void bind(const EnvSpec& spec, EnvStep& out);
  // Zeros the results of row i, except observations, mask and task.
  void clear(int64_t i) {
    rewards[i] = 0.0f;
    terminated[i] = truncated[i] = success[i] = failed[i] = 0;
    executed[i] = 0;
  }
  // The values of a row that cannot run: observations 0, all actions allowed, task 0.
  void blank(int64_t i);
  // Throws std::runtime_error with the name of the observation when row i of `fields` contains NaN or infinity.
  static void require_finite(const EnvSpec& spec, std::span<const ObservationField> fields, int64_t i);
  // Throws std::runtime_error with the number of the choice when the mask of row i allows no action for it.
  void require_choices(const EnvSpec& spec, int64_t i) const {
    const uint8_t* allowed = mask + i * mask_size;
    for (size_t a = 0; a < spec.action.bins.size(); allowed += spec.action.bins[a++])
      if (std::none_of(allowed, allowed + spec.action.bins[a], [](uint8_t entry) { return entry != 0; })) [[unlikely]]
        throw_no_choice(spec, a);
  }

  std::vector<ObservationField> observations, final_observations;
  uint8_t* mask = nullptr;
  int64_t mask_size = 0;
  float* rewards = nullptr;
  uint8_t *terminated = nullptr, *truncated = nullptr, *success = nullptr, *failed = nullptr;
  int32_t *executed = nullptr, *task = nullptr;

 private:
  [[noreturn]] static void throw_no_choice(const EnvSpec& spec, size_t choice);

  int64_t rows_;
};

inline void StepBuffers::require_finite(const EnvSpec& spec, std::span<const ObservationField> fields, int64_t i) {
  for (const ObservationField& field : fields) {
    if (!detail::all_finite(field, i)) [[unlikely]]
      detail::throw_not_finite_observation(spec, static_cast<size_t>(&field - fields.data()));
  }
}

// Throws ConfigError with the environment's id and the first mistake in its spec, which is an error of its author.
void check_spec(const EnvSpec& spec);
// Throws that error: "Broken: there is no observation, expected at least one (EnvSpec::observations)".
[[noreturn]] void refuse_spec(const EnvSpec& spec, const std::string& what, const std::string& where);

// An error of a row as one line of limited length: "row 3: text".
std::string row_error(int64_t row, const std::string& text);

}  // namespace troupe
