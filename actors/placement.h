#pragma once
// Placement: which worker asks which inference actor. Plain logic; one thread.
//
// The rule: a worker goes to the inference actor that has the fewest workers (of equal ones, the one that came first). A new
// inference actor takes workers from the fullest one until no other has two more than it. The workers of one that is gone are
// placed like new ones; while there is none they wait.

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
    std::optional<uint64_t> inference;
    friend bool operator==(const Move&, const Move&) = default;
  };

  // The inference actor of a new worker; nothing while there is none.
  std::optional<uint64_t> add_worker(uint64_t worker);
  void remove_worker(uint64_t worker);
  // These return the workers that change, in order.
  std::vector<Move> add_inference(uint64_t id);
  std::vector<Move> remove_inference(uint64_t id);

  std::optional<uint64_t> inference_of(uint64_t worker) const;
  // Puts a worker, new or not, to an inference actor that there is, against the rule.
  void place(uint64_t worker, uint64_t inference);

 private:
  std::optional<uint64_t> emptiest() const;
  std::optional<uint64_t> fullest() const;

  std::map<uint64_t, std::set<uint64_t>> workers_of_;  // by inference actor
  std::map<uint64_t, uint64_t> inference_of_;          // by worker
  std::set<uint64_t> waiting_;                         // workers without one
};

}  // namespace troupe
