#pragma once
// Weight plane: how inference processes get weights, and what they report. These messages cross the network.

#include <cstdint>
#include <string>

#include "actors/messages/role.h"
#include "runtime/base/array.h"
#include "runtime/base/version.h"
#include "runtime/caf/inspect.h"
#include "runtime/weights/inference_index.h"
#include "runtime/weights/process_group.h"

namespace troupe {

// An inference actor serves this version from now on.
struct Applied {
  InferenceIndex inference_index = 0;
  PolicyVersion version;

  template <class I> friend typename I::result_type inspect(I& f, Applied& x) {
    return f(caf::meta::type_name("Applied"), x.inference_index, x.version);
  }
};

// This inference actor is gone or was removed from the run: it gets no weights, and nothing waits for it.
struct ReceiverGone {
  InferenceIndex inference_index = 0;
  Role role = Role::sampling;

  template <class I> friend typename I::result_type inspect(I& f, ReceiverGone& x) {
    return f(caf::meta::type_name("ReceiverGone"), x.inference_index, x.role);
  }
};

// To the process of this inference actor: join this process group to receive weights.
struct Invitation {
  InferenceIndex inference_index = 0;
  Rendezvous rendezvous;

  template <class I> friend typename I::result_type inspect(I& f, Invitation& x) {
    return f(caf::meta::type_name("Invitation"), x.inference_index, x.rendezvous);
  }
};

// To the process of this inference actor: the run has removed it, for the reason `why`. It may join again.
struct Expelled {
  InferenceIndex inference_index = 0;
  std::string why;

  template <class I> friend typename I::result_type inspect(I& f, Expelled& x) {
    return f(caf::meta::type_name("Expelled"), x.inference_index, x.why);
  }
};

// From an inference process: it has weights and can answer requests of workers.
struct Serving {
  InferenceIndex inference_index = 0;

  template <class I> friend typename I::result_type inspect(I& f, Serving& x) {
    return f(caf::meta::type_name("Serving"), x.inference_index);
  }
};

struct InferenceReport {
  InferenceIndex inference_index = 0;
  PolicyVersion version;
  uint64_t batches = 0;  // cumulative
  uint64_t rows = 0;
  uint64_t full = 0;
  uint64_t timeout = 0;
  uint64_t all_waiting = 0;
  uint64_t failed = 0;   // batches whose forward threw
  uint64_t busy_us = 0;  // time in handlers, cumulative like the counts
  Array batch_rows;      // [n] int32 of the batches since the last report
  Array latency_us;      // [n] float32 from the oldest request's arrival to the reply
  Role role = Role::sampling;
  // Of token runs, cumulative.
  uint64_t mixed_answers = 0;    // with tokens of several versions
  uint64_t recomputed = 0;       // tokens whose keys and values were computed anew with new weights
  uint64_t waited_steps = 0;     // made while newer weights waited for answers in progress
  uint64_t weights_wait_us = 0;  // that newer weights waited so
  uint64_t histories = 0;        // tokens of the turns before those that were asked for
  uint64_t reused = 0;           // those of them whose keys and values were still there

  template <class I> friend typename I::result_type inspect(I& f, InferenceReport& x) {
    return f(caf::meta::type_name("InferenceReport"), x.inference_index, x.version, x.batches, x.rows, x.full,
             x.timeout, x.all_waiting, x.failed, x.busy_us, x.batch_rows, x.latency_us, x.role, x.mixed_answers,
             x.recomputed, x.waited_steps, x.weights_wait_us, x.histories, x.reused);
  }
};

}  // namespace troupe
