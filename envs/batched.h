#pragma once
// Batched<Row>: turns N copies of a single-row environment (envs/row.h) into one Env, without a virtual call
// or an allocation per row and step. It implements what every environment needs: action chunks, time limits,
// restarts that keep the real final observation, checks of actions and numbers, failures of single rows,
// random streams, save and load.

#include <algorithm>
#include <cmath>
#include <concepts>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

#include "envs/row.h"
#include "envs/row_bytes.h"

namespace troupe {

struct NoOptions {};

namespace detail {

template <class Row>
struct OptionsOf {
  using type = NoOptions;
};
template <class Row>
  requires requires { typename Row::Options; }
struct OptionsOf<Row> {
  using type = typename Row::Options;
};

template <class Row>
concept OneChoice = requires(Row row, int32_t action, Rng& rng) {
  { row.step(action, rng) } -> std::same_as<RowStep>;
};
template <class Row>
concept ManyChoices = requires(Row row, std::span<const int32_t> action, Rng& rng) {
  { row.step(action, rng) } -> std::same_as<RowStep>;
};
template <class Row>
concept Continuous = requires(Row row, std::span<const float> action, Rng& rng) {
  { row.step(action, rng) } -> std::same_as<RowStep>;
};
template <class Row>
concept OwnBytes = requires(Row row, const Row& same, std::string& out, std::string_view in) {
  same.save(out);
  row.load(in);
};
template <class Row>
concept PlainState =
    !OwnBytes<Row> && requires(Row row) { row.state; } && std::is_trivially_copyable_v<decltype(Row::state)>;

}  // namespace detail

template <class Row>
class Batched final : public Env {
 public:
  using Options = typename detail::OptionsOf<Row>::type;
  // The element type of the row's actions: int32 or float32.
  using Number = std::conditional_t<detail::Continuous<Row>, float, int32_t>;

  // N rows. save() writes `identity`, which distinguishes its bytes from those of other environments and parameters.
  // Throws ConfigError when the spec is invalid or does not fit the row class.
  Batched(EnvSpec spec, int64_t rows, Options options = {}, std::string identity = {});
  // Not copyable, because rows hold pointers into the object.
  Batched(const Batched&) = delete;
  Batched& operator=(const Batched&) = delete;

  const EnvSpec& spec() const override { return spec_; }
  int64_t rows() const override { return static_cast<int64_t>(slots_.size()); }
  void reset(uint64_t seed, uint64_t first_row, EnvStep& out) override;
  bool play_singly(uint64_t seed) override;
  void begin_episode(int64_t row, uint64_t episode) override;
  void step(const Array& actions, EnvStep& out) override;
  void observe(EnvStep& out) override;
  void set_active(int64_t row, bool active) override;
  std::string render(int64_t row) const override;
  bool save(std::string& bytes) const override;
  bool load(const std::string& bytes) override;

  // The row objects, for tests and tools; call reset() first.
  Row& row(int64_t i) { return slots_[checked(i)].row; }

 private:
  enum class Phase : uint8_t {
    stopped = 0,  // the next step() starts an episode
    running = 1,
    inactive = 2,
    restarted = 3,  // running, in an episode that began after a failure and in which no step was made
    waiting = 4,    // inactive, in such an episode
    begun = 5,      // active again, in such an episode: the next step() shows its observation
  };
  struct Slot {
    Row row;
    Rng rng;
    int32_t elapsed = 0;  // environment steps in this episode
    Phase phase = Phase::stopped;
  };
  // After play_singly().
  struct Singly {
    uint64_t seed;
    std::vector<uint64_t> episodes;  // [N] number of the one that each row plays or begins
  };
  struct Outcome {
    float reward = 0.0f;
    int32_t executed = 0;
    bool terminated = false, truncated = false, success = false;
  };

  // The spec, checked also against the row class. Throws ConfigError.
  static EnvSpec checked_spec(EnvSpec spec);
  static Row make_row(const Options& options) {
    if constexpr (std::is_same_v<Options, NoOptions>)
      return Row();
    else
      return Row(options);
  }
  size_t checked(int64_t i) const {
    TROUPE_CHECK(i >= 0 && i < rows(), spec_.id, "row", i, "of", rows());
    return static_cast<size_t>(i);
  }
  void require_allowed(const Row& row, const Number* action);
  void take_step(Slot& slot, const Number* action, Outcome& outcome);
  Outcome run_chunk(Slot& slot, const Number* actions);
  void write_row(int64_t i);
  void write_final(int64_t i);
  void start(int64_t i);
  // Flattened, because with the row's code inlined the processor can work on several rows at once.
  [[gnu::flatten]] void step_row(int64_t i, const Number* actions, EnvStep& out);
  void start_next(int64_t i, EnvStep& out);
  void revive(int64_t i, EnvStep& out);
  [[gnu::noinline, gnu::cold]] void fail(int64_t i, const std::string& text, EnvStep& out);
  // Runs `body`; if it throws, row i is marked as failed.
  template <class Body>
  void guarded(int64_t i, EnvStep& out, Body body);

  EnvSpec spec_;
  Options options_;
  std::string identity_;
  StepBuffers buffers_;
  std::vector<Slot> slots_;
  std::optional<Singly> singly_;
  std::vector<Number> clipped_;   // [A]
  std::vector<uint8_t> allowed_;  // [M]
};

template <class Row>
EnvSpec Batched<Row>::checked_spec(EnvSpec spec) {
  check_spec(spec);
  const ActionSpec& action = spec.action;
  constexpr bool masks = requires(const Row& row, std::span<uint8_t> allowed) { row.mask(allowed); };
  const auto refuse = [&](const char* what) { refuse_spec(spec, what, "EnvSpec::action"); };
  if (detail::Continuous<Row> && action.kind != ActionKind::continuous)
    refuse("step() takes continuous actions, but the kind is discrete");
  if (!detail::Continuous<Row> && action.kind == ActionKind::continuous)
    refuse("step() takes discrete actions, but the kind is continuous");
  if (detail::OneChoice<Row> && action.dims() != 1)
    refuse("step() takes one choice as int32_t, but the spec has several bins; expected std::span<const int32_t>");
  if (masks && !action.masked) refuse("the environment has mask(), but masked is false");
  if (!masks && action.masked) refuse("masked is true, but the environment has no mask()");
  return spec;
}

template <class Row>
Batched<Row>::Batched(EnvSpec spec, int64_t rows, Options options, std::string identity)
    : spec_(checked_spec(std::move(spec))),
      options_(std::move(options)),
      identity_(identity.empty() ? spec_.id : std::move(identity)),
      buffers_(spec_, rows) {
  static_assert(
      detail::OneChoice<Row> || detail::ManyChoices<Row> || detail::Continuous<Row>,
      "a row needs RowStep step(action, Rng&) with int32_t, std::span<const int32_t> or std::span<const float>");
  TROUPE_CHECK(rows >= 1, spec_.id, "rows:", rows);
  clipped_.resize(static_cast<size_t>(spec_.action.dims()));
  allowed_.resize(static_cast<size_t>(buffers_.mask_size));
  slots_.reserve(static_cast<size_t>(rows));
  for (int64_t i = 0; i < rows; ++i) slots_.push_back(Slot{make_row(options_), Rng(), 0, Phase::stopped});
}

// Throws std::runtime_error when a discrete action is out of range or masked out.
template <class Row>
void Batched<Row>::require_allowed(const Row& row, const Number* action) {
  size_t offset = 0;
  if constexpr (requires { row.mask(std::span<uint8_t>(allowed_)); }) row.mask(std::span<uint8_t>(allowed_));
  for (size_t a = 0; a < spec_.action.bins.size(); ++a) {
    const int32_t bins = spec_.action.bins[a];
    const int32_t choice = static_cast<int32_t>(action[a]);
    if (choice < 0 || choice >= bins) [[unlikely]]
      throw_bad_choice(a, choice, bins);
    if (!allowed_.empty() && !allowed_[offset + static_cast<size_t>(choice)]) [[unlikely]]
      throw_masked_choice(a, choice);
    offset += static_cast<size_t>(bins);
  }
}

template <class Row>
void Batched<Row>::take_step(Slot& slot, const Number* action, Outcome& outcome) {
  RowStep step;
  const size_t dims = clipped_.size();
  if constexpr (detail::Continuous<Row>) {
    for (size_t a = 0; a < dims; ++a) {
      if (!std::isfinite(action[a])) [[unlikely]]
        throw_not_finite_action(a, action[a]);
      clipped_[a] = std::clamp(action[a], spec_.action.low[a], spec_.action.high[a]);
    }
    step = slot.row.step(std::span<const float>(clipped_), slot.rng);
  } else {
    require_allowed(slot.row, action);
    if constexpr (detail::OneChoice<Row>)
      step = slot.row.step(action[0], slot.rng);
    else
      step = slot.row.step(std::span<const int32_t>(action, dims), slot.rng);
  }
  if (!std::isfinite(step.reward)) [[unlikely]]
    throw_not_finite_reward(step.reward);
  ++slot.elapsed;
  ++outcome.executed;
  outcome.reward += step.reward;
  outcome.terminated = step.terminated;
  const bool late = spec_.max_episode_steps > 0 && slot.elapsed >= spec_.max_episode_steps;
  outcome.truncated = !step.terminated && (step.truncated || late);
  outcome.success = step.success;
}

template <class Row>
auto Batched<Row>::run_chunk(Slot& slot, const Number* actions) -> Outcome {
  Outcome outcome;
  for (int32_t k = 0; k < spec_.action.chunk && !outcome.terminated && !outcome.truncated; ++k)
    take_step(slot, actions + static_cast<size_t>(k) * clipped_.size(), outcome);
  return outcome;
}

template <class Row>
void Batched<Row>::write_row(int64_t i) {
  const Row& row = slots_[static_cast<size_t>(i)].row;
  row.observe(RowWriter(buffers_.observations, i));
  buffers_.require_finite(spec_, buffers_.observations, i);
  if constexpr (requires(std::span<uint8_t> allowed) { row.mask(allowed); }) {
    row.mask(std::span<uint8_t>(buffers_.mask + i * buffers_.mask_size, static_cast<size_t>(buffers_.mask_size)));
    buffers_.require_choices(spec_, i);
  }
  if constexpr (requires { row.task(); }) buffers_.task[i] = row.task();
}

template <class Row>
void Batched<Row>::write_final(int64_t i) {
  slots_[static_cast<size_t>(i)].row.observe(RowWriter(buffers_.final_observations, i));
  buffers_.require_finite(spec_, buffers_.final_observations, i);
}

template <class Row>
void Batched<Row>::start(int64_t i) {
  Slot& slot = slots_[static_cast<size_t>(i)];
  slot.phase = Phase::stopped;
  slot.elapsed = 0;
  slot.row.reset(slot.rng);
  write_row(i);
  slot.phase = Phase::running;
}

template <class Row>
template <class Body>
void Batched<Row>::guarded(int64_t i, EnvStep& out, Body body) {
  try {
    body();
  } catch (const std::exception& error) {
    fail(i, error.what(), out);
  } catch (...) {
    fail(i, "an exception of unknown type", out);
  }
}

template <class Row>
void Batched<Row>::fail(int64_t i, const std::string& text, EnvStep& out) {
  Slot& slot = slots_[static_cast<size_t>(i)];
  buffers_.clear(i);
  buffers_.failed[i] = static_cast<uint8_t>(Failed::now);
  out.errors.push_back(row_error(i, text));
  const bool was_running = slot.phase == Phase::running || slot.phase == Phase::restarted;
  slot.phase = singly_ ? Phase::inactive : Phase::stopped;
  buffers_.blank(i);
  if (!was_running || singly_) return;  // one that failed to start is tried again at the next step
  try {
    start(i);
    slot.phase = Phase::restarted;
  } catch (...) {  // the next step() tries again, and reports the failure if it persists
    buffers_.blank(i);
  }
}

template <class Row>
void Batched<Row>::step_row(int64_t i, const Number* actions, EnvStep& out) {
  guarded(i, out, [&] {
    const Outcome outcome = run_chunk(slots_[static_cast<size_t>(i)], actions);
    const bool over = outcome.terminated || outcome.truncated;
    if (over) {
      write_final(i);
      buffers_.terminated[i] = outcome.terminated;
      buffers_.truncated[i] = outcome.truncated;
      buffers_.success[i] = outcome.success;
    } else {
      write_row(i);
    }
    buffers_.rewards[i] = outcome.reward;
    buffers_.executed[i] = outcome.executed;
    if (over) start_next(i, out);
  });
}

// Begins the episode after one that has ended. If that fails, the step that ended it stays valid.
template <class Row>
void Batched<Row>::start_next(int64_t i, EnvStep& out) {
  if (singly_) {
    slots_[static_cast<size_t>(i)].phase = Phase::inactive;
    return buffers_.blank(i);
  }
  const auto failed = [&](const std::string& text) {
    out.errors.push_back(row_error(i, text));
    slots_[static_cast<size_t>(i)].phase = Phase::stopped;
    buffers_.blank(i);
  };
  try {
    start(i);
  } catch (const std::exception& error) {
    failed(error.what());
  } catch (...) {
    failed("an exception of unknown type");
  }
}

// A step of a row that is not running: it stays inactive, or begins an episode.
template <class Row>
void Batched<Row>::revive(int64_t i, EnvStep& out) {
  Slot& slot = slots_[static_cast<size_t>(i)];
  buffers_.failed[i] = static_cast<uint8_t>(Failed::idle);
  if (slot.phase == Phase::inactive || slot.phase == Phase::waiting) return buffers_.blank(i);
  guarded(i, out, [&] {
    if (std::exchange(slot.phase, Phase::stopped) != Phase::begun) {
      if constexpr (requires { slot.row.begin(uint64_t{}); })
        if (singly_) slot.row.begin(singly_->episodes[static_cast<size_t>(i)]);
      return start(i);
    }
    write_row(i);
    slot.phase = Phase::running;
  });
}

template <class Row>
void Batched<Row>::reset(uint64_t seed, uint64_t first_row, EnvStep& out) {
  buffers_.bind(spec_, out);
  for (int64_t i = 0; i < rows(); ++i) {
    Slot& slot = slots_[static_cast<size_t>(i)];
    const uint64_t index = first_row + static_cast<uint64_t>(i);
    slot.rng = Rng(derive_key(seed, "env", index));
    slot.phase = Phase::stopped;
    guarded(i, out, [&] {
      if constexpr (requires { slot.row.begin(index); }) slot.row.begin(index);
      start(i);
    });
  }
}

template <class Row>
bool Batched<Row>::play_singly(uint64_t seed) {
  singly_ = Singly{seed, std::vector<uint64_t>(slots_.size())};
  for (Slot& slot : slots_) slot.phase = Phase::inactive;
  return true;
}

template <class Row>
void Batched<Row>::begin_episode(int64_t row, uint64_t episode) {
  const size_t i = checked(row);
  TROUPE_CHECK(singly_, spec_.id);
  singly_->episodes[i] = episode;
  slots_[i].rng = Rng(derive_key(singly_->seed, "env", episode));
  slots_[i].phase = Phase::stopped;
}

template <class Row>
void Batched<Row>::step(const Array& actions, EnvStep& out) {
  TROUPE_CHECK(actions.shape() == spec_.action.shape().prepended(rows()), spec_.id, "actions have shape",
               actions.shape().text(), "expected", spec_.action.shape().prepended(rows()).text());
  const Number* values = actions.view<Number>().data();
  buffers_.bind(spec_, out);
  const int64_t stride = spec_.action.decisions();
  for (int64_t i = 0; i < rows(); ++i) {
    Phase& phase = slots_[static_cast<size_t>(i)].phase;
    if (phase == Phase::restarted) [[unlikely]]
      phase = Phase::running;
    if (phase == Phase::running) [[likely]]
      step_row(i, values + i * stride, out);
    else
      revive(i, out);
  }
}

template <class Row>
void Batched<Row>::observe(EnvStep& out) {
  buffers_.bind(spec_, out);
  for (int64_t i = 0; i < rows(); ++i) {
    const Phase phase = slots_[static_cast<size_t>(i)].phase;
    if (phase == Phase::running || phase == Phase::restarted) {
      guarded(i, out, [&] { write_row(i); });
    } else {
      buffers_.failed[i] = static_cast<uint8_t>(Failed::idle);
      buffers_.blank(i);
    }
  }
}

template <class Row>
void Batched<Row>::set_active(int64_t row, bool active) {
  Slot& slot = slots_[checked(row)];
  const bool unplayed = slot.phase == Phase::restarted || slot.phase == Phase::begun || slot.phase == Phase::waiting;
  if (!active)
    slot.phase = unplayed ? Phase::waiting : Phase::inactive;
  else if (slot.phase == Phase::inactive || slot.phase == Phase::waiting)
    slot.phase = unplayed ? Phase::begun : Phase::stopped;
}

template <class Row>
std::string Batched<Row>::render(int64_t i) const {
  const Slot& slot = slots_[checked(i)];
  if constexpr (requires { slot.row.render(); })
    return slot.row.render();
  else
    return spec_.id + ", step " + std::to_string(slot.elapsed) + "\n";
}

template <class Row>
bool Batched<Row>::save(std::string& bytes) const {
  if constexpr (!detail::PlainState<Row> && !detail::OwnBytes<Row>) return false;
  bytes.clear();
  write_header(bytes, identity_, rows());
  for (const Slot& slot : slots_) {
    write_slot(bytes, {slot.rng.key(), slot.rng.position(), slot.elapsed, static_cast<int32_t>(slot.phase)});
    std::string state;
    if constexpr (detail::PlainState<Row>)
      state.assign(reinterpret_cast<const char*>(&slot.row.state), sizeof(slot.row.state));
    else if constexpr (detail::OwnBytes<Row>)
      slot.row.save(state);
    write_text(bytes, state);
  }
  return true;
}

template <class Row>
bool Batched<Row>::load(const std::string& bytes) {
  if constexpr (!detail::PlainState<Row> && !detail::OwnBytes<Row>) return false;
  std::vector<SavedSlot> saved = read_slots(bytes, identity_, rows());  // reads everything before anything changes
  if constexpr (detail::PlainState<Row>)
    for (const SavedSlot& slot : saved) require_state_size(slot, sizeof(Row::state));
  for (size_t i = 0; i < slots_.size(); ++i) {
    Slot& slot = slots_[i];
    slot.rng = Rng::at(saved[i].numbers.key, saved[i].numbers.position);
    slot.elapsed = saved[i].numbers.elapsed;
    slot.phase = static_cast<Phase>(saved[i].numbers.phase);
    if constexpr (detail::PlainState<Row>)
      std::copy_n(saved[i].state.data(), sizeof(slot.row.state), reinterpret_cast<char*>(&slot.row.state));
    else if constexpr (detail::OwnBytes<Row>)
      slot.row.load(saved[i].state);
  }
  return true;
}

}  // namespace troupe
