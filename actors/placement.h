#pragma once
// Placement: assigns each worker to an inference actor. Plain logic; one thread.
//
// Rule: a new worker is assigned to the inference actor with the fewest workers; ties go to the one that joined first.
// A new inference actor takes workers from the one with the most until the numbers differ by at most one. When an
// inference actor is lost, its workers are assigned like new ones. Without any inference actor, workers wait.

#include "runtime/weights/inference_index.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace troupe {

class Placement {
 public:
  // A worker whose inference actor changed; nullopt = it has none now.
  struct Move {
    uint64_t worker = 0;
    std::optional<InferenceIndex> inference_index;
    friend bool operator==(const Move&, const Move&) = default;
  };

  // Returns the inference actor of the new worker, or nullopt if there is none.
  std::optional<InferenceIndex> add_worker(uint64_t worker);
  void remove_worker(uint64_t worker);
  // Both return the workers whose inference actor changes, ordered.
  std::vector<Move> add_inference(InferenceIndex inference_index);
  std::vector<Move> remove_inference(InferenceIndex inference_index);

  std::optional<InferenceIndex> inference_of(uint64_t worker) const;
  // Assigns a new or known worker to an existing inference actor, whatever the rule says.
  void place(uint64_t worker, InferenceIndex inference_index);

 private:
  std::optional<InferenceIndex> emptiest() const;
  std::optional<InferenceIndex> fullest() const;

  std::map<InferenceIndex, std::set<uint64_t>> workers_of_;  // by inference actor
  std::map<uint64_t, InferenceIndex> inference_of_;          // by worker
  std::set<uint64_t> waiting_;                               // workers without an inference actor
};

}  // namespace troupe
