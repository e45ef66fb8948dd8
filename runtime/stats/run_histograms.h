#pragma once
// The histograms of a run, of this start (deterministic runs: of the run). Plain data; any thread.

#include "runtime/stats/histogram.h"

namespace troupe {

struct RunHistograms {
  Histogram inference_seconds;  // from a batch's oldest request to the replies
  Histogram batch_rows;
  Histogram lag;  // updates, of the samples that updates have trained
  Histogram update_seconds;
  Histogram step_seconds;    // of a step of one environment
  Histogram answer_seconds;  // token runs: from a request for answers to the reply with them

  // Leaves what does not depend on the machine's speed.
  void forget_times() { inference_seconds = update_seconds = step_seconds = answer_seconds = {}; }
};

}  // namespace troupe
