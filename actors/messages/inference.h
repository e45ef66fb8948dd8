#pragma once
// Inference plane: requests of workers to inference actors, and the replies. These messages cross the network.

#include <cstdint>
#include <string>
#include <variant>

#include "actors/messages/role.h"
#include "models/experience/answer_request.h"
#include "models/experience/rollout.h"
#include "models/experience/step_request.h"
#include "runtime/base/array.h"
#include "runtime/base/errors.h"
#include "runtime/base/version.h"
#include "runtime/caf/inspect.h"
#include "runtime/caf/inspect_kinds.h"

namespace troupe {

// The bodies of requests: those for sampling in the order of Experience, and that for scores.
using RequestBody = std::variant<StepRequest, AnswerRequest, ScoringRequest>;
static_assert(std::variant_size_v<RequestBody> == kExperiences + 1);

inline Role role_of(const RequestBody& body) {
  return std::holds_alternative<ScoringRequest>(body) ? Role::scoring : Role::sampling;
}

// A request of one group of a worker, or one for scores of its answers, which has a number of its own in place of the
// group's (Sampler). One that comes again with the same id while it is in progress is answered once.
struct InferenceRequest {
  uint64_t id = 0;  // chosen by the client, echoed in the reply
  uint64_t worker = 0;
  uint32_t group = 0;
  RequestBody body;

  // The body. Throws std::bad_variant_access if it is of the other kind.
  const StepRequest& steps() const { return std::get<StepRequest>(body); }
  StepRequest& steps() { return std::get<StepRequest>(body); }
  const AnswerRequest& answers() const { return std::get<AnswerRequest>(body); }
  AnswerRequest& answers() { return std::get<AnswerRequest>(body); }

  template <class I> friend typename I::result_type inspect(I& f, InferenceRequest& x) {
    return inspect_kinds(f, x.body, [&](uint8_t& kind) {
      return f(caf::meta::type_name("InferenceRequest"), x.id, x.worker, x.group, kind);
    });
  }
};

// The body of a reply with a fault, or of one that only says that the request is in progress.
struct NoResult {
  template <class Self, class Use> static decltype(auto) fields(Self&, Use&& use) { return use(); }
};

// The bodies of replies: after NoResult in the order of RequestBody.
using ReplyBody = std::variant<NoResult, StepReply, AnswerReply, ScoringReply>;
static_assert(std::variant_size_v<ReplyBody> == std::variant_size_v<RequestBody> + 1);

struct InferenceReply {
  uint64_t id = 0;
  uint32_t group = 0;
  PolicyVersion version;  // that computed it; of an answer, its last token
  Fault fault = Fault::none;
  std::string error;
  ReplyBody body;

  // The request has arrived and its result takes longer: another reply follows.
  bool in_progress() const { return fault == Fault::none && std::holds_alternative<NoResult>(body); }
  // The body. Throws std::bad_variant_access if it is of another kind.
  const StepReply& steps() const { return std::get<StepReply>(body); }
  StepReply& steps() { return std::get<StepReply>(body); }
  const AnswerReply& answers() const { return std::get<AnswerReply>(body); }
  AnswerReply& answers() { return std::get<AnswerReply>(body); }

  template <class I> friend typename I::result_type inspect(I& f, InferenceReply& x) {
    return inspect_kinds(f, x.body, [&](uint8_t& kind) {
      return f(caf::meta::type_name("InferenceReply"), x.id, x.group, x.version, x.fault, x.error, kind);
    });
  }
};

// Batches must not wait for this client until its next request. If it has a request, that is withdrawn.
struct Pause {
  uint64_t worker = 0;
  uint32_t group = 0;

  template <class I> friend typename I::result_type inspect(I& f, Pause& x) {
    return f(caf::meta::type_name("Pause"), x.worker, x.group);
  }
};

// The message that the parts form together.
enum class PartOf : uint8_t {
  request = 0,
  reply = 1,
  rollout = 2,
  report = 3,
  rank_state = 4,
  rank_samples = 5,
  rank_said = 6,
  round_said = 7,
  rank_moments = 8,
  rank_copy = 9,
};

// A piece of a message that is too large for one (actors/parts.h).
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
