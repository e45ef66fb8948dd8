#pragma once
// Rollout: what a worker pushes to replay: a head that replay, credits and the ledger use, and a body of one kind,
// which only the code of that kind reads. Plain data; immutable once pushed. Replay hands out samples in units
// (models/experience/rollout_units.h).

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "models/experience/answers.h"
#include "models/experience/grid.h"
#include "runtime/base/array.h"
#include "runtime/base/version.h"

namespace troupe {

inline constexpr size_t kMostReturnParts = 256, kLongestReturnPart = 64;  // bytes of a name

// A part of the returns of some episodes, such as the reward for the form of an answer; or the task of some of them
// (episode_tasks.h).
struct ReturnPart {
  std::string name;
  Array values;  // [E] float32; NaN of an episode that does not have it
};

// Episodes that ended, in the order of their last steps.
struct Episodes {
  Array returns;                  // [E] float32, unscaled
  Array lengths;                  // [E] int32 environment steps
  Array success;                  // [E] uint8
  std::vector<ReturnPart> parts;  // that a verifier names

  int64_t count() const { return returns.size(); }
};

// The kinds of experience; what replay and the ports need to know of each: actors/experience/kinds.h.
enum class Experience : uint8_t { steps, answers };

// What a rollout holds, in the order of Experience.
using RolloutBody = std::variant<Grid, Answers>;
inline constexpr size_t kExperiences = std::variant_size_v<RolloutBody>;

// The entry of a table that has one for each kind, in the order of Experience.
template <class Entry, size_t n>
constexpr const Entry& entry_of(const Entry (&table)[n], Experience kind) {
  static_assert(n == kExperiences);
  return table[static_cast<size_t>(kind)];
}

struct Rollout {
  uint64_t worker = 0;    // number given when it joined
  uint32_t group = 0;     // which of the worker's vector environments
  uint64_t sequence = 0;  // per worker, from 0, without gaps
  uint32_t epoch = 0;     // epoch of its policy versions
  uint64_t oldest = 0;    // smallest and largest policy version number among its samples, or of answers without scores
  uint64_t newest = 0;
  uint64_t samples = 0;          // valid steps, or answers
  uint64_t unscored = 0;         // answers that have no score and are not in the body
  uint64_t verifier_failed = 0;  // the same, because the verifier failed on them
  uint64_t baselines = 0;        // answers that are not in the body, but whose score is: as the baseline of the others
  uint64_t env_steps = 0;  // environment steps executed for them (more than `samples` with action chunks); all answers

  Episodes episodes;  // those whose last step is a valid step of this rollout; answers
  RolloutBody body;

  Experience kind() const { return static_cast<Experience>(body.index()); }
  // The body. Throws std::bad_variant_access if it is of the other kind.
  const Grid& grid() const { return std::get<Grid>(body); }
  Grid& grid() { return std::get<Grid>(body); }
  const Answers& answers() const { return std::get<Answers>(body); }
  Answers& answers() { return std::get<Answers>(body); }
};

using RolloutPtr = std::shared_ptr<const Rollout>;

// The contents so far of a rollout that is not pushed yet.
struct PartialRollout {
  uint32_t group = 0;
  uint64_t samples = 0;
  uint64_t env_steps = 0;
  Episodes episodes;
};

// The unit that replay hands out.
enum class UnitKind : uint8_t {
  column = 0,  // index n: the valid steps of column n
  sample = 1,  // index t * N + n: one valid step
  group = 2,   // index g: all answers to prompt g
};

// Some units of one rollout.
struct RolloutUnits {
  RolloutPtr rollout;
  std::vector<int32_t> indices;  // ascending
  UnitKind kind = UnitKind::column;
};

// The samples that one update trains on.
struct SuperBatch {
  uint64_t index = 0;      // the update that uses it: the policy version's number when it starts
  uint64_t samples = 0;    // valid steps of all units
  uint64_t env_steps = 0;  // of the whole run when this batch was handed out
  // Tokens of answers by versions with a smaller number are masked: the update does not train on them.
  uint64_t least_version = 0;
  std::vector<RolloutUnits> parts;
};

}  // namespace troupe
