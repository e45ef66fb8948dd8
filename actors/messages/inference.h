#pragma once
// Inference plane: requests of workers to inference actors, and the replies. These messages cross the network.

#include <cstdint>
#include <string>

#include "runtime/base/array.h"
#include "runtime/base/errors.h"
#include "runtime/base/version.h"
#include "runtime/caf/inspect.h"

namespace troupe {

// A request of one vector environment for actions (rows may be 0), and for values of other observations: final ones,
// and those after the end of a rollout.
struct ActRequest {
  uint64_t id = 0;  // chosen by the client, echoed in the reply
  uint64_t worker = 0;
  uint32_t group = 0;
  uint64_t rows = 0;
  Arrays observations;        // each [N, ...]
  Array action_mask;          // [N, M] uint8, or empty
  Array seeds;                // [N] int64
  Arrays value_observations;  // each [F, ...], or empty
  // With a recurrent model, as in ActInput. value_state holds the states after the steps that led to the value
  // observations.
  Array state;        // [N, S] float32
  Array starts;       // [N] uint8
  Array value_state;  // [F, S] float32

  template <class I> friend typename I::result_type inspect(I& f, ActRequest& x) {
    return f(caf::meta::type_name("ActRequest"), x.id, x.worker, x.group, x.rows, x.observations, x.action_mask,
             x.seeds, x.value_observations, x.state, x.starts, x.value_state);
  }
};

struct ActReply {
  uint64_t id = 0;
  uint32_t group = 0;
  PolicyVersion version;
  Array actions;       // [N, K, A]
  Array log_probs;     // [N, D]
  Array values;        // [N]
  Array extra_values;  // [F] of value_observations
  Array state;         // [N, S] after the observations, with a recurrent model
  Fault fault = Fault::none;
  std::string error;
  Array policy_parameters;  // [N, P] where rollouts carry them

  template <class I> friend typename I::result_type inspect(I& f, ActReply& x) {
    return f(caf::meta::type_name("ActReply"), x.id, x.group, x.version, x.actions, x.log_probs, x.values,
             x.extra_values, x.fault, x.error, x.state, x.policy_parameters);
  }
};

// Token runs: a request for answers to a prompt. A request that is sent again with the same id is answered once.
struct GenerateRequest {
  uint64_t id = 0;  // chosen by the client, echoed in the reply
  uint64_t worker = 0;
  uint32_t group = 0;
  Array prompt;  // [P] int32 token ids
  Array keys;    // [n] int64, one per answer: the key of its random stream

  template <class I> friend typename I::result_type inspect(I& f, GenerateRequest& x) {
    return f(caf::meta::type_name("GenerateRequest"), x.id, x.worker, x.group, x.prompt, x.keys);
  }
};

struct GenerateReply {
  uint64_t id = 0;
  uint32_t group = 0;
  uint32_t epoch = 0;  // of the policy versions
  Array tokens;        // [T] int32, answer after answer
  Array offsets;       // [n + 1] int64
  Array log_probs;     // [T] float32
  Array version;       // [T] int64 policy version number
  Array finish;        // [n] uint8, a value of Finish
  Fault fault = Fault::none;
  std::string error;

  template <class I> friend typename I::result_type inspect(I& f, GenerateReply& x) {
    return f(caf::meta::type_name("GenerateReply"), x.id, x.group, x.epoch, x.tokens, x.offsets, x.log_probs, x.version,
             x.finish, x.fault, x.error);
  }
};

// Batches must not wait for this client until its next request.
struct Pause {
  uint64_t worker = 0;
  uint32_t group = 0;

  template <class I> friend typename I::result_type inspect(I& f, Pause& x) {
    return f(caf::meta::type_name("Pause"), x.worker, x.group);
  }
};

// The message that the parts form together.
enum class PartOf : uint8_t { request = 0, reply = 1, rollout = 2, report = 3 };

// A piece of an ActRequest, ActReply, GenerateRequest, GenerateReply, RolloutMessage or WorkerReport that is too large
// for one message (actors/parts.h).
struct Part {
  PartOf of = PartOf::request;
  uint64_t stream = 0;
  uint32_t index = 0;
  uint32_t count = 0;
  Array data;  // uint8

  template <class I> friend typename I::result_type inspect(I& f, Part& x) {
    return f(caf::meta::type_name("Part"), x.of, x.stream, x.index, x.count, x.data);
  }
};

}  // namespace troupe
