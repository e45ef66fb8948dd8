#pragma once
// The environment interface: N independent sub-environments ("rows") stepped together. An object is used by one thread
// at a time. Write a new environment as a plain single-row class and wrap it with Batched<> (envs/batched.h); see
// docs/environments.md. Letters: N rows, K steps of an action chunk, A action dimensions, M mask entries.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/array.h"

namespace troupe {

struct ArraySpec {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;  // of one row
  // Of categories that an environment in Python has as numbers and that are observed one-hot, one after the other: for
  // each number its smallest value and how many values it has. `number_shape` is the shape of the numbers. For users of
  // a policy, who have the numbers; nothing else depends on it.
  std::vector<std::pair<int64_t, int64_t>> categories;
  Shape number_shape;
};

enum class ActionKind : uint8_t { discrete = 0, multi_discrete = 1, continuous = 2 };

struct ActionSpec {
  ActionKind kind = ActionKind::discrete;
  std::vector<int32_t> bins;  // [A] number of categories per dimension; empty when continuous
  std::vector<float> low;     // [A] bounds; empty unless continuous
  std::vector<float> high;    // [A]
  int32_t chunk = 1;          // K: environment steps executed per action
  bool masked = false;        // discrete kinds with chunk 1 only: every observation has an action mask

  int64_t dims() const { return static_cast<int64_t>(kind == ActionKind::continuous ? low.size() : bins.size()); }
  // K * A: the number of log-probabilities per row.
  int64_t decisions() const { return dims() * chunk; }
  // M: the sum of `bins`, the number of action mask entries per row (1 = allowed), dimension by dimension.
  int64_t mask_size() const;
  // P: the number of values that describe a policy's distributions over one row's actions: logits, or means followed by
  // log standard deviations.
  int64_t policy_parameters() const { return kind == ActionKind::continuous ? 2 * decisions() : mask_size() * chunk; }
  // float32 when continuous, int32 otherwise.
  DType dtype() const { return kind == ActionKind::continuous ? DType::f32 : DType::i32; }
  // [K, A], the shape of one row's action.
  Shape shape() const { return {chunk, dims()}; }
  friend bool operator==(const ActionSpec&, const ActionSpec&) = default;
};

// How an environment in Python takes the numbers of one step's action. For users of a policy; nothing else depends on
// it.
struct ActionForm {
  std::vector<int64_t> shape;   // of the array; empty for a single number
  std::string dtype;            // its name in numpy
  std::vector<int64_t> starts;  // [A] smallest value of each number; empty when continuous
};

struct EnvSpec {
  std::string id;
  std::vector<ArraySpec> observations;
  ActionSpec action;
  std::optional<ActionForm> action_form;  // environments in Python only
  int32_t max_episode_steps = 0;          // truncated after this many; 0 = never
  std::vector<std::string> tasks;         // names of the tasks of a multi-task environment; empty otherwise
  bool reports_success = false;
  // True if a step may block: it sleeps, or waits for another process or a device. Such an environment gets a dedicated
  // thread, so that others do not wait for it.
  bool blocks = false;
};

// The values of EnvStep::failed.
enum class Failed : uint8_t {
  no = 0,
  now = 1,   // the row threw, returned a non-finite number or got an invalid action; it was restarted if possible
  idle = 2,  // no step was executed: the row is inactive or was just restarted
};

// The results of one step of N rows. The caller owns the buffers (allocate() creates them once). The environment writes
// into them and never replaces them, so the caller may let `observations` point at rows of a larger array.
struct EnvStep {
  Arrays observations;  // each [N, ...]: what to act on next; for a row that finished, the first of its new episode
  Array action_mask;    // [N, M] uint8 for `observations`; empty unless spec.action.masked
  Array rewards;        // [N] float32, summed over the executed steps of the chunk, undiscounted
  Array terminated;     // [N] uint8: the episode ended in a terminal state
  Array truncated;      // [N] uint8: the episode was cut off (time limit); its last state still has a value
  Array success;        // [N] uint8, for rows that finished; 0 if the environment does not report success
  Array executed;       // [N] int32: environment steps executed, 1..K; 0 for a failed row
  Array failed;  // [N] uint8: a value of Failed; not 0 = invalid step, where only observations, action_mask and task
                 // are valid
  Array task;    // [N] int32: the task of the episode that `observations` belongs to
  Arrays final_observations;  // each [N, ...]: the real last observation of rows that finished, else undefined
  // One line per failure, in row order (rows that failed because of others come last): of the rows with Failed::now,
  // and of rows whose last step ended an episode and that could not begin the next one. The step of such a row is
  // valid; it has no observation, and the next step tries again.
  std::vector<std::string> errors;

  static EnvStep allocate(const EnvSpec& spec, int64_t rows);
};

class Env {
 public:
  virtual ~Env() = default;

  virtual const EnvSpec& spec() const = 0;
  // The number of rows, N.
  virtual int64_t rows() const = 0;
  // Begins what the first reset() takes long for, such as the start of processes, and does not wait for it. May be
  // called before the first reset().
  virtual void prepare() {}
  // Begins reset(seed, first_row, ...) as far as it can without waiting. That reset() has to be the next call.
  virtual void begin_reset(uint64_t /*seed*/, uint64_t /*first_row*/) { prepare(); }
  // Starts a new episode in every row. Row i draws all its randomness from derive_key(seed, "env", first_row + i),
  // so a row behaves the same for any N and in any vector environment. Writes observations, action_mask and task,
  // and clears the rest. A row that cannot start is marked failed, gets zeros as observations, and is started
  // again by the next step().
  virtual void reset(uint64_t seed, uint64_t first_row, EnvStep& out) = 0;
  // In place of the first reset(), which may then not be called: rows begin episodes only by begin_episode(), and a row
  // whose episode has ended or that has failed is inactive until then. False, and nothing is changed, if episodes
  // cannot begin so.
  virtual bool play_singly(uint64_t /*seed*/) { return false; }
  // After play_singly(seed): the next step() begins an episode in the row, and its step is Failed::idle. The episode is
  // the first one of row number `episode` of a reset with that seed. If rows are agents of a world, for all rows of a
  // world that are inactive, with consecutive numbers.
  virtual void begin_episode(int64_t /*row*/, uint64_t /*episode*/) {}
  // reset() with the random stream of row number `numbers[i]` in row i, [N]; numbers may repeat. For environments in
  // which no episode begins singly. An environment without such a reset returns false and changes nothing.
  virtual bool reset_as(uint64_t /*seed*/, std::span<const uint64_t> /*numbers*/, EnvStep& /*out*/) { return false; }
  // Executes `actions` ([N, K, A], dtype of the action spec) in every row, for K steps or until the episode ends, and
  // restarts finished and failed rows. A row fails if its action is out of range, masked or not finite. Continuous
  // actions are clipped to their bounds. Throws InvariantError when the arrays do not fit the spec.
  virtual void step(const Array& actions, EnvStep& out) = 0;
  // Writes observations, action_mask and task of the current state and clears the rest, without
  // a step. Used after load().
  virtual void observe(EnvStep& out) = 0;
  // Deactivates a row (false), or activates it again (true): the next step() begins a new episode in it, or shows the
  // one that began after the row's failure and in which no step was made. reset() activates all rows.
  virtual void set_active(int64_t row, bool active) = 0;
  // One row as text for a terminal.
  virtual std::string render(int64_t row) const = 0;
  // save() writes the whole state (current episodes and random streams) to `bytes`, load() restores it. Both return
  // false if the environment does not support it. load() throws std::runtime_error with both values when the bytes
  // belong to another environment, other parameters or another N.
  virtual bool save(std::string& bytes) const = 0;
  virtual bool load(const std::string& bytes) = 0;
  // Begins what the destructor takes long for, such as the end of processes, and does not wait for it. Then only the
  // destructor may be called. So the owner of several environments waits once for all of them.
  virtual void begin_close() {}
};

}  // namespace troupe
