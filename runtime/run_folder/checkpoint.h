#pragma once
// Checkpoints of a run: one directory per checkpoint, complete or absent. Written to a temporary directory that is
// renamed at the end; state.json, written last, holds the size and CRC of every file, so that damage is noticed when it
// is read.
//   checkpoints/000000000150/{model.safetensors, optimizer.safetensors, extras.safetensors (if any), state.json}
// A checkpoint counts only under the number of its updates, and only in a run with the settings it was made with: a
// copy under another name, or from another run, cannot be used there. A checkpoint that the system refuses to read says
// nothing about its contents: it is neither skipped nor renamed. Functions block on the disk. One CheckpointStore
// writes to a folder at a time (the run folder's lock sees to that); others may read beside it.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/base/array.h"
#include "runtime/base/file.h"
#include "runtime/base/version.h"
#include "runtime/config/fixed_settings.h"

namespace troupe {

// The scalar that a checkpoint has when its weights were trained before the first update: the number of those steps.
inline constexpr const char* kWarmupSteps = "warmup.steps";

// Everything a run needs to go on as if it had never stopped.
struct Checkpoint {
  PolicyVersion version;
  uint64_t env_steps = 0;
  uint64_t updates = 0;
  uint64_t seed = 0;
  std::map<std::string, double> scalars;  // counters of schedules, statistics; NaN and infinities survive
  std::map<std::string, Array> model;
  std::map<std::string, Array> optimizer;
  std::map<std::string, std::string> extras;  // opaque bytes of others, by UTF-8 name

  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

// A checkpoint that may be whole, but is of another run, or of another number of updates than its name says.
class ForeignCheckpoint : public IoError {
 public:
  using IoError::IoError;
};

// The run whose checkpoints they are.
struct CheckpointOwner {
  std::string settings;  // fixed_settings() of its config; empty = checkpoints of any run are accepted
  SettingsOfRun rules;   // for the settings in a checkpoint
};

// The weights in the directory of a checkpoint, of any run and under any name. Throws IoError naming the file and why
// it cannot be used.
std::map<std::string, Array> read_checkpoint_model(const Disk& disk, const std::string& directory);

// The settings of the run that wrote the checkpoint in that directory, as fixed_settings() gave them; empty in one of
// an older program, which wrote none. Throws IoError naming state.json and why it cannot be used.
std::string read_checkpoint_settings(const Disk& disk, const std::string& directory);

class CheckpointStore {
 public:
  // `folder` need not exist yet.
  CheckpointStore(Disk& disk, std::string folder, CheckpointOwner owner = {})
      : disk_(&disk), folder_(std::move(folder)), owner_(std::move(owner)) {}

  // Bounds the files that load() reads by what a model with `bytes` of weights needs.
  void expect_weights(uint64_t bytes) { weight_bytes_ = bytes; }

  // Writes a checkpoint under the number of its updates, in place of one that has it already. Throws IoError, and then
  // what was there before is still there, at the latest after recover(). Gives the checksum of the weights, the same as
  // weights_checksum().
  std::string save(const Checkpoint& checkpoint);

  // Numbers of the checkpoints, ascending; those being written are not among them.
  std::vector<uint64_t> list() const;
  // Throws IoError naming the file and why it cannot be used, ForeignCheckpoint for one that is not this run's.
  Checkpoint load(uint64_t step) const;
  // The CRC of the weights as state.json has it, when the checkpoint is this run's and its files have the sizes that
  // were written; their bytes are not read. Throws as load() does.
  std::string weights_checksum(uint64_t step) const;
  // A scalar of a checkpoint; nothing where there is none, or state.json is damaged or absent. Of any run, and no other
  // file is read. Throws IoError when the system refuses to read it.
  std::optional<double> scalar_of(uint64_t step, const std::string& name) const;
  // The newest checkpoint that can be used; nothing when there are none at all. Logs a warning for each newer one that
  // cannot; one that a trainer removes meanwhile is none of them. Throws IoError, naming what is wrong with the newest,
  // when there are some and none can be used, and at once when the system refuses to read one. Changes nothing.
  std::optional<Checkpoint> load_newest() const;

  // For the owner of the run, before anything is saved: removes what a killed process left over, finishes a replacement
  // that it began, and gives what load_newest() does; renames those that are newer than the result to "<step>.damaged"
  // or "<step>.foreign", with a number where that name is taken, and names each in a warning.
  std::optional<Checkpoint> recover();
  // For the owner: weights_checksum(), or nothing, with a warning: a damaged checkpoint is renamed to "<step>.damaged",
  // one that is not this run's stays as it is. Nothing, without a word, where it is absent. Throws IoError when the
  // system refuses.
  std::optional<std::string> check(uint64_t step);
  // The same with load(), which reads every byte.
  std::optional<Checkpoint> load_checked(uint64_t step);
  // Of the checkpoints up to `newest`, removes all but the newest `keep` and those in `spared`; `keep` 0 keeps all.
  void prune(uint64_t keep, uint64_t newest, const std::set<uint64_t>& spared = {});

  void remove(uint64_t step);

  // The directory of a checkpoint.
  std::string path_of(uint64_t step) const;

 private:
  template <class Read>
  auto read_or_set_aside(uint64_t step, Read read) -> std::optional<decltype(read())>;
  struct Unusable {
    uint64_t step;
    std::string problem;
    bool foreign;
  };
  struct Newest {
    std::optional<Checkpoint> checkpoint;
    std::vector<Unusable> unusable;  // newer ones
  };
  Newest find_newest() const;
  std::optional<Newest> find_newest(const std::vector<uint64_t>& steps) const;
  void set_aside(const Unusable& unusable);
  void undo_save(const std::string& target);
  void remove_leftovers();
  void clear(const std::string& path);

  Disk* disk_;
  std::string folder_;
  CheckpointOwner owner_;
  std::optional<uint64_t> weight_bytes_;
};

}  // namespace troupe
