#include "actors/supervisor_children.h"

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/experience/common/state_bytes.h"
#include "actors/run_actors.h"
#include "actors/spawn.h"
#include "runtime/caf/system.h"

namespace troupe {

namespace {

void spawn_worker(SupervisorSelf self, uint64_t id, const InferenceService& inference, const InferenceService& scorer,
                  const RestartLimit& restarts) {
  auto& st = self->state;
  const WorkerPeers peers{inference, st.replay, st.stats, st.dependencies.start.version.epoch, scorer};
  WorkerActor actor = spawn_worker_on(self->system(), st.context, id, peers);
  self->monitor(actor);
  st.members[actor.address()] = {id, actor, true, restarts};
  report_members(self);
}

// What a checkpoint of a deterministic run holds of each child. The list of numbers are its RestartLimit::ages().
using SavedInference = std::pair<std::pair<InferenceIndex, Role>, std::vector<int64_t>>;
using SavedPlace = std::pair<Role, InferenceIndex>;  // of a worker: its inference actor in a role
using SavedWorker = std::pair<std::vector<SavedPlace>, std::vector<int64_t>>;

void spawn_children(SupervisorSelf self, const std::string& state) {
  auto& st = self->state;
  std::vector<SavedInference> inference;
  std::map<uint64_t, SavedWorker> workers;
  restoring([&] { from_bytes(state, "supervisor", st.next_inference_index, st.next_worker, inference, workers); });
  const auto limit = [now = self->clock().now()](const std::vector<int64_t>& ages) {
    RestartLimit restarts;
    restarts.restore(ages, now);
    return restarts;
  };
  for (const auto& [index_and_role, ages] : inference) {
    const auto [inference_index, role] = index_and_role;
    spawn_inference(self, role, inference_index, limit(ages));
    st.placement(role).add_inference(inference_index);
  }
  for (const auto& [id, worker] : workers) {
    std::array<InferenceService, kRoles> services;
    for (const auto& [role, inference_index] : worker.first) {
      st.placement(role).place(id, inference_index);
      services[static_cast<size_t>(role)] = st.inference.at(inference_index).service;
    }
    const auto of = [&](Role role) { return services[static_cast<size_t>(role)]; };
    spawn_worker(self, id, of(Role::sampling), of(Role::scoring), limit(worker.second));
  }
}

}  // namespace

std::map<uint64_t, MemberActor> members_by_id(const SupervisorState& st) {
  std::map<uint64_t, MemberActor> result;
  for (const auto& [address, member] : st.members) result[member.id] = member.actor;
  return result;
}

void report_members(SupervisorSelf self) { self->send(self->state.stats, LaunchedWorkers{self->state.members.size()}); }

void spawn_inference(SupervisorSelf self, Role role, InferenceIndex inference_index, const RestartLimit& restarts) {
  auto& st = self->state;
  InferenceActor actor = spawn_inference_on(self->system(), st.context, role, inference_index,
                                            InferencePeers{st.publisher_of(role), st.replay, st.stats});
  self->monitor(actor);
  st.inference[inference_index] = {actor, actor, {}, true, restarts, role};
}

InferenceService place_worker(SupervisorSelf self, Role role, uint64_t worker) {
  auto& st = self->state;
  const std::optional<InferenceIndex> inference_index = st.placement(role).add_worker(worker);
  return inference_index ? st.inference.at(*inference_index).service : InferenceService{};
}

void tell(SupervisorSelf self, Role role, const std::vector<Placement::Move>& moves) {
  auto& st = self->state;
  const std::map<uint64_t, MemberActor> members = members_by_id(st);
  for (const Placement::Move& move : moves)
    if (const auto member = members.find(move.worker); member != members.end()) {
      // Without any scorer its worker says so in its reports, and keeps its credits.
      if (move.inference_index)
        self->send(member->second, InferenceReplaced{st.inference.at(*move.inference_index).service, role});
      else if (role == Role::scoring)
        self->send(member->second, InferenceReplaced{{}, role});
    }
}

void spawn_worker(SupervisorSelf self, const RestartLimit& restarts) {
  const uint64_t id = self->state.next_worker++;
  const InferenceService inference = place_worker(self, Role::sampling, id);
  spawn_worker(self, id, inference, place_worker(self, Role::scoring, id), restarts);
}

std::string save_children(SupervisorSelf self) {
  auto& st = self->state;
  const auto now = self->clock().now();
  std::vector<SavedInference> inference;
  std::map<uint64_t, SavedWorker> workers;
  for (const auto& [inference_index, actor] : st.inference)
    inference.emplace_back(std::pair(inference_index, actor.role), actor.restarts.ages(now));
  for (const auto& [address, member] : st.members) {
    std::vector<SavedPlace> places;
    for (const Role role : {Role::sampling, Role::scoring})
      if (const auto place = st.placement(role).inference_of(member.id)) places.emplace_back(role, *place);
    workers[member.id] = {places, member.restarts.ages(now)};
  }
  return to_bytes(st.next_inference_index, st.next_worker, inference, workers);
}

void spawn_children(SupervisorSelf self) {
  auto& st = self->state;
  if (const std::string* state = st.context->state_of("supervisor")) return spawn_children(self, *state);
  const RunConfig& config = st.context->config;
  const auto spawn = [&](Role role, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      const InferenceIndex inference_index = st.next_inference_index++;
      spawn_inference(self, role, inference_index);
      st.placement(role).add_inference(inference_index);
    }
  };
  spawn(Role::sampling, config.inference.count);
  if (has_scorers(config)) spawn(Role::scoring, config.scorers.count);
  for (int64_t i = 0; i < config.workers.count; ++i) spawn_worker(self);
}

void spawn_run_actors(SupervisorSelf self) {
  for (const RunActor& actor : run_actors()) actor.spawn(self);
  for (const RunActor& actor : run_actors())
    if (actor.exists(self->state)) self->monitor(actor.handle(self->state));
}

}  // namespace troupe
