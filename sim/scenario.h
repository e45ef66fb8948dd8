#pragma once
// Scenario: everything that one seed determines: a small run, a scheduling policy, and the faults that may occur.
// Mutations are deliberate bugs, which show that each invariant detects one.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "actors/config/run_config.h"
#include "models/learning/recurrence.h"

namespace troupe::sim {

enum class Mutation : uint8_t {
  none,
  reply_twice,
  reply_lost,
  reply_shifted,
  reply_relabelled,
  request_lost,
  answers_unheard,
  credit_lost,
  credit_extra,
  rollout_twice,
  rollout_renumbered,
  rollout_miscounted,
  rollout_reordered,
  weights_old,
  weights_torn,
  batch_again,
  update_claimed,
  lag_cap_off,
  max_batch_off,
  gamma_off,
  final_observation_reset,
  evaluation_old,
  checkpoint_missing,
  epoch_kept,
  quarantine_off,
  last_words_lost,
  actor_leaked,
  state_shifted,
  parameters_shifted,
  state_kept,
  start_forgotten,
  warm_start_lost,
  warm_start_counted,
  best_removed,
  shard_missing,
  shard_repeated,
  rank_counted_twice,
  round_repeated,
  shards_forgotten,
  changed_state_kept,
  attempt_mixed,
  published_early,
  rank_state_missing,
  rank_unasked,
  moments_old,
  slice_lost,
  slice_kept,
  parameters_old,
  copy_old,
  weights_unloaded,
  checksum_ignored,
  publisher_silent,
  host_silent,
  // Of token runs.
  token_restamped,
  token_stamped_late,
  cells_kept,
  finish_ignored,
  slot_shared,
  group_split,
  group_repeated,
  request_unended,
  late_dropped,
  late_trained,
  mask_lost,
  epoch_ignored,
  score_lost,
  score_moved,
  score_of_another_answer,
  call_mixed,
  score_zeroed,
  parts_moved,
  scored_left_out,
  failure_hidden,
  baseline_of_another_prompt,
  reward_changed,
  reference_moved,
  reference_of_policy,
  warmup_counted,
  message_trained,
  message_changed,
  history_cut,
};

struct MutationInfo {
  Mutation mutation;
  std::string_view name;
  std::string_view what;
  std::string_view caught_by;  // words from the message of the invariant that must catch it
  bool tokens = false;         // of token runs
};

// All mutations except `none`.
std::span<const MutationInfo> mutations();
// The one with this name; nullptr if there is none.
const MutationInfo* find_mutation(std::string_view name);

enum class Schedule : uint8_t { uniform, mostly_in_order, priorities };

// The kind of run: drawn from the seed (one of three is a token run), or given.
enum class RunKind : uint8_t { drawn, control, tokens };

struct Scenario {
  uint64_t seed = 0;
  RunConfig config;
  Recurrence recurrence;  // state of the policies
  Schedule schedule = Schedule::uniform;
  int64_t nodes = 0;                // remote worker processes
  int64_t inference_processes = 0;  // processes that join with an inference actor or a scorer
  bool rank_processes = false;      // ranks besides the first are processes of their own
  int64_t given_weights = 0;        // number of the weights that the run starts from; 0 = new weights
  Mutation mutation = Mutation::none;
  // Probabilities per scheduler step.
  double clock = 0.01;  // time passes while messages are waiting
  double kill_worker = 0, kill_inference = 0, kill_essential = 0, crash = 0, interrupt = 0, cut = 0, kill_node = 0,
         stall = 0, disk = 0;
  // Probabilities per call of an environment, a policy or a learner; row_broken and row_fails per row, score_fails per
  // answer or call of a verifier, verifier_dies per prompt.
  double row_broken = 0, row_fails = 0, env_throws = 0, forward_fails = 0, forward_slow = 0, update_skipped = 0,
         learner_throws = 0, load_fails = 0, score_fails = 0, score_slow = 0, verifier_dies = 0;
  // The same per operation of a process group; the second one per block of data that a member receives.
  double transfer_breaks = 0, transfer_damaged = 0;
  bool unscored = false;        // some answers never get a score (sim/fake_scores.h)
  uint64_t calm_after = 4'000;  // events: from there on there are no faults, and the run must make progress
  uint32_t max_faults = 8;      // limit on the faults per scheduler step, without those of the clock
  uint32_t max_endings = 2;     // faults that end the process

  std::string text() const;
};

// The scenario of a seed. It always satisfies the config reader's rules between settings. A mutation decides the kind
// of the run.
Scenario draw_scenario(uint64_t seed, Mutation mutation = Mutation::none, RunKind kind = RunKind::drawn);

}  // namespace troupe::sim
