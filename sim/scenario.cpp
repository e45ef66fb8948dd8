#include "sim/scenario.h"

#include <algorithm>
#include <initializer_list>

#include "algorithms/choice/algorithm_choice.h"
#include "runtime/base/errors.h"
#include "runtime/base/rng.h"

namespace troupe::sim {

namespace {

class Draw {
 public:
  explicit Draw(uint64_t seed, const char* stream = "scenario") : rng_(derive_key(seed, stream)) {}
  int64_t between(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(rng_.below(static_cast<uint64_t>(high - low + 1)));
  }
  bool chance(double p) { return rng_.uniform_double() < p; }

 private:
  Rng rng_;
};

void draw_limits(Draw& draw, RunConfig& c) {
  c.stop.env_steps = 0;
  c.stop.updates = draw.between(2, 16);
  c.evaluation.every_updates = draw.between(0, 3);
  c.evaluation.episodes = draw.between(1, 4);
  if (!is_token_run(c)) c.evaluation.rows = draw.between(1, 2);
  c.checkpoint.every_updates = draw.between(0, 3);
  c.checkpoint.keep = draw.between(0, 2);
  c.stats.interval = std::chrono::milliseconds(draw.between(1, 20) * 100);
}

RunConfig draw_token_config(Draw& draw, uint64_t seed) {
  RunConfig c;
  c.name = "simulation";
  c.seed = seed;
  c.model.kind = "decoder";
  c.workers.count = draw.between(0, 3);
  c.workers.groups = draw.between(1, 3);
  c.inference.count = draw.chance(0.7) ? 1 : 2;
  c.generation.answers = draw.between(1, 4);
  c.generation.max_tokens = draw.chance(0.5) ? draw.between(1, 8) : draw.between(9, 30);
  c.generation.prompt_slots = draw.between(1, 4);
  c.generation.answer_slots = draw.between(1, 8);
  c.generation.prefill_tokens = draw.between(1, 8);
  c.replay.mode = draw.chance(0.2) ? "reuse" : "consume_once";
  c.replay.max_policy_lag = draw.between(c.replay.mode == "reuse" ? 1 : 0, 3);
  if (c.replay.mode == "reuse") c.replay.max_reuse = draw.between(1, 3);
  c.trainer.super_batch = c.generation.answers * draw.between(1, 4);
  c.trainer.minibatches = 1;
  c.trainer.max_skipped = draw.between(3, 5);
  c.algorithm.advantage = draw.chance(0.5) ? "grpo" : "rloo";
  if (c.replay.mode == "consume_once" && draw.chance(0.4)) c.replay.late = "drop";
  c.replay.filter_groups = c.generation.answers > 1 && draw.chance(0.4);
  draw_limits(draw, c);
  return c;
}

RunConfig draw_config(Draw& draw, uint64_t seed) {
  RunConfig c;
  c.name = "simulation";
  c.seed = seed;
  // Short enough that stalled workers lose their credits. Not drawn, so that older seeds stay what they were.
  if (seed % 3 == 0) c.workers.credit_timeout = std::chrono::milliseconds(300);
  c.env.rows = draw.between(1, 3);
  c.workers.count = draw.between(0, 3);
  c.workers.groups = draw.between(1, 2);
  c.rollout.length = draw.between(1, 4);
  const int64_t rollout = c.rollout.length * c.env.rows;
  c.inference.count = draw.between(1, 2);
  c.inference.batch_size = draw.between(1, 8);
  c.inference.max_batch = draw.chance(0.3) ? c.env.rows * draw.between(1, 2) : draw.between(2 * c.env.rows, 16);
  c.inference.batch_size = std::min(c.inference.batch_size, c.inference.max_batch);
  c.replay.mode = draw.chance(0.3) ? "reuse" : "consume_once";
  c.replay.max_policy_lag = draw.between(c.replay.mode == "reuse" ? 1 : 0, 3);
  c.replay.max_reuse = c.replay.mode == "reuse" ? draw.between(1, 3) : RunConfig().replay.max_reuse;
  if (c.replay.mode == "consume_once" && seed % 4 == 1) c.replay.late = "wait";  // not drawn either
  c.trainer.super_batch = draw.chance(0.6) ? rollout * draw.between(1, 3) : draw.between(2, 3 * rollout + 2);
  c.trainer.minibatches = 1;
  c.trainer.max_skipped = draw.between(3, 5);
  c.algorithm.advantage = draw.chance(0.4) ? "vtrace" : "gae";
  c.algorithm.gamma = 0.9;
  c.algorithm.bootstrap_on_truncation = draw.chance(0.8);
  draw_limits(draw, c);
  return c;
}

void draw_faults(Draw& draw, Scenario& s) {
  const auto maybe = [&](double& probability, double share, double value) {
    if (draw.chance(share)) probability = value;
  };
  const double clocks[] = {0.005, 0.05, 0.3};
  s.clock = clocks[draw.between(0, 2)];
  maybe(s.kill_worker, 0.5, 0.03);
  maybe(s.kill_inference, 0.5, 0.03);
  maybe(s.kill_essential, 0.2, 0.01);
  maybe(s.crash, 0.3, 0.01);
  maybe(s.interrupt, 0.2, 0.01);
  maybe(s.cut, 0.5, 0.03);
  maybe(s.kill_node, 0.4, 0.02);
  maybe(s.stall, 0.4, 0.02);
  maybe(s.disk, 0.4, 0.02);
  maybe(s.row_fails, 0.4, 0.05);
  maybe(s.env_throws, 0.2, 0.01);
  maybe(s.forward_fails, 0.3, 0.1);
  maybe(s.forward_slow, 0.2, 0.1);
  maybe(s.update_skipped, 0.3, 0.2);
  maybe(s.learner_throws, 0.1, 0.05);
  maybe(s.load_fails, 0.2, 0.05);
  s.max_faults = static_cast<uint32_t>(draw.between(1, 24));
  s.max_endings = static_cast<uint32_t>(draw.between(0, 3));
}

// Small capacities, and limits that are never reached.
void draw_replay(Draw& draw, RunConfig& c) {
  const bool reuse = c.replay.mode == "reuse";
  if (c.replay.max_policy_lag > 0 && draw.chance(0.15)) c.replay.max_policy_lag = 1'000'000;
  if (reuse && draw.chance(0.3)) c.replay.max_reuse = 1'000'000;
  const int64_t least = (reuse ? 1 : c.replay.max_policy_lag + 1) * c.trainer.super_batch;
  if (draw.chance(0.4)) c.replay.capacity = least + (draw.chance(0.5) ? 0 : draw.between(0, 2 * c.trainer.super_batch));
}

// Some rows fail at every step and are quarantined after a few failures.
void draw_quarantine(Draw& draw, Scenario& s) {
  s.config.workers.quarantine_after = draw.between(2, 5);
  if (draw.chance(0.3)) s.row_broken = 0.2;
}

// Policies with recurrent state, which is recorded at every step of the rollouts or less often.
void draw_recurrence(Draw& draw, Scenario& s) {
  if (!draw.chance(0.4)) return;
  s.recurrence.state_size = 2;
  do {
    s.recurrence.sequence = draw.between(1, s.config.rollout.length);
  } while (s.config.rollout.length % s.recurrence.sequence != 0);
}

// Advantages of whole sequences, computed by the trainer, with value targets computed by the worker.
void draw_estimator(Draw& draw, RunConfig& c) {
  if (draw.chance(0.2)) c.algorithm.advantage = "reinforce_plus_plus";
}

// A KL penalty in closed form, for which rollouts carry the behaviour policy's parameters.
void draw_penalty(Draw& draw, RunConfig& c) {
  if (!draw.chance(0.3)) return;
  c.algorithm.kl = "full";
  c.algorithm.kl_coef = 0.1;
}

// Draws single samples if the algorithm does not need whole columns.
void draw_units(Draw& draw, Scenario& s) {
  if (!draw.chance(0.5) || s.recurrence.state_size > 0 || choose_algorithm(s.config.algorithm).columns) return;
  s.config.replay.draw = "sample";
}

// Runs that start with the weights of another one, and runs that keep the checkpoints with the best evaluations.
void draw_weights(Draw& draw, Scenario& s) {
  if (draw.chance(0.3)) s.given_weights = draw.between(1, 1'000'000);
  if (draw.chance(0.4)) s.config.checkpoint.keep_best = draw.between(1, 2);
}

std::string text_of_tokens(const RunConfig& c) {
  return "tokens, answers " + std::to_string(c.generation.answers) + " of " + std::to_string(c.generation.max_tokens) +
         " slots " + std::to_string(c.generation.prompt_slots) + "/" + std::to_string(c.generation.answer_slots) +
         " prefill " + std::to_string(c.generation.prefill_tokens) + " late " + c.replay.late + " new weights " +
         c.generation.on_new_weights + (c.replay.filter_groups ? " filters" : "") +
         (c.reference.by_scorers() ? " scorers " + std::to_string(c.scorers.count) + " of " +
                                         std::to_string(c.scorers.batch_tokens) + " tokens"
                                   : "") +
         (c.task.turns > 1 ? " turns " + std::to_string(c.task.turns) : "") +
         (c.task.verifier.empty() ? ""
                                  : " verifiers " + std::to_string(c.task.verifier_processes) + " of " +
                                        std::to_string(c.task.verifier_batch));
}

std::string text_of_steps(const RunConfig& c) {
  return "rows " + std::to_string(c.env.rows) + " T " + std::to_string(c.rollout.length) + " batch " +
         std::to_string(c.inference.batch_size) + "/" + std::to_string(c.inference.max_batch) + " draws " +
         c.replay.draw + "s";
}

RunKind drawn_kind(uint64_t seed, Mutation mutation) {
  for (const MutationInfo& info : mutations())
    if (info.mutation == mutation) return info.tokens ? RunKind::tokens : RunKind::control;
  return Draw(seed, "kind").chance(1.0 / 3) ? RunKind::tokens : RunKind::control;
}

// What only runs on environments have.
void draw_control(Scenario& s) {
  Draw replay(s.seed, "replay");
  draw_replay(replay, s.config);
  Draw more(s.seed, "quarantine");
  draw_quarantine(more, s);
  Draw recurrence(s.seed, "recurrence");
  draw_recurrence(recurrence, s);
  Draw estimator(s.seed, "estimator");
  draw_estimator(estimator, s.config);
  Draw penalty(s.seed, "penalty");
  draw_penalty(penalty, s.config);
  Draw units(s.seed, "units");
  draw_units(units, s);
}

// Verifiers, of which some score several groups in a call, are slow, or die.
void draw_verifiers(Draw& draw, Scenario& s) {
  s.config.task.verifier = "py:simulated:score";
  s.config.task.verifier_processes = draw.chance(0.7) ? 1 : draw.between(2, 3);
  s.config.task.verifier_batch = draw.chance(0.3) ? 1 : draw.between(4, 16);
  if (draw.chance(0.5)) s.config.workers.groups = draw.between(3, 6);
  if (draw.chance(0.3)) s.score_slow = 0.1;
  if (draw.chance(0.3)) s.verifier_dies = 0.05;
}

// Scorers, which compute the log-probabilities of a reference, some of them one group at a time.
void give_scorers(RunConfig& c, uint64_t seed) {
  c.reference.model = "start";
  c.reference.computed_by = "scorers";
  c.scorers.count = 1 + static_cast<int64_t>(seed / 3 % 2);
  c.scorers.batch_tokens = int64_t{8} << (seed / 6 % 5);
}

// Whether one of these bugs is in the run.
bool planted(const Scenario& s, std::initializer_list<Mutation> any) {
  return std::ranges::find(any, s.mutation) != any.end();
}

// Several shards, with a worker each, and one rank or more. Not drawn, so that older seeds stay what they were.
void give_shards(Scenario& s) {
  const bool shards = s.mutation == Mutation::shard_missing || s.mutation == Mutation::shard_repeated;
  const bool lost = planted(s, {Mutation::shards_forgotten, Mutation::changed_state_kept, Mutation::attempt_mixed,
                                Mutation::published_early, Mutation::rank_state_missing, Mutation::rank_unasked,
                                Mutation::slice_lost, Mutation::slice_kept, Mutation::copy_old});
  const bool divided = planted(s, {Mutation::moments_old, Mutation::slice_lost, Mutation::slice_kept,
                                   Mutation::parameters_old, Mutation::copy_old});
  const bool ranks = lost || divided || planted(s, {Mutation::rank_counted_twice, Mutation::round_repeated});
  if (s.seed % 5 != 2 && !shards && !ranks) return;
  RunConfig& c = s.config;
  c.trainer.shards = 2 + static_cast<int64_t>(lost || s.seed / 5 % 4 > 0);
  c.trainer.super_batch *= c.trainer.shards;
  c.replay.capacity *= c.trainer.shards;
  c.workers.count = std::max(c.workers.count, c.trainer.shards);
  Draw draw(s.seed, "ranks");
  c.trainer.ranks = ranks ? c.trainer.shards : shards ? 1 : draw.chance(0.7) ? c.trainer.shards : 1;
  s.rank_processes = c.trainer.ranks > 1 && (draw.chance(0.7) || lost);
  Draw zero(s.seed, "slices");
  if (c.trainer.ranks > 1 && (divided || (s.mutation == Mutation::none && zero.chance(0.8)))) {
    c.trainer.zero = 1;
    if (lost || zero.chance(0.7)) c.trainer.redundancy = "neighbour";
  }
  if (lost) s.max_faults = std::max(s.max_faults, 12u);
  s.clock = std::min(s.clock, 0.05);  // all these actors report between two ticks
}

// Processes with inference actors, of which some runs have no others. Their own stream, so that older seeds stay what
// they were.
void draw_inference_processes(Scenario& s) {
  Draw draw(s.seed, "inference processes");
  const bool alone = planted(s, {Mutation::publisher_silent, Mutation::host_silent});
  const bool damaged = planted(s, {Mutation::weights_unloaded, Mutation::checksum_ignored});
  if (!draw.chance(0.25) && !alone && !damaged) return;
  s.inference_processes = draw.between(1, 2);
  if ((draw.chance(0.3) || alone) && !has_scorers(s.config)) s.config.inference.count = 0;
  if (draw.chance(0.4)) s.transfer_breaks = 0.01;
  if (draw.chance(0.4)) s.transfer_damaged = 0.02;
}

// When the faults stop.
void draw_calm(Scenario& s) {
  Draw draw(s.seed, "calm");
  s.calm_after = static_cast<uint64_t>(draw.chance(0.5) ? draw.between(200, 2'000) : 4'000);
}

// What only token runs have.
void draw_tokens(Scenario& s) {
  const auto planted = [&](std::initializer_list<Mutation> any) { return sim::planted(s, any); };
  Draw late(s.seed, "late");
  if (s.config.replay.late == "drop" && (late.chance(0.5) || planted({Mutation::mask_lost})))
    s.config.replay.late = "mask";
  Draw scores(s.seed, "scores");
  if (scores.chance(0.3)) s.score_fails = 0.05;
  s.unscored =
      scores.chance(0.3) || planted({Mutation::score_zeroed, Mutation::scored_left_out, Mutation::failure_hidden});
  Draw verifiers(s.seed, "verifiers");
  if (verifiers.chance(0.6) || planted({Mutation::call_mixed})) draw_verifiers(verifiers, s);
  Draw fresh(s.seed, "new weights");
  const char* const choices[] = {"keep", "recompute", "finish"};
  s.config.generation.on_new_weights = choices[fresh.between(0, 2)];
  if (planted({Mutation::cells_kept})) s.config.generation.on_new_weights = "recompute";
  if (planted({Mutation::finish_ignored})) s.config.generation.on_new_weights = "finish";
  Draw baseline(s.seed, "baseline");
  if (planted({Mutation::baseline_of_another_prompt})) s.config.replay.filter_groups = false;
  if (!s.config.replay.filter_groups && (baseline.chance(0.2) || planted({Mutation::baseline_of_another_prompt})))
    s.config.algorithm.advantage = "remax";
  // Not drawn, so that older seeds stay what they were.
  if (s.seed % 3 == 0 || planted({Mutation::reference_moved, Mutation::reference_of_policy})) {
    give_scorers(s.config, s.seed);
    s.clock = std::min(s.clock, 0.05);  // all these actors report between two ticks
  }
  Draw turns(s.seed, "turns");
  if (turns.chance(0.3) || planted({Mutation::message_trained, Mutation::message_changed, Mutation::history_cut}))
    s.config.task.turns = turns.between(2, 3);
  Draw warmup(s.seed, "warm-up");
  if (!warmup.chance(0.3) && s.mutation != Mutation::warmup_counted) return;
  s.config.warmup.steps = warmup.between(1, 6);
  s.config.warmup.batch = 2;
  s.config.warmup.pass_at_1 = warmup.chance(0.5) ? 0.5 : 0;
}

}  // namespace

std::string Scenario::text() const {
  const RunConfig& c = config;
  return (is_token_run(c) ? text_of_tokens(c) : text_of_steps(c)) + " workers " + std::to_string(c.workers.count) +
         "+" + std::to_string(nodes) + " groups " + std::to_string(c.workers.groups) + " inference " +
         std::to_string(c.inference.count) + "+" + std::to_string(inference_processes) + " " + c.replay.mode + " lag " +
         std::to_string(c.replay.max_policy_lag) + " reuse " + std::to_string(c.replay.max_reuse) + " capacity " +
         std::to_string(c.replay.capacity) + " super_batch " + std::to_string(c.trainer.super_batch) +
         (c.trainer.shards > 1 ? " shards " + std::to_string(c.trainer.shards) : "") +
         (c.trainer.ranks > 1 ? " ranks " + std::to_string(c.trainer.ranks) : "") +
         (c.trainer.zero > 0 ? " zero, redundancy " + c.trainer.redundancy : "") +
         (rank_processes ? " in processes " : " ") + c.algorithm.advantage + " updates " +
         std::to_string(c.stop.updates) + " checkpoint " + std::to_string(c.checkpoint.every_updates) + " quarantine " +
         std::to_string(c.workers.quarantine_after) + (c.algorithm.kl == "full" ? " parameters" : "") +
         (c.checkpoint.keep_best > 0 ? " best " + std::to_string(c.checkpoint.keep_best) : "") +
         (given_weights > 0 ? " given weights" : "") + (row_broken > 0 ? " broken rows" : "") +
         (recurrence.state_size > 0 ? " recurrent, states every " + std::to_string(recurrence.sequence) : "");
}

Scenario draw_scenario(uint64_t seed, Mutation mutation, RunKind kind) {
  if (kind == RunKind::drawn) kind = drawn_kind(seed, mutation);
  const bool tokens = kind == RunKind::tokens;
  Draw draw(seed);
  for (;;) {
    Scenario s;
    s.seed = seed;
    s.mutation = mutation;
    s.config = tokens ? draw_token_config(draw, seed) : draw_config(draw, seed);
    s.nodes = draw.between(0, 2);
    s.schedule = static_cast<Schedule>(draw.between(0, 2));
    draw_faults(draw, s);
    tokens ? draw_tokens(s) : draw_control(s);
    give_shards(s);
    draw_inference_processes(s);
    draw_calm(s);
    Draw weights(seed, "weights");
    draw_weights(weights, s);
    if (s.config.workers.count + s.nodes == 0) continue;
    try {
      validate(s.config);
      return s;
    } catch (const ConfigError&) {  // such a run would not start; draw another
    }
  }
}

}  // namespace troupe::sim
