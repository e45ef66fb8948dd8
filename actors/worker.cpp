#include "actors/worker.h"

#include <algorithm>

#include <caf/event_based_actor.hpp>
#include <caf/scheduled_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/parts.h"
#include "actors/worker_core.h"
#include "runtime/base/log.h"
#include "runtime/base/process_stats.h"
#include "runtime/caf/system.h"

namespace troupe {

namespace {

using Self = WorkerActor::stateful_pointer<WorkerState>;

constexpr std::chrono::seconds kBeat{1};
constexpr std::chrono::seconds kBetweenFailureLines{60};

}  // namespace

class WorkerPortToActors : public WorkerPort {
 public:
  WorkerPortToActors(Self self, uint64_t worker, size_t chunk_bytes)
      : self_(self), worker_(worker), chunk_bytes_(chunk_bytes) {}

  void ask(ActRequest request) override { deliver(self_->state.peers.inference, std::move(request)); }
  void pause(uint32_t group) override { self_->send(self_->state.peers.inference, Pause{worker_, group}); }
  void push(RolloutPtr rollout) override { deliver(self_->state.peers.replay, RolloutMessage{std::move(rollout)}); }
  void retry_later(uint32_t group, std::chrono::milliseconds delay) override {
    self_->delayed_send(self_, delay, retry_atom_v, group);
  }
  void revive_later(uint32_t group, uint32_t row, std::chrono::milliseconds delay) override {
    self_->delayed_send(self_, delay, revive_atom_v, group, row);
  }

 private:
  // In one piece inside a process and when small, else in parts.
  template <class Service, class Message>
  void deliver(const Service& service, Message message) {
    if (!service) return;  // no inference actor yet; one that comes is asked again
    if (service.node() == self_->node() || payload_bytes(message) <= chunk_bytes_) {
      self_->send(service, std::move(message));
      return;
    }
    for (Part& part : split(serialize(self_->system(), message), ++streams_, chunk_bytes_))
      self_->send(service, std::move(part));
  }

  Self self_;
  uint64_t worker_;
  size_t chunk_bytes_;
  uint64_t streams_ = 0;
};

WorkerState::WorkerState() = default;
WorkerState::~WorkerState() = default;

namespace {

void report(Self self, bool last = false) {
  auto& st = self->state;
  WorkerReport report = st.core->report();
  report.last = last;
  report.rss_bytes = resident_bytes();
  self->send(st.peers.replay, report);
  report.partial.clear();  // counted by replay
  self->send(st.peers.stats, std::move(report));
}

// At the first failure of an environment and then from time to time.
void log_failures(Self self, const std::string& name) {
  auto& st = self->state;
  const WorkerReport report = st.core->report();
  const auto now = self->clock().now();
  if (report.env_failures == st.failures_logged || now < st.next_failure_line) return;
  st.next_failure_line = now + kBetweenFailureLines;
  log_warn(name, std::to_string(report.env_failures) + " environment failures so far; the last: " + report.last_error);
  st.failures_logged = report.env_failures;
}

// As a user can find it.
std::string name_of_inference(Self self) {
  const auto& peers = self->state.peers;
  if (!peers.inference) return "inference, of which there is none now";
  if (peers.inference.node() == self->node()) return "the inference actor of this process";
  const std::string node = to_string(peers.inference.node()), pid = node.substr(node.rfind('#') + 1);
  return (peers.inference.node() == peers.replay.node() ? "the inference actor of the run, process "
                                                        : "the inference process ") +
         pid;
}

// Once when requests have gone unanswered, at most once in kBetweenFailureLines, and once when answers come again.
void log_silence(Self self, const std::string& name) {
  auto& st = self->state;
  const uint32_t beats = st.core->beats_without_answer();
  const auto now = self->clock().now();
  if (beats == 0 && st.silence_logged) log_warn(name, "inference answers again");
  if (beats > 0 && !st.silence_logged) {
    if (now < st.next_silence_line) return;
    st.next_silence_line = now + kBetweenFailureLines;
    log_warn(name, "no answer from " + name_of_inference(self) + " for " + std::to_string((beats * kBeat).count()) +
                       " s; the worker keeps asking");
  }
  st.silence_logged = beats > 0;
}

// Inference takes no request of this worker: its environment is another one than the run's. Asking again would never
// help, and a worker that keeps its credits can hold up all others.
void end_refused(Self self, const ActReply& reply) {
  report(self, /*last=*/true);
  self->quit(make_error(Fault::incompatible, "inference refuses its requests: " + reply.error +
                                                 " (is the environment the same as in the run's program?)"));
}

// The worker asks again at once, so this is told from time to time.
void log_failed_forward(Self self, const std::string& name, const ActReply& reply) {
  auto& st = self->state;
  const auto now = self->clock().now();
  if (now < st.next_forward_line) return;
  st.next_forward_line = now + kBetweenFailureLines;
  log_warn(name, "inference failed: " + reply.error + "; the worker asks again");
}

// Inference has failed too often on a request. Its environments may be well, but make no step.
void end_failed(Self self, uint64_t worker, const std::string& error) {
  report(self, /*last=*/true);
  self->send(self->state.peers.replay, EnvironmentsFailing{worker, error});
  self->quit(make_error(Fault::forward_failed, error));
}

// Call it behind report(): replay first hears of the steps that were made.
void report_failing(Self self, uint64_t worker) {
  if (const auto error = self->state.core->failing())
    self->send(self->state.peers.replay, EnvironmentsFailing{worker, *error});
}

// The last reports of a worker that ends with an error, also when its environments could not even be made.
void report_end(Self self, uint64_t worker, const caf::error& fault) {
  auto& st = self->state;
  if (fault_of(fault) == Fault::not_restored) return;
  WorkerReport report;
  report.worker = worker;
  if (st.core) report = st.core->report();
  report.last = true;
  report.env_failures = std::max<uint64_t>(report.env_failures, 1);
  report.last_error = describe(fault);
  self->send(st.peers.replay, report);
  self->send(st.peers.stats, report);
  self->send(st.peers.replay, EnvironmentsFailing{worker, report.last_error});
}

}  // namespace

WorkerActor::behavior_type rollout_worker(Self self, RunContextPtr context, uint64_t worker, WorkerPeers peers) {
  self->set_exception_handler([self, worker](std::exception_ptr& pointer) {
    const caf::error fault = fault_of_exception(pointer);
    report_end(self, worker, fault);
    return fault;
  });
  auto& st = self->state;
  st.peers = peers;
  st.port =
      std::make_unique<WorkerPortToActors>(self, worker, static_cast<size_t>(context->config.network.chunk_bytes));
  st.core = std::make_unique<WorkerCore>(
      context->config, context->recurrence, worker, [context] { return context->make_env(context->config.env); },
      *st.port);
  self->monitor(peers.replay);
  if (peers.inference) self->monitor(peers.inference);
  self->set_down_handler([self](const caf::down_msg& down) {
    // The supervisor replaces an inference actor of a living run and tells us; the end of replay is the end of the run.
    if (down.source == self->state.peers.replay.address()) self->quit(make_error(Fault::peer_gone, "replay"));
  });
  self->send(self, begin_atom_v);
  const std::string name = "worker " + std::to_string(worker);
  // CAF would print it on the console.
  self->set_default_handler([name](caf::scheduled_actor* actor, caf::message_view& message) {
    log_warn(name, "a message that a worker does not know is dropped");
    return caf::drop(actor, message);
  });
  return {
      [self, context, worker, name](const ActReply& reply) {
        auto& st = self->state;
        if (reply.fault == Fault::bad_message) return end_refused(self, reply);
        if (reply.fault == Fault::forward_failed) log_failed_forward(self, name, reply);
        try {
          st.core->on_reply(reply);
        } catch (const InferenceFailed& failed) {
          return end_failed(self, worker, failed.what());
        }
        if (!context->deterministic || !st.core->failing()) return;
        report(self);  // its turn would never come
        report_failing(self, worker);
      },
      [self](const Credits& credits) { self->state.core->add_credits(credits.count); },
      [self, context, worker, name](begin_atom) {
        auto& st = self->state;
        st.core->begin();
        if (const std::string* state = context->state_of(name)) restoring([&] { st.core->load(*state); });
        self->send(st.peers.replay, WorkerHello{worker, st.core->groups(), st.core->samples_per_rollout()});
        beat_after(self, *context, kBeat);
      },
      [self](retry_atom, uint32_t group) { self->state.core->retry(group); },
      [self](revive_atom, uint32_t group, uint32_t row) { self->state.core->revive(group, row); },
      [self, context, worker, name](beat_atom) {
        self->state.core->beat();
        report(self);
        report_failing(self, worker);
        log_failures(self, name);
        log_silence(self, name);
        beat_after(self, *context, kBeat);
      },
      [self, name](const SaveMessage& save) { self->send(save.recorder, ActorState{name, self->state.core->save()}); },
      [self, worker](const InferenceReplaced& replaced) {
        auto& st = self->state;
        // The old one may live on: it must not wait for us.
        for (uint32_t group = 0; group < st.core->groups(); ++group)
          self->send(st.peers.inference, Pause{worker, group});
        st.peers.inference = replaced.inference;
        if (st.peers.inference) self->monitor(st.peers.inference);
        st.core->retry_all();
      },
      [self](const Stop&) {
        report(self, /*last=*/true);  // of what it leaves unfinished
        self->quit();
      },
  };
}

}  // namespace troupe
