#pragma once
// ReplayStore: the logic of the replay buffer without the actor: rollouts, credits, policy lag and the ledger. One
// thread.
//
// Admission of a rollout of n samples, with `queued` samples stored or promised and S samples per update. In both
// modes, queued + n must not exceed room(), which is the capacity, and less at the start of the run (at first 2 S).
//
// - consume_once: the rollout is used at the latest by update next_index + (queued + n - 1) / S, and is made by weights
//   no older than those that every inference actor has applied. It is admitted if the difference is at most
//   max_policy_lag. Without room, one rollout is admitted while nothing is promised, the next super-batch lacks
//   samples, and the next update is within max_policy_lag of those weights.
// - reuse: what the next super-batch lacks is admitted without room.
// - reuse: a full buffer admits a rollout for every n * max_reuse samples that updates have used (max_reuse counts as
//   kPlannedUses at most), and evicts the oldest samples for it. Each sample is thus used about max_reuse times, and
//   new samples keep arriving.
//
// - consume_once with replay.late "wait": each credit has a last update that may use its samples (its due: the version
// that all inference actors served when it was granted, plus max_policy_lag). Units are drawn in the order of their
// due, and no super-batch takes a unit of a later due while the updates that follow it could not take all that is
// promised for an earlier one. Because credits are granted only while all samples up to each due fit into the updates
// up to it, nothing is dropped as stale unless an inference actor begins with older weights than the others serve.
//
// Samples whose policy lag exceeds max_policy_lag when a super-batch is drawn are dropped, so no update in either mode
// trains on older ones. With replay.late "mask" the lag of each token of an answer counts by itself: a group stays as
// long as one of its tokens may be used, and SuperBatch::least_version says which of them are. An answer of it without
// such a token is dropped when the update has used the others; its reward is still part of what they are compared with.
//
// Rollouts are divided into units of any number of samples, which are drawn, evicted and dropped as a whole
// (models/experience/rollout_units.h). The store does not depend on what a unit is.

#include <chrono>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "actors/config/replay_rules.h"
#include "actors/messages.h"
#include "actors/stored_units.h"
#include "models/experience/rollout_units.h"
#include "runtime/base/rng.h"
#include "runtime/stats/ledger.h"
#include "runtime/stats/unknown.h"
#include "runtime/weights/inference_index.h"

namespace troupe {

struct CreditGrant {
  uint64_t worker = 0;
  uint32_t count = 0;
};

// Uses of samples by updates, and the samples that have any.
struct SampleUses {
  uint64_t uses = 0, samples = 0;

  SampleUses& operator+=(const SampleUses& other) {
    uses += other.uses;
    samples += other.samples;
    return *this;
  }
  // Updates that trained on a sample; unknown without one.
  double mean() const { return samples == 0 ? kUnknown : static_cast<double>(uses) / static_cast<double>(samples); }
};

class ReplayStore {
 public:
  // What the other shards of the run have counted.
  struct Others {
    uint64_t env_steps = 0;
    uint64_t promised = 0;  // samples
  };

  // `first` is the policy version training starts from, `ledger` and `env_steps` what happened before (after a resume,
  // the restored ones).
  ReplayStore(const ReplayRules& rules, PolicyVersion first, uint64_t seed, Ledger ledger = {}, uint64_t env_steps = 0,
              uint64_t uncounted = 0);

  // Admits no rollout that would pass this many environment steps, except for what a super-batch still lacks, and none
  // at all after the first batch that was handed out behind them. A sample takes `steps_per_sample` of them at most.
  void stop_at(uint64_t env_steps, uint64_t steps_per_sample);
  void set_others(const Others& others) { others_ = others; }
  // A rollout may have a greedy answer besides its samples, which is counted in Ledger::baselines.
  void expect_baselines() { baselines_per_rollout_ = 1; }

  // -- workers and credits
  // A worker that will push rollouts of `samples_per_rollout` from `groups` vector environments. Joining twice starts
  // it anew.
  void join(uint64_t worker, uint32_t groups, uint64_t samples_per_rollout);
  // The worker ended or is unreachable: its credits return, the samples of its partial rollouts are lost, or, when it
  // stopped in order, left over.
  void leave(uint64_t worker, bool in_order = false);
  // The worker's partial rollouts, as it last reported them; those of one group in the order in which they will be
  // pushed. `last`: it makes no sample after this report.
  void progress(uint64_t worker, std::vector<PartialRollout> partial, bool last = false);
  // An inference actor serves weights of this version; nothing is admitted while none has said so.
  // False, and nothing changes, when it is older than the one before.
  bool applied(InferenceIndex inference_index, PolicyVersion version);
  void receiver_gone(InferenceIndex inference_index);
  // The worker keeps what it was granted, but nothing waits for it any more: others may sample in its place. It gets no
  // further credits until it has used these. Returns their number.
  uint32_t revoke(uint64_t worker);
  uint32_t credits_of(uint64_t worker) const;
  // Also revoked ones that it may still use.
  bool holds_credits(uint64_t worker) const;
  // Credits to hand out now, already booked. Call after every change.
  std::vector<CreditGrant> grant();

  // -- samples
  // Takes a rollout against one of its worker's credits. False when it is refused: its samples are booked as
  // dropped_full, or, of a worker that is not known (it left, or was cut off), were booked as lost when it left.
  bool push(RolloutPtr rollout);
  // Whether there are enough samples for the next super-batch that are fresh enough for the update that would use it,
  // and it need not wait for late answers. `now` measures this wait.
  bool ready(std::chrono::nanoseconds now = {});
  // The next super-batch, for which the store must be ready().
  SuperBatch draw();
  // The same where there is one.
  std::optional<SuperBatch> sample(std::chrono::nanoseconds now = {}) {
    return ready(now) ? std::optional(draw()) : std::nullopt;
  }
  // The update with that index used its batch, or lost it (every optimizer step was skipped).
  void trained(uint64_t index);
  void failed(uint64_t index);

  // Training has ended and every worker has left: what waits is left over, and nothing is counted any more.
  void close();

  // -- deterministic runs, when no credit is out and no batch is handed out: everything as bytes, and back. The workers
  // and the inference actors of the new process join again.
  std::string save() const;
  void load(const std::string& bytes);

  // -- what can be seen
  Ledger ledger() const { return ledger_; }
  // Environment steps that the produced samples took.
  uint64_t env_steps() const { return env_steps_; }
  // Episodes that ended within the produced samples, in the order in which these were counted, since the last call.
  std::vector<Episodes> take_episodes() { return std::exchange(episodes_, {}); }
  // Samples that workers which left without a last report may have made and that nobody counted: no more than their
  // credits were for, less what they had reported.
  uint64_t uncounted_at_most() const { return uncounted_; }
  bool closed() const { return closed_; }
  // Recounts `waiting` from the stored samples; equals ledger().waiting unless there is a bug. Takes time in proportion
  // to their number.
  uint64_t count_waiting() const;
  uint64_t stored_units() const { return units_.size(); }
  uint64_t next_index() const { return version_.number; }
  uint64_t capacity() const { return rules_.capacity; }
  uint64_t credits_outstanding() const { return credits_; }
  uint64_t samples_promised() const { return promised_; }
  uint64_t credits_revoked() const { return revoked_; }
  // Smallest applied version number over all receivers; nothing when there is none.
  std::optional<uint64_t> applied_number() const;
  // Lags of the samples that the last update trained: one entry per unit, with its number of samples.
  const std::vector<std::pair<uint64_t, uint32_t>>& last_lags() const { return last_lags_; }
  const TokenFigures& token_figures() const { return tokens_; }
  // How long updates have waited for rollouts that would otherwise have exceeded the lag cap.
  double late_wait_seconds(std::chrono::nanoseconds now) const {
    const std::chrono::duration<double> waiting = waits_since_ ? now - *waits_since_ : std::chrono::nanoseconds(0);
    return late_wait_seconds_ + waiting.count();
  }
  SampleUses uses() const { return {uses_total_, ledger_.trained - trained_before_}; }
  double mean_reuse() const { return uses().mean(); }
  // That the next super-batch is for; no weights are newer.
  PolicyVersion version() const { return version_; }

 private:
  struct Worker {
    uint32_t groups = 0;
    uint64_t samples_per_rollout = 0;
    uint32_t credits = 0;
    uint32_t revoked = 0;  // credits that it may still use
    std::vector<PartialRollout> partial;
    bool last_report = false;      // `partial` is final
    std::multiset<uint64_t> dues;  // of the credits: the last update that may use what is made with each
  };

  using Workers = std::map<uint64_t, Worker>;

  void count(uint64_t samples, uint64_t env_steps, const Episodes& episodes);
  bool may_grant(uint64_t samples) const;
  Workers::iterator next_in_turn();
  void take_credit(uint64_t id, Worker& worker, const Rollout& rollout);
  bool must_wait() const;
  void store(const RolloutPtr& rollout);
  uint64_t room() const;
  uint64_t planned_uses() const;
  void drop_stale();
  void evict_for(uint64_t incoming);
  // Of a unit that was taken out of storage: if no batch holds it and none trained on it, its samples end in `state`.
  void retire(const StoredUnit& unit, uint64_t& state);
  std::vector<UnitPlace> draw_oldest();
  std::vector<UnitPlace> draw_uniform();
  SuperBatch hand_out(std::vector<UnitPlace> units);
  std::vector<UnitPlace> take_handed(uint64_t index);

  ReplayRules rules_;
  PolicyVersion version_;  // of the next update
  Rng rng_;
  Workers workers_;
  // Sums over workers_, so that a credit takes the same time however many there are.
  uint64_t credits_ = 0, promised_ = 0, revoked_ = 0;
  std::set<uint64_t> may_get_credits_;  // workers that have fewer than they may have
  std::multiset<uint64_t> sizes_;       // samples_per_rollout
  std::map<uint64_t, uint64_t> dues_;   // of all credits: the samples that they are for
  uint64_t last_granted_ = 0;
  std::map<InferenceIndex, PolicyVersion> receivers_;
  StoredUnits units_;                                  // not handed out for the last time; oldest first
  std::map<uint64_t, std::vector<UnitPlace>> handed_;  // by update index
  std::vector<std::pair<uint64_t, uint32_t>> last_lags_;
  Ledger ledger_;
  uint64_t env_steps_ = 0;
  Others others_;
  std::vector<Episodes> episodes_;
  uint64_t uncounted_ = 0;
  uint64_t uses_total_ = 0;      // samples of all updates since trained_before_ was counted, each time they were used
  uint64_t trained_before_ = 0;  // samples that earlier starts of the run trained on
  bool closed_ = false;
  TokenFigures tokens_;
  std::optional<std::chrono::nanoseconds> waits_since_;  // for late rollouts
  double late_wait_seconds_ = 0;
  uint64_t filtered_in_a_row_ = 0;  // samples since the last super-batch
  uint64_t renewal_uses_ = 0;       // "reuse": sample uses for which a full buffer has not yet admitted new samples
  uint64_t last_env_step_ = std::numeric_limits<uint64_t>::max();
  uint64_t steps_per_sample_ = 1;
  uint64_t baselines_per_rollout_ = 0;
  bool last_batch_out_ = false;  // one that tells the trainer to stop
};

}  // namespace troupe
