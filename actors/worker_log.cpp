#include "actors/worker_log.h"

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/experience/common/sampler.h"
#include "runtime/base/log.h"

namespace troupe {

std::string worker_name(uint64_t worker) { return "worker " + std::to_string(worker); }

void log_asked_again(WorkerSelf self, const std::string& name, const std::string& why,
                     std::chrono::steady_clock::time_point& next_line) {
  const auto now = self->clock().now();
  if (now < next_line) return;
  next_line = now + kBetweenFailureLines;
  log_warn(name, why + "; the worker asks again");
}

void log_failed_scores(WorkerSelf self, const std::string& name, const ScoreReply& reply) {
  if (!reply.error.empty()) log_asked_again(self, name, "scoring failed: " + reply.error, self->state.next_score_line);
}

std::string name_of_inference(WorkerSelf self, const InferenceService& service) {
  const bool scorer = service == self->state.peers.scorer;
  const caf::node_id node = service.node();
  const std::string actor = scorer ? "the scorer" : "the inference actor";
  if (node == self->node()) return actor + " of this process";
  if (node == self->state.peers.replay.node()) return actor + " of the run, " + process_of(node);
  return (scorer ? "the scorer " : "the inference ") + process_of(node);
}

void log_failures(WorkerSelf self, const std::string& name) {
  auto& st = self->state;
  const WorkerReport report = st.sampler->report();
  const auto now = self->clock().now();
  if (report.env_failures == st.failures_logged || now < st.next_failure_line) return;
  st.next_failure_line = now + kBetweenFailureLines;
  log_warn(name, (st.failures_logged == 0
                      ? "an environment has failed: "
                      : std::to_string(report.env_failures) + " environment failures so far; the last: ") +
                     report.last_error);
  st.failures_logged = report.env_failures;
}

void log_first_failure(WorkerSelf self, const std::string& name) {
  if (self->state.failures_logged == 0 && self->state.sampler->env_failures() > 0) log_failures(self, name);
}

void log_silence(WorkerSelf self, const std::string& name) {
  auto& st = self->state;
  const uint32_t beats = st.sampler->beats_without_answer();
  const auto now = self->clock().now();
  if (beats == 0 && st.silence_logged) log_warn(name, "inference answers again");
  if (beats > 0 && !st.silence_logged) {
    if (now < st.next_silence_line) return;
    st.next_silence_line = now + kBetweenFailureLines;
    const Role role = st.sampler->silent_role();
    const InferenceService& service = st.peers.of(role);
    const std::string none = role == Role::sampling ? "inference, of which" : "scorers, of which";
    const std::string who = service ? name_of_inference(self, service) : none + " there is none now,";
    log_warn(name, "no answer from " + who + " for " + std::to_string((beats * kBeat).count()) +
                       " s; the worker keeps asking");
  }
  st.silence_logged = beats > 0;
}

}  // namespace troupe
