#pragma once
// The measurements of `troupe bench`. Each takes about `seconds` and alternates with the code that it is compared with,
// so that a slow phase of the machine affects both; ratios are medians over the turns. They run the actors of a real
// run. The benchmark takes the place of the actors that are left out, at their interfaces.

#include <string>
#include <vector>

#include "tools/cli/bench_command.h"

namespace troupe {

struct BenchReport {
  std::string json;                // one object, without line breaks
  std::vector<std::string> lines;  // the same as text
  bool failed = false;             // what was measured is not as it has to be
};

// Builds a bottleneck of each kind, with parts that sleep, and tells whether the verdict names it, the gain that it
// predicts, and the gain of the change that it advises. At least 3 minutes; more repeats with more seconds. Failed if
// more than one verdict is wrong.
BenchReport bench_verdicts(double seconds);
// What the figures of a run cost: the events that each environment step records, next to the processor time of a step
// in a run on CartPole, and the time of the actors that make them. Failed if the events take more than 0.5 %.
BenchReport bench_stats(double seconds);
// Rows per second through worker, inference actor and replay buffer, compared with the policy alone: in this process,
// and with the worker in a second process over loopback. Starts `troupe worker` from this program's folder.
BenchReport bench_sampling(double seconds);
// The overhead of a request to the inference actor over its forward pass, and how well it keeps a deadline.
BenchReport bench_inference(double seconds);
// The overhead of an update by the trainer over a plain loop, and how long the trainer waits if data is always ready.
BenchReport bench_trainer(double seconds);
// Updates of a control policy on one rank that has all shards and one thread, and on several ranks of one thread each,
// of which all but the first are processes of their own; with the same made-up samples and in turns. At least two
// updates in each way.
//
// With a limit on the connections of the ranks (tools/bench/relay.h) also what share of the transfers is hidden behind
// computation: 1 - (T_ranks - T_compute) / T_transfers, of rank 0, where
//   T_ranks      is the time of an update over the limited connections,
//   T_compute    that of an update over connections without a limit, less its stages.exchange, the time in which rank
//                0 waits for the other ranks or sends to them: it computes for so long,
//   T_transfers  the bytes that pass the connection of a rank in an update, divided by the limit: the samples of its
//                shards, and everything that it exchanges. The sum of both directions, as if they took turns; and the
//                longer direction alone, as both may pass at once.
// The difference is that of the same turn, its median over the turns: on a machine whose speed changes, only many turns
// tell. So 0 means that all transfers, one after the other, come on top of the computation, and 1 that they cost
// nothing. All else that takes time also counts against it: processor time of messages, ranks that wait for a slower
// one, delays of the relay. With the longer direction the share may be below 0.
BenchReport bench_trainer_ranks(const TrainerBenchOptions& options, double seconds);
// The time in which two ranks, of which one is a process of its own, exchange gradients over loopback: from the result
// of a round to that of the next, which is a message of that size in each direction. The learners compute nothing.
BenchReport bench_exchange(int64_t bytes, double seconds);
// The time of a draw from a full buffer over the number of its samples, and of a credit over the number of workers.
BenchReport bench_replay(double seconds);
// The time of distributing 1e3 to 1e5 sequences over ranks, and the imbalance, next to greedy and the lower bound.
BenchReport bench_balance(double seconds);
// Loss, gradient and diagnostics of every policy surrogate in one pass over 512 x 2048 tokens, compared with reading
// and writing as many bytes.
BenchReport bench_surrogate(double seconds);
// Bandwidth of GAE and its relatives, and of V-trace, over sequence length, layout, instruction set and threads,
// compared with a kernel that only reads and writes.
BenchReport bench_gae(double seconds);
BenchReport bench_vtrace(double seconds);
// Log-probabilities and entropies from 256 rows of 152064 logits, and their gradient, compared with reading or
// copying the logits.
BenchReport bench_logprob(double seconds);

// Steps per second of 32 and of 8 rows of an environment in Python, compared with a loop in Python that steps them one
// after the other. Needs Gymnasium in python3.
BenchReport bench_bridge(double seconds);

// Steps per CPU-second of 32 rows of environments mujoco:ID, compared with a loop that only calls MuJoCo, and with
// Gymnasium's if python3 has gymnasium[mujoco]. Needs MuJoCo (tools/fetch_mujoco).
BenchReport bench_mujoco(double seconds);

// GFLOP/s of the matrix products of language models, compared with LibTorch's and with multiply-adds in registers.
BenchReport bench_gemm(double seconds);
// Tokens per second of a decoder that answers prompts, and of one that learns from answers, compared with what the
// processor's multiply-adds and the memory's bandwidth allow. Random weights in the shapes of a character model and of
// SmolLM2-135M.
BenchReport bench_generate(double seconds);
BenchReport bench_lm_train(double seconds);
// The time of an optimizer step on answers of very different lengths with micro-batches as the trainer cuts them,
// compared with ones of an equal number of answers that stay below the same limit of tokens, without and with padding.
BenchReport bench_micro_batches(double seconds);
// The time of an optimizer step on answers with the figures of the lag, and with the pass of a correction at the start
// of an update too, compared with that of the step alone.
BenchReport bench_lag_figures(double seconds);

}  // namespace troupe
