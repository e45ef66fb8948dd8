#pragma once
// Checker: checks the invariants of a run before and after every message. It sees what the simulator delivers and the
// states of the actors, keeps separate counts, and never changes anything. The World stores the first violation.

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <caf/actor_addr.hpp>
#include <caf/scheduled_actor.hpp>

#include "actors/replay_buffer.h"
#include "actors/supervisor.h"
#include "actors/worker.h"
#include "runtime/stats/snapshot.h"
#include "sim/fakes.h"

namespace troupe {
struct InferenceState;
}  // namespace troupe

namespace troupe::sim {

struct KnownActor {
  uint64_t ordinal = 0;
  std::string kind;
  caf::actor_addr address;
  bool alive = true;
  bool in_order = false;  // it ended by itself, not because of a fault
  bool initialized = false;
  bool remote = false;         // an inference actor of a process that has joined, once it has started
  Role role = Role::sampling;  // of an inference actor, once it has started
  uint64_t process = 0;        // the trainer's process that ran when it was first seen

  bool is_worker() const { return kind == "worker"; }
  bool is_grader() const { return kind == "grader"; }
  bool is_inference() const { return kind == "inference"; }
  bool is_inference_process() const {
    return kind == "inference host" || kind == "weight receiver" || (is_inference() && remote);
  }
  bool is_rank() const { return kind == "rank host" || kind == "rank trainer"; }
};

class Checker {
 public:
  explicit Checker(World& world) : world_(world) {}

  // A process starts, and with it new counts.
  void begin_process(const ReplayStart& start);
  // before(): an actor is about to handle `element` (nullptr: it starts). after(): it has handled it.
  void before(caf::scheduled_actor& actor, caf::mailbox_element* element);
  void after(caf::scheduled_actor& actor);
  // An answer was sent to a client behind a link.
  void answer_sent(caf::actor_id inference, caf::actor_id client, const InferenceReply& reply);
  // No message is in flight and all actors only wait for timers.
  void quiet();
  // A point of the curves or another report: its return must be the mean over the last episodes in the rollouts that
  // were counted before replay reached the report's number of environment steps.
  void check_return(const StatsSnapshot& snapshot);
  // The process ended normally and no fault has affected a worker or its connection: the last report must be exact.
  void check_last(const StatsSnapshot& last);

  KnownActor& know(caf::scheduled_actor& actor);
  std::map<caf::actor_id, KnownActor>& actors() { return actors_; }
  // What each actor is waiting for, as text.
  std::string dump();
  uint64_t updates() const { return updates_; }
  std::optional<PolicyVersion> last_published() const { return last_published_; }
  // The number of updates when this rank was asked to compute shards last; 0 = never.
  uint64_t asked(caf::actor_id rank) const {
    const auto found = asked_.find(rank);
    return found == asked_.end() ? 0 : found->second;
  }
  // How often rank 0 has asked the others for moments because a rank was lost.
  uint64_t recoveries() const { return recoveries_.size(); }
  size_t largest_mailbox() const { return largest_mailbox_; }

 private:
  struct WorkerAccount {
    std::vector<PartialRollout> partial;
    bool joined = false;
  };
  struct Request {
    uint64_t id = 0;
    caf::actor_id client = 0;
  };
  struct InferenceAccount {
    std::map<std::pair<uint64_t, uint32_t>, Request> open;                   // by sender and group
    std::map<std::pair<caf::actor_id, uint64_t>, uint64_t> asked, answered;  // how often, by client and request
    std::map<caf::actor_id, PolicyVersion> said;                             // the last version sent to each client
    PolicyVersion received;
    bool any = false;
  };
  struct ReplayAccount {
    Ledger base;
    uint64_t arrived = 0, left = 0, left_over = 0, trained = 0, failed = 0;
    bool training_ended = false;
    bool inexact = false;  // a worker crashed, or sent no last report
    bool revoked = false;  // a worker has lost its credits, so that nothing waits for its answers
    uint64_t produced_before = 0;
    uint64_t unscored = 0, failed_scores = 0;  // answers without a score
    uint64_t baselines = 0;                    // greedy answers
    uint64_t without_spread = 0;               // answers of groups in which all have the same reward
    uint64_t number = 0;                       // the process's first version
    std::map<uint64_t, uint64_t> batches;      // samples by index, not yet trained
    uint64_t next_batch = 0;
  };

  void replay_takes(caf::mailbox_element& element);
  void publisher_takes(caf::mailbox_element& element);
  void inference_takes(caf::scheduled_actor& actor, caf::mailbox_element& element);
  // `again`: the same request is in progress, so that this one gets no answer of its own.
  void take_request(caf::actor_id inference, caf::actor_id client, uint64_t request, uint32_t group, bool again);
  // Returns a name of the answer for messages.
  std::string answered(InferenceAccount& account, caf::actor_id inference, caf::actor_id client, uint64_t request);
  void check_pending(caf::actor_id inference, const InferenceState& state);
  void worker_takes(caf::scheduled_actor& actor, caf::mailbox_element& element);
  void worker_left(uint64_t worker, bool in_order);
  void silent_workers_left();
  void count(uint64_t env_steps, const Episodes& episodes);
  void check_replay(const ReplayState& state);
  void check_groups(const Ledger& ledger);
  void check_stop_order(const KnownActor& ended);
  void check_scores(caf::actor_id worker, const WorkerState& state);
  std::string name_of(caf::actor_id id);

  World& world_;
  std::map<caf::actor_id, KnownActor> actors_;
  std::map<std::string, uint64_t> ordinals_;
  std::map<caf::actor_id, InferenceAccount> inference_;
  std::map<uint64_t, WorkerAccount> workers_;
  std::map<caf::actor_id, uint64_t> worker_of_;  // the numbers by which replay knows them
  std::map<uint64_t, uint64_t> credits_, pushed_, next_sequence_;
  ReplayAccount replay_;
  uint64_t env_steps_ = 0;
  uint64_t worker_steps_ = 0;                              // of the worker that handles a message, before it
  std::deque<float> returns_;                              // of the last stats.window episodes
  std::map<uint64_t, std::deque<float>> returns_by_step_;  // their values at that number of environment steps
  Ledger last_ledger_;
  std::map<uint64_t, bool> published_;
  std::optional<PolicyVersion> last_published_, published_reference_;
  uint64_t process_ = 0;
  uint64_t updates_ = 0;
  std::map<caf::actor_id, uint64_t> asked_;             // by rank trainer: `updates_` at its last update
  std::set<std::pair<uint64_t, uint64_t>> recoveries_;  // process and number of the request
  size_t largest_mailbox_ = 0;
};

}  // namespace troupe::sim
