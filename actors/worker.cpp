#include "actors/worker.h"

#include <algorithm>
#include <utility>

#include <caf/event_based_actor.hpp>
#include <caf/scheduled_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/experience/kinds.h"
#include "actors/grader_actor.h"
#include "actors/score_queue.h"
#include "actors/spec_fields.h"
#include "actors/worker_log.h"
#include "runtime/base/log.h"
#include "runtime/caf/system.h"

namespace troupe {

class SamplerPortToActors final : public SamplerPort {
 public:
  // `scores_at_once`: scores are computed on the worker's thread, in a deterministic run.
  SamplerPortToActors(WorkerSelf self, uint64_t worker, size_t chunk_bytes, ScoreQueue::Graders graders,
                      bool scores_at_once)
      : self_(self),
        worker_(worker),
        chunk_bytes_(chunk_bytes),
        scores_at_once_(scores_at_once),
        queue_(std::move(graders)) {}

  void ask(InferenceRequest request) override {
    const InferenceService& service = self_->state.peers.of(role_of(request.body));
    if (service) deliver(service, std::move(request));  // otherwise ask_all_again() sends it to the next one
  }
  void pause(uint32_t group) override { self_->send(self_->state.peers.inference, Pause{worker_, group}); }
  void push(RolloutPtr rollout) override { deliver(self_->state.peers.replay, RolloutMessage{std::move(rollout)}); }
  void score(ScoreRequest request) override {
    if (!scores_at_once_) {
      queue_.add(std::move(request), self_->clock().now());
      return send_to_graders();
    }
    const ScoreReply reply = queue_.score_at_once(request);
    log_failed_scores(self_, worker_name(worker_), reply);
    self_->state.sampler->on_scores(reply);
  }
  void add_idle(const GraderActor& grader) {
    queue_.add_idle(grader);
    send_to_graders();
  }
  VerifierFigures verifier_figures() const { return queue_.figures(self_->clock().now()); }
  void report(WorkerReport report) { deliver(self_->state.peers.replay, std::move(report)); }
  void wake_later(uint32_t group, uint32_t item, std::chrono::milliseconds delay) override {
    self_->delayed_send(self_, delay, wake_atom_v, group, item);
  }
  std::chrono::steady_clock::time_point now() const override { return self_->clock().now(); }

 private:
  void send_to_graders() {
    while (auto next = queue_.next(self_->clock().now())) self_->send(next->second, std::move(next->first));
  }
  template <class Service, class Message>
  void deliver(const Service& service, Message message) {
    send_in_parts(self_, service, std::move(message), chunk_bytes_, streams_);
  }

  WorkerSelf self_;
  uint64_t worker_;
  size_t chunk_bytes_;
  bool scores_at_once_;
  ScoreQueue queue_;
  uint64_t streams_ = 0;
};

WorkerState::WorkerState() = default;
WorkerState::~WorkerState() = default;

namespace {

void send_report(WorkerSelf self, WorkerReport report) {
  auto& st = self->state;
  report.last_error.resize(std::min(report.last_error.size(), kMostErrorBytes));
  WorkerTimes times = std::exchange(report.times, {});  // only stats needs it
  if (st.port)
    st.port->report(report);
  else
    self->send(st.peers.replay, report);
  report.partial.clear();  // only replay needs it
  report.times = std::move(times);
  self->send(st.peers.stats, std::move(report));
}

void report(WorkerSelf self, bool last = false) {
  WorkerReport report = self->state.sampler->report();
  report.last = last;
  report.times = self->state.sampler->take_times();
  WorkerMemory::fill(report, self->state.peers.replay.node() == self->node());
  report.busy_us = self->busy_us() + (self->state.graders.empty() ? 0 : report.step_us);
  report.verifier = self->state.port->verifier_figures();
  report.without_scorer = !self->state.peers.scorer && self->state.sampler->waits_for_scorer();
  send_report(self, std::move(report));
}

void send_failing(WorkerSelf self, uint64_t worker, const std::string& error) {
  self->send(self->state.peers.replay, EnvironmentsFailing{worker, error.substr(0, kMostErrorBytes)});
}

bool is_of_run(WorkerSelf self) { return self->state.peers.replay.node() == self->node(); }

// Ends the worker because inference refused its requests twice in a row: its environment or its task differs from the
// run's. Asking again cannot help, and a worker that keeps its credits can block all others.
void end_refused(WorkerSelf self, const InferenceReply& reply) {
  report(self, /*last=*/true);
  self->quit(make_error(Fault::incompatible,
                        self->state.sampler->what_failed(reply.group) + " refuses its requests: " + reply.error +
                            " (are the environment and the task the same as in the run's program?)"));
}

// Ends the worker because inference or scoring has failed too often on one request. It counts as a worker whose
// environments fail, because they make no step.
void end_failed(WorkerSelf self, uint64_t worker, Fault fault, const std::string& error) {
  report(self, /*last=*/true);
  send_failing(self, worker, error);
  self->quit(make_error(fault, error));
}

// Calls a function of the sampler. False if the sampler has given up: the worker then ends.
template <class Call>
bool go_on(WorkerSelf self, uint64_t worker, Call call) {
  try {
    call();
    return true;
  } catch (const InferenceFailed& failed) {
    end_failed(self, worker, Fault::forward_failed, failed.what());
  } catch (const ScoringFailed& failed) {
    end_failed(self, worker, Fault::score_failed, failed.what());
  }
  return false;
}

// Call it after report(): replay must first count the steps that were made.
void report_failing(WorkerSelf self, uint64_t worker) {
  if (const auto error = self->state.sampler->failing()) send_failing(self, worker, *error);
}

// Reports a failure at once, where the next beat may be behind further calls of environments that do not return.
void report_failure(WorkerSelf self, uint64_t worker, const std::string& name) {
  if (!self->state.sampler->failing()) return;
  report(self);
  report_failing(self, worker);
  log_failures(self, name);
}

// Inference has sent an invalid message. If this worker is in the run's process and the inference actor is not, that
// actor is told to end, and the supervisor logs its end. A worker in another process only logs it: it must not be able
// to end inference actors.
void refuse_inference(WorkerSelf self, const std::string& name, const std::string& why) {
  const caf::strong_actor_ptr sender = self->current_sender();
  if (!sender) return;
  if (is_of_run(self) && sender->node() != self->node())
    self->send_exit(caf::actor_cast<caf::actor>(sender), make_error(Fault::bad_message, why));
  else
    log_asked_again(self, name, name_of_inference(self, caf::actor_cast<InferenceService>(sender)) + ": " + why,
                    self->state.next_forward_line);
}

// Handles a refused request; returns whether the worker has ended. In the run's process the worker's environment is the
// run's own, so a refusal by another process is that process's fault.
bool is_refused(WorkerSelf self, const std::string& name, const InferenceReply& reply) {
  if (reply.fault != Fault::bad_message || !self->state.sampler->awaits(reply)) return false;
  const caf::strong_actor_ptr& sender = self->current_sender();
  if (is_of_run(self) && sender && sender->node() != self->node()) {
    refuse_inference(self, name, "it refuses a request of " + name + " of the run: " + reply.error);
    return false;
  }
  bool& refused = self->state.refused[static_cast<size_t>(self->state.sampler->role_of(reply.group))];
  if (!std::exchange(refused, true)) return false;  // it may have been damaged on its way: ask once more
  end_refused(self, reply);
  return true;
}

void on_reply(WorkerSelf self, const RunContext& context, uint64_t worker, const std::string& name,
              const InferenceReply& reply) {
  if (is_refused(self, name, reply)) return;
  if (reply.fault != Fault::bad_message)
    self->state.refused[static_cast<size_t>(self->state.sampler->role_of(reply.group))] = false;
  if (reply.fault == Fault::forward_failed)
    log_asked_again(self, name, self->state.sampler->what_failed(reply.group) + " failed: " + reply.error,
                    self->state.next_forward_line);
  const auto begun = self->clock().now();
  const bool goes_on = go_on(self, worker, [&] {
    if (const auto why = self->state.sampler->on_reply(reply))
      refuse_inference(self, name, "a reply does not fit its request: " + *why);
  });
  if (!goes_on) return;
  log_first_failure(self, name);
  // In a deterministic run a beat comes when all actors are idle, which they never are while requests or environments
  // fail.
  if (context.deterministic || self->clock().now() - begun >= kBeat) report_failure(self, worker, name);
}

void on_scores(WorkerSelf self, uint64_t worker, const std::string& name, const ScoreReplies& replies) {
  for (const ScoreReply& reply : replies.of) log_failed_scores(self, name, reply);
  const auto grader = std::ranges::find(self->state.graders, caf::actor_cast<caf::actor_addr>(self->current_sender()),
                                        &GraderActor::address);
  if (grader != self->state.graders.end()) self->state.port->add_idle(*grader);
  go_on(self, worker, [&] {
    for (const ScoreReply& reply : replies.of) self->state.sampler->on_scores(reply);
  });
}

void on_part(WorkerSelf self, const RunContext& context, uint64_t worker, const std::string& name, const Part& part) {
  auto& st = self->state;
  const caf::strong_actor_ptr& sender = self->current_sender();
  // The worker waits only for its current inference actor and scorer. Parts from a former one are too late.
  const auto is_from = [&](const InferenceService& service) {
    return sender && service && sender->address() == service.address();
  };
  if (!is_from(st.peers.inference) && !is_from(st.peers.scorer)) return;
  InferenceReply reply;
  try {
    TROUPE_CHECK(part.of == PartOf::reply, static_cast<int>(part.of));
    const auto whole = st.parts.add(sender->address(), part);
    if (!whole) return;
    reply = deserialize<InferenceReply>(self->system(), *whole);
  } catch (const std::exception& e) {
    return refuse_inference(self, name, std::string("a reply in parts is damaged: ") + e.what());
  }
  on_reply(self, context, worker, name, reply);
}

void replace_inference(WorkerSelf self, uint64_t worker, const InferenceReplaced& replaced) {
  auto& st = self->state;
  InferenceService& service = st.peers.of(replaced.role);
  // The old one may still serve other workers, and its batches must not wait for this one.
  const auto [first, end] = st.sampler->requests_of(replaced.role);
  for (uint32_t group = first; group < end; ++group) self->send(service, Pause{worker, group});
  if (service) st.parts.forget(service.address());
  service = replaced.inference;
  if (service) self->monitor(service);
  st.sampler->ask_all_again(replaced.role);
}

// Sends the last reports of a worker that ends with an error. It may have no sampler, if its environments could
// not be made.
void report_end(WorkerSelf self, uint64_t worker, const caf::error& fault) {
  auto& st = self->state;
  if (fault_of(fault) == Fault::not_restored) return;
  WorkerReport report;
  report.worker = worker;
  if (st.sampler) report = st.sampler->report();
  if (st.port) report.verifier = st.port->verifier_figures();
  report.last = true;
  report.env_failures = std::max<uint64_t>(report.env_failures, 1);
  report.last_error = describe(fault);
  const std::string error = report.last_error;
  send_report(self, std::move(report));
  send_failing(self, worker, error);
}

}  // namespace

WorkerActor::behavior_type worker_actor(WorkerSelf self, RunContextPtr context, uint64_t worker, WorkerPeers peers) {
  self->set_exception_handler([self, worker](std::exception_ptr& pointer) {
    const caf::error fault = fault_of_exception(pointer);
    report_end(self, worker, fault);
    return fault;
  });
  if (context->board) self->watch(context->board->add(self->state.name));
  auto& st = self->state;
  st.peers = peers;
  const ExperienceKind& kind = kind_of(*context);
  const ScoreQueue::Graders graders = kind.make_graders(*context);
  st.port = std::make_unique<SamplerPortToActors>(
      self, worker, static_cast<size_t>(context->config.network.chunk_bytes), graders, context->deterministic);
  st.sampler = kind.make_sampler(*context, *context, worker, *st.port);
  const size_t most = kind.most_bytes_of_reply(*context);
  st.parts = PartAssembler(most, 2 * most);  // of inference, and of a scorer
  for (const std::shared_ptr<Grader>& grader : graders) {
    if (context->deterministic) break;
    st.graders.push_back(spawn_on(self->system(), context->threads, grader_actor, grader, WorkerActor(self), context));
    self->monitor(st.graders.back());
    st.port->add_idle(st.graders.back());
  }
  self->monitor(peers.replay);
  if (peers.inference) self->monitor(peers.inference);
  if (peers.scorer) self->monitor(peers.scorer);
  self->set_down_handler([self](const caf::down_msg& down) {
    // If the inference actor ended, the supervisor sends a new one. If replay ended, the run has ended.
    self->state.parts.forget(down.source);
    if (down.source == self->state.peers.replay.address()) self->quit(make_error(Fault::peer_gone, "replay"));
    if (std::ranges::find(self->state.graders, down.source, &GraderActor::address) != self->state.graders.end()) {
      report(self, /*last=*/true);
      self->quit(make_error(Fault::internal, "its grader has ended: " + describe(down.reason)));
    }
  });
  self->send(self, begin_atom_v);
  const std::string name = worker_name(worker);
  drop_strange_messages(self, name);
  return {
      [self, context, worker, name](const InferenceReply& reply) { on_reply(self, *context, worker, name, reply); },
      [self, context, worker, name](const Part& part) { on_part(self, *context, worker, name, part); },
      [self, worker, name](const ScoreReplies& replies) { on_scores(self, worker, name, replies); },
      [self](const Credits& credits) { self->state.sampler->add_credits(credits.count); },
      [self, context, worker, name](begin_atom) {
        auto& st = self->state;
        st.sampler->begin(st.peers.epoch);
        if (const std::string* state = context->state_of(name)) {
          restoring([&] { st.sampler->load(*state); });
          st.failures_logged = st.sampler->env_failures();
        }
        self->send(st.peers.replay,
                   WorkerHello{worker, st.sampler->groups(), st.sampler->samples_per_rollout(), spec_fields(*context)});
        log_first_failure(self, name);
        report_failure(self, worker, name);
        beat_after(self, *context, kBeat);
      },
      [self, worker](wake_atom, uint32_t group, uint32_t item) {
        go_on(self, worker, [&] { self->state.sampler->wake(group, item); });
      },
      [self, context, worker, name](beat_atom) {
        self->state.sampler->beat();
        report(self);
        report_process(self, *context, self->state.peers.stats);
        report_failing(self, worker);
        log_failures(self, name);
        log_silence(self, name);
        beat_after(self, *context, kBeat);
      },
      [self, name](const SaveMessage& save) {
        self->send(save.recorder, ActorState{name, self->state.sampler->save()});
      },
      [self, worker](const InferenceReplaced& replaced) { replace_inference(self, worker, replaced); },
      [self](const Stop&) {
        report(self, /*last=*/true);  // includes its partial rollouts
        self->quit();
      },
  };
}

}  // namespace troupe
