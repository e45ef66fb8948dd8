#pragma once
// Checkpoints of a run: one directory per checkpoint, complete or absent. Written to a temporary directory that is renamed at
// the end; state.json, written last, holds the size and CRC of every file, so that damage is noticed when it is read.
//   checkpoints/000000000150/{model.safetensors, optimizer.safetensors, extras.safetensors (if any), state.json}
// Functions block on the disk. One CheckpointStore writes to a folder at a time (the run folder's lock sees to that); others
// may read beside it.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/array.h"
#include "runtime/file.h"
#include "runtime/version.h"

namespace troupe {

// Everything a run needs to go on as if it had never stopped.
struct Checkpoint {
  PolicyVersion version;
  uint64_t env_steps = 0;
  uint64_t updates = 0;
  uint64_t seed = 0;
  std::string config_hash;                // of the effective config
  std::map<std::string, double> scalars;  // counters of schedules, statistics; NaN and infinities survive
  std::map<std::string, Array> model;
  std::map<std::string, Array> optimizer;
  std::map<std::string, std::string> extras;  // opaque bytes of other parts, by UTF-8 name

  friend bool operator==(const Checkpoint&, const Checkpoint&) = default;
};

class CheckpointStore {
 public:
  // `folder` need not exist yet.
  CheckpointStore(Disk& disk, std::string folder) : disk_(&disk), folder_(std::move(folder)) {}

  // Writes a checkpoint under the number `step`, in place of one that has it already. Throws IoError, and then what was there
  // before is still there, at the latest after recover().
  void save(uint64_t step, const Checkpoint& checkpoint);

  // Numbers of the checkpoints, ascending; those being written are not among them.
  std::vector<uint64_t> list() const;
  // Throws IoError naming the file and the damage.
  Checkpoint load(uint64_t step) const;
  // The newest checkpoint that is whole, or nothing. Logs a warning for each damaged one before it. Changes nothing.
  std::optional<Checkpoint> load_newest() const;

  // For the owner of the run, before anything is saved: removes what a killed process left over, finishes a replacement that
  // it began, renames damaged checkpoints that are newer than the result to "<step>.damaged", and returns load_newest(). When
  // none is whole, list() still names the damaged ones.
  std::optional<Checkpoint> recover();
  // Removes all but the newest `keep` checkpoints; 0 keeps all.
  void prune(uint64_t keep);

  // The directory of a checkpoint.
  std::string path_of(uint64_t step) const;

 private:
  struct Newest {
    std::optional<Checkpoint> checkpoint;
    std::vector<uint64_t> damaged;
  };
  Newest find_newest() const;
  void remove_leftovers();

  Disk* disk_;
  std::string folder_;
};

}  // namespace troupe
