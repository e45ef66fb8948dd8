#pragma once
// Placement: which worker asks which inference actor. Plain logic; one thread.
//
// The rule: a worker goes to the inference actor that has the fewest workers (of equal ones, the one that came first).
// A new inference actor takes workers from the fullest one until no other has two more than it. The workers of one that
// is gone are placed like new ones; while there is none they wait.

#include "runtime/weights/inference_index.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

namespace troupe {

class Placement {
 public:
  // A worker that is to ask another inference actor from now on, or has none to ask.
  struct Move {
    uint64_t worker = 0;
    std::optional<InferenceIndex> inference_index;
    friend bool operator==(const Move&, const Move&) = default;
  };

  // The inference actor of a new worker; nothing while there is none.
  std::optional<InferenceIndex> add_worker(uint64_t worker);
  void remove_worker(uint64_t worker);
  // These return the workers that change, in order.
  std::vector<Move> add_inference(InferenceIndex inference_index);
  std::vector<Move> remove_inference(InferenceIndex inference_index);

  std::optional<InferenceIndex> inference_of(uint64_t worker) const;
  // Puts a worker, new or not, to an inference actor that there is, against the rule.
  void place(uint64_t worker, InferenceIndex inference_index);

 private:
  std::optional<InferenceIndex> emptiest() const;
  std::optional<InferenceIndex> fullest() const;

  std::map<InferenceIndex, std::set<uint64_t>> workers_of_;  // by inference actor
  std::map<uint64_t, InferenceIndex> inference_of_;          // by worker
  std::set<uint64_t> waiting_;                               // workers without one
};

}  // namespace troupe
