#pragma once
// Fixture for a single actor of a run. The test plays its peers, on one thread and with a clock that the test advances.

#include <memory>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/messages.h"
#include "actors/run_context.h"
#include "runtime/base/log.h"
#include "runtime/caf/system.h"
#include "sim/fakes.h"

namespace troupe::test {

// The messages that a fake peer received.
struct Heard {
  std::vector<uint64_t> requests;  // ids of InferenceRequests
  std::vector<InferenceReply> replies;
  std::vector<ReplayReport> replay;
  std::vector<WorkerReport> workers;
  std::vector<EnvironmentsFailing> failing;
  std::vector<SamplingFailed> sampling_failed;
  std::vector<Collapsed> collapsed;
  std::vector<UpdateMessage> updates;
  std::vector<RanksMessage> ranks;
  std::vector<TrainingEnded> ended;
  std::vector<CheckpointMessage> checkpoints;
  std::vector<Evaluation> evaluations;
  std::vector<uint64_t> evaluated;           // updates of the policies to be evaluated
  std::vector<EvaluationProgress> progress;  // of evaluations
  std::vector<SnapshotMessage> snapshots;
  std::vector<ProcessReport> processes;
  std::vector<WarmupState> warmup;
  std::vector<uint64_t> warmup_points;  // their steps
  uint64_t weights = 0;                 // snapshots of weights
  uint64_t batches_asked = 0;
  uint64_t batches = 0;
  uint32_t credits = 0;
  std::vector<caf::error> exits;  // reasons of exit messages; they do not end the peer
};

struct PeerState {
  static inline const char* name = "peer";
};

inline caf::behavior peer(caf::stateful_actor<PeerState>* self, Heard* heard) {
  self->set_exit_handler([heard](const caf::exit_msg& exit) { heard->exits.push_back(exit.reason); });
  return {
      [heard](const InferenceReply& reply) { heard->replies.push_back(reply); },
      [heard](const ReplayReport& report) { heard->replay.push_back(report); },
      [heard](const WorkerReport& report) { heard->workers.push_back(report); },
      [heard](const EnvironmentsFailing& failing) { heard->failing.push_back(failing); },
      [heard](const SamplingFailed& failed) { heard->sampling_failed.push_back(failed); },
      [heard](const Collapsed& collapsed) { heard->collapsed.push_back(collapsed); },
      [heard](const Credits& credits) { heard->credits += credits.count; },
      // For a message without a handler, CAF would reply with an error, which ends the sender.
      [heard](const InferenceRequest& request) { heard->requests.push_back(request.id); },
      [](const Pause&) {},
      [](const WorkerHello&) {},
      [](const RolloutMessage&) {},
      [](const InferenceReport&) {},
      [heard](const ProcessReport& report) { heard->processes.push_back(report); },
      [](const Applied&) {},
      [heard](next_atom) { ++heard->batches_asked; },
      [heard](const BatchMessage&) { ++heard->batches; },
      [heard](const WeightsMessage&) { ++heard->weights; },
      [heard](const WarmupMessage& message) {
        heard->warmup.push_back(message.state);
        if (message.point) heard->warmup_points.push_back(message.state.step);
      },
      [heard](const RanksMessage& ranks) { heard->ranks.push_back(ranks); },
      [heard](const UpdateMessage& update) { heard->updates.push_back(update); },
      [heard](const TrainingEnded& ended) { heard->ended.push_back(ended); },
      [heard](const CheckpointMessage& message) { heard->checkpoints.push_back(message); },
      [](const CheckpointWritten&) {},
      [heard](const EvaluateMessage& job) { heard->evaluated.push_back(job.weights->version.number); },
      [heard](const Evaluation& evaluation) { heard->evaluations.push_back(evaluation); },
      [heard](const EvaluationProgress& progress) { heard->progress.push_back(progress); },
      [heard](const SnapshotMessage& message) { heard->snapshots.push_back(message); },
  };
}

// A fake actor that can be used as any typed actor whose messages it handles.
struct Peer {
  template <class Service>
  Service as() const {
    return caf::actor_cast<Service>(caf::actor_cast<caf::strong_actor_ptr>(actor));
  }
  template <class Actor, class Message>
  void tell(const Actor& to, Message message) const {
    auto target = caf::actor_cast<caf::actor>(caf::actor_cast<caf::strong_actor_ptr>(to));
    caf::send_as(actor, target, std::move(message));
  }
  caf::actor actor;
  std::shared_ptr<Heard> heard = std::make_shared<Heard>();
};

class OneActor {
 public:
  explicit OneActor(const RunConfig& run_config) : world(sim::Scenario{.config = run_config}) {
    open_log(nullptr, {.to_stderr = false});
    register_messages(config_);
    configure(config_, {.scheduler = SchedulerKind::single_step, .network_config = {}});
    system = std::make_unique<caf::actor_system>(config_);
    scheduler_ = &dynamic_cast<caf::scheduler::test_coordinator&>(system->scheduler());
    context = std::make_shared<RunContext>();
    context->config = run_config;
    context->spec = sim::fake_spec();
    context->make_env = [this](const EnvConfig& env) { return std::make_unique<sim::FakeEnv>(world, env.rows); };
    context->make_policy = [this] { return sim::fake_policy(world); };
    context->threads = false;
  }
  ~OneActor() {
    for (const caf::actor& actor : actors_) caf::anon_send_exit(actor, caf::exit_reason::kill);
    run();
    actors_.clear();
    close_log();
  }
  Peer add_peer() {
    Peer result;
    result.actor = system->spawn(peer, result.heard.get());
    actors_.push_back(result.actor);
    kept_.push_back(result.heard);
    return result;
  }
  template <class Actor>
  Actor keep(const Actor& actor) {
    actors_.push_back(caf::actor_cast<caf::actor>(caf::actor_cast<caf::strong_actor_ptr>(actor)));
    return actor;
  }
  void kill(const Peer& one) {
    caf::anon_send_exit(one.actor, caf::exit_reason::kill);
    run();
  }
  void run() { scheduler_->run(); }
  void pass(std::chrono::milliseconds time) {
    scheduler_->clock().advance_time(time);
    run();
  }
  // Only moves the clock: an actor may do so while it runs.
  void pass_time(std::chrono::milliseconds time) { scheduler_->clock().advance_time(time); }
  template <class State, class Actor>
  State& state_of(const Actor& actor) {
    auto* pointer = caf::actor_cast<caf::strong_actor_ptr>(actor)->get();
    return dynamic_cast<SelfPointer<Actor, State>>(pointer)->state;
  }

  sim::World world;
  std::shared_ptr<RunContext> context;
  std::unique_ptr<caf::actor_system> system;

 private:
  caf::actor_system_config config_;
  caf::scheduler::test_coordinator* scheduler_ = nullptr;
  std::vector<caf::actor> actors_;
  std::vector<std::shared_ptr<Heard>> kept_;
};

}  // namespace troupe::test
