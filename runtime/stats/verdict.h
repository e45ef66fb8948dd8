#pragma once
// The verdict on what limits a run, as a value: find_bottleneck() (runtime/stats/bottleneck.h) makes it. Plain data;
// any thread.

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace troupe {

// What a run does not have enough of.
enum class Resource : uint8_t {
  unknown,         // not known, or not known yet
  none,            // nothing limits the run
  workers,         // workers: there are too few, they fail, or they are busy with other things than steps
  env_stepping,    // the time of environment steps; in token runs, of scores
  inference,       // inference actors
  scorers,         // scorers
  deadline,        // batches of requests wait for inference.timeout_us
  batch_size,      // batches of requests are too small: all leave full
  trainer,         // the trainer
  exchange,        // the time in which ranks wait for each other
  replay,          // the replay buffer: its time, or its room
  prefetcher,      // the preparation of super-batches
  lag_cap,         // replay.max_policy_lag: sampling and training wait for each other
  disk,            // the time of checkpoints
  evaluation,      // the time of evaluations
  machine,         // its processors, which the run keeps busy
  oversubscribed,  // its processors, which other programs keep busy
  straggler,       // one worker is slower than the others, which wait
  waste,           // samples are dropped or filtered
};

// As in the JSON: "env_stepping".
std::string_view name_of(Resource resource);
// `unknown` for a name that is none, as of another version of this program.
Resource resource_of(std::string_view name);
// The part of the run that this belongs to: "workers", "inference", "replay", "prefetcher", "trainer", or "machine"
// (all its processors); empty where it belongs to none.
std::string_view limit_of(Resource resource);

struct Bottleneck {
  static constexpr double kNotKnown = std::numeric_limits<double>::quiet_NaN();

  std::string what = {};    // the verdict, like "sampling": at most 34 columns; empty once training has ended
  std::string why = {};     // its reason, like "the trainer waits 63 % of the time"; may be empty
  std::string advice = {};  // what would help; may be empty
  std::string limit = {};   // limit_of(resource)
  Resource resource = Resource::unknown;
  double share = kNotKnown;  // of time, 0 to 1: that the resource is busy, or that others wait for it
  double gain = kNotKnown;   // expected with twice as much of it, 1 = twice as fast (runtime/stats/expected_gain.h)
  std::string waits = {};    // the part that waits for it: "trainer" or "workers"; empty: none, or not known
};

}  // namespace troupe
