#pragma once
// The measurements behind `troupe bench`. Each takes about `seconds`, turn by turn with what it is compared to, so that
// a slow spell of the machine hits both; ratios are medians over the turns. They run the actors of a real run; what a
// benchmark leaves out is replaced by the benchmark itself at the actors' own interfaces.

#include <string>
#include <vector>

namespace troupe {

struct BenchReport {
  std::string json;                // one object, without line breaks
  std::vector<std::string> lines;  // the same for people
};

// Rows per second through worker, inference actor and replay, against the bare policy: in this process, and with the
// worker in a second one over loopback. Starts `troupe worker` from this program's folder.
BenchReport bench_sampling(double seconds);
// What asking the inference actor costs over the forward it runs, and how well it keeps a deadline.
BenchReport bench_inference(double seconds);
// What an update by the trainer costs over a bare loop, and how long the trainer waits when data is plenty.
BenchReport bench_trainer(double seconds);
// Time of sharing 1e3 to 1e5 sequences out among ranks, and how even the shares are, beside greedy and the lower bound.
BenchReport bench_balance(double seconds);
// Loss, gradient and diagnostics of every policy surrogate in one pass over 512 x 2048 tokens, against reading and
// writing as much.
BenchReport bench_surrogate(double seconds);
// Bandwidth of GAE and its relatives, and of V-trace, over sequence length, layout, instruction set and threads,
// against a kernel that only reads and writes.
BenchReport bench_gae(double seconds);
BenchReport bench_vtrace(double seconds);
// Log-probabilities and entropies from 256 rows of 152064 logits, and their gradient, against reading or copying the
// logits.
BenchReport bench_logprob(double seconds);

}  // namespace troupe
