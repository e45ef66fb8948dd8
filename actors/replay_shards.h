#pragma once
// ReplayShards: the replay stores of the shards of a run (trainer.shards), and which worker samples for which shard.
// One thread.
//
// Each shard has a part of the capacity and of the super-batch, and workers of its own. A super-batch is drawn when
// every shard has enough samples for its part. A worker joins the shard with the fewest workers. If a shard is left
// without one that samples, another shard that has several gives one: it samples for the other as soon as it has used
// its credits. A worker whose credits are revoked does not count as one that samples until its next rollout.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/replay_store.h"

namespace troupe {

class ReplayShards {
 public:
  // `rules` are those of one shard. The rest is as ReplayStore has it, of the whole run.
  ReplayShards(const ReplayRules& rules, size_t shards, PolicyVersion first, uint64_t seed, const Ledger& ledger = {},
               uint64_t env_steps = 0, uint64_t uncounted = 0);

  void stop_at(uint64_t env_steps, uint64_t steps_per_sample);
  void expect_baselines();

  // -- workers and credits, as ReplayStore has them
  void join(uint64_t worker, uint32_t groups, uint64_t samples_per_rollout);
  void leave(uint64_t worker, bool in_order = false);
  void progress(uint64_t worker, std::vector<PartialRollout> partial, bool last = false);
  bool applied(InferenceIndex inference_index, PolicyVersion version);
  void receiver_gone(InferenceIndex inference_index);
  uint32_t revoke(uint64_t worker);
  uint32_t credits_of(uint64_t worker) const;
  std::vector<CreditGrant> grant();
  // For which a worker that has joined samples; nothing for others.
  std::optional<size_t> shard_of(uint64_t worker) const;

  // -- samples
  bool push(RolloutPtr rollout);
  // The parts of the next super-batch, one of each shard, in order, when every shard has one.
  std::optional<std::vector<SuperBatch>> sample(std::chrono::nanoseconds now = {});
  void trained(uint64_t index);
  void failed(uint64_t index);
  void close();

  // -- deterministic runs
  std::string save() const;
  void load(const std::string& bytes);

  // -- what can be seen: sums over the shards
  Ledger ledger() const;
  uint64_t env_steps() const;
  std::vector<Episodes> take_episodes();
  uint64_t uncounted_at_most() const;
  bool closed() const { return stores_.front().closed(); }
  uint64_t count_waiting() const;
  uint64_t stored_units() const;
  uint64_t next_index() const { return stores_.front().next_index(); }
  uint64_t capacity() const;
  uint64_t credits_outstanding() const;
  uint64_t credits_revoked() const;
  std::optional<uint64_t> applied_number() const { return stores_.front().applied_number(); }
  std::vector<std::pair<uint64_t, uint32_t>> last_lags() const;
  TokenFigures token_figures() const;
  double late_wait_seconds(std::chrono::nanoseconds now) const;
  double mean_reuse() const;
  PolicyVersion version() const { return stores_.front().version(); }

 private:
  struct Member {
    size_t shard = 0;
    uint32_t groups = 0;
    uint64_t samples_per_rollout = 0;
    std::optional<size_t> moves_to = {};  // when it has used its credits
    bool samples = true;                  // see above
  };

  template <class Value>
  auto sum(Value value) const;
  ReplayStore& store_of(const Member& member) { return stores_[member.shard]; }
  void remove(uint64_t worker, bool in_order);
  // Of each shard, with those that are to come and without those that are to go: all, or only those that sample.
  std::vector<size_t> workers_of_shards(bool that_sample) const;
  void fill_empty_shards();
  void move_workers();

  std::vector<ReplayStore> stores_;  // by shard
  std::map<uint64_t, Member> members_;
};

}  // namespace troupe
