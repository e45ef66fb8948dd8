#include "envs/observation_ranges.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "envs/forwarding_env.h"
#include "envs/observation_called.h"
#include "envs/row.h"
#include "runtime/base/errors.h"

namespace troupe {

namespace {

constexpr auto kFailed = static_cast<uint8_t>(Failed::now);

template <class T>
std::optional<int64_t> first_outside(const Array& array, int64_t row, int64_t values) {
  const auto size = static_cast<size_t>(array.row_size());
  const std::span<const T> elements = array.view<T>().subspan(static_cast<size_t>(row) * size, size);
  const auto found = std::ranges::find_if(elements, [&](T x) {
    const auto number = static_cast<int64_t>(x);
    return number < 0 || number >= values;
  });
  if (found == elements.end()) return std::nullopt;
  return static_cast<int64_t>(*found);
}

std::optional<int64_t> first_outside(const ObservationRange& range, const Array& array, int64_t row) {
  switch (array.dtype()) {
    case DType::u8: return first_outside<uint8_t>(array, row, range.values);
    case DType::i32: return first_outside<int32_t>(array, row, range.values);
    case DType::i64: return first_outside<int64_t>(array, row, range.values);
    default: return std::nullopt;
  }
}

void set_row(Array& array, int64_t row, int value) {
  if (array.empty()) return;
  const size_t bytes = array.row_bytes();
  std::memset(array.mutable_data() + static_cast<size_t>(row) * bytes, value, bytes);
}

class RangedEnv final : public ForwardingEnv {
 public:
  RangedEnv(std::unique_ptr<Env> env, std::vector<ObservationRange> ranges)
      : ForwardingEnv(std::move(env)), ranges_(std::move(ranges)), active_(static_cast<size_t>(rows()), true) {
    for (const ObservationRange& range : ranges_)
      TROUPE_CHECK(range.observation < inner().spec().observations.size() && range.values > 0, range.observation,
                   range.values);
  }

  void reset(uint64_t seed, uint64_t first_row, EnvStep& out) override {
    active_.assign(active_.size(), true);
    inner().reset(seed, first_row, out);
    check(out);
  }
  bool reset_as(uint64_t seed, std::span<const uint64_t> numbers, EnvStep& out) override {
    if (!inner().reset_as(seed, numbers, out)) return false;
    active_.assign(active_.size(), true);
    check(out);
    return true;
  }
  bool play_singly(uint64_t seed) override {
    singly_ = inner().play_singly(seed);
    if (singly_) active_.assign(active_.size(), false);
    return singly_;
  }
  void begin_episode(int64_t row, uint64_t episode) override {
    inner().begin_episode(row, episode);
    active_.at(static_cast<size_t>(row)) = true;
  }
  void step(const Array& actions, EnvStep& out) override {
    inner().step(actions, out);
    check(out);
  }
  void observe(EnvStep& out) override {
    inner().observe(out);
    check(out);
  }
  void set_active(int64_t row, bool active) override {
    inner().set_active(row, active);
    active_.at(static_cast<size_t>(row)) = active;
  }

 private:
  // The mistake in a row of these observations, or nothing.
  std::optional<std::string> mistake(const Arrays& observations, int64_t row) const {
    for (const ObservationRange& range : ranges_)
      if (const auto outside = first_outside(range, observations[range.observation].second, row))
        return observation_called(spec().observations[range.observation].name) + " contains " +
               std::to_string(*outside) + ", expected 0 to " + std::to_string(range.values - 1) + " (" + range.reason +
               ')';
    return std::nullopt;
  }

  // Also checks final observations if an episode ended. A mistake in the first observation of the next episode leaves
  // the step that ended the last one valid.
  void check(EnvStep& out) {
    const std::span<uint8_t> failed = out.failed.mutable_view<uint8_t>();
    for (int64_t row = 0; row < rows(); ++row) {
      const auto n = static_cast<size_t>(row);
      const bool over = out.terminated.view<uint8_t>()[n] != 0 || out.truncated.view<uint8_t>()[n] != 0;
      const auto last = over ? mistake(out.final_observations, row) : std::nullopt;
      const auto next = mistake(out.observations, row);
      if (!last && !next) continue;
      blank(row, out);
      if (!over || last) void_step(row, out);
      if (failed[n] == kFailed || !active_[n]) continue;
      if (!over || last) failed[n] = kFailed;
      if (singly_) active_[n] = false;
      add_error(row, last ? *last : *next, out);
    }
  }

  // Keeps the order of the rows. A row that could not begin its next episode has a line already.
  static void add_error(int64_t row, const std::string& text, EnvStep& out) {
    const auto row_of = [](const std::string& line) { return std::strtoll(line.c_str() + 4, nullptr, 10); };
    const auto place = std::ranges::find_if(out.errors, [&](const std::string& line) { return row_of(line) >= row; });
    if (place == out.errors.end() || row_of(*place) != row) out.errors.insert(place, row_error(row, text));
  }

  void void_step(int64_t row, EnvStep& out) {
    for (Array* array : {&out.rewards, &out.terminated, &out.truncated, &out.success, &out.executed})
      set_row(*array, row, 0);
  }

  void blank(int64_t row, EnvStep& out) {
    set_row(out.task, row, 0);
    for (auto& [name, array] : out.observations) set_row(array, row, 0);
    set_row(out.action_mask, row, 1);
    inner().set_active(row, false);
    if (!singly_)  // toggling makes it begin a new episode at one of the next steps
      inner().set_active(row, active_[static_cast<size_t>(row)]);
  }

  std::vector<ObservationRange> ranges_;
  std::vector<bool> active_;
  bool singly_ = false;  // see Env::play_singly
};

}  // namespace

std::unique_ptr<Env> with_ranges(std::unique_ptr<Env> env, std::vector<ObservationRange> ranges) {
  if (ranges.empty()) return env;
  return std::make_unique<RangedEnv>(std::move(env), std::move(ranges));
}

}  // namespace troupe
