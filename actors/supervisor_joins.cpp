#include "actors/supervisor_joins.h"

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/config/config.h"
#include "actors/inference.h"
#include "actors/spec_fields.h"
#include "actors/supervisor_children.h"
#include "actors/supervisor_losses.h"
#include "runtime/base/suggest.h"
#include "runtime/base/text_format.h"
#include "runtime/caf/system.h"

namespace troupe {

namespace {

using Phase = SupervisorState::Phase;

bool is_loopback(const std::string& address) {
  return address == "::1" || address == "localhost" || address.starts_with("127.");
}

std::string from(const JoinRequest& request) {
  return " from " + printable(request.host) + " pid " + std::to_string(request.pid);
}

caf::result<Welcome> join_inference(SupervisorSelf self, Role role, const JoinRequest& request) {
  auto& st = self->state;
  if (role == Role::scoring && !has_scorers(st.context->config))
    return make_error(Fault::bad_message,
                      "this run has nothing for a scorer to compute; train with reference.computed_by or "
                      "reward_model.computed_by \"scorers\"");
  if (needs_weights(st.context->config, role) && !st.context->make_group_backend)
    return make_error(
        Fault::bad_message,
        "this run sends no weights to other processes" +
            std::string(sends_weights(st.context->config.network) ? "" : "; train with network.weights \"gloo\""));
  const InferenceIndex inference_index = st.next_inference_index++;
  st.joins.info(std::string(name_of(role)) + " process " + std::to_string(inference_index) + " joins" + from(request),
                self->clock().now());
  return Welcome{inference_index, to_json(st.context->config), {}, st.replay, st.stats, 0, st.context->run_id};
}

bool are_ranks_complete(const SupervisorState& st) {
  return static_cast<int64_t>(st.rank_hosts.size()) + 1 >= st.context->config.trainer.ranks;
}

std::string all_ranks(const SupervisorState& st) {
  return "the run has all of its " + format_counted(static_cast<uint64_t>(st.context->config.trainer.ranks), "rank");
}

std::string name_of_rank(uint64_t process) { return "rank process " + std::to_string(process); }

// The rank process says why, and so does the log of the run, which goes on waiting for it.
caf::error refuse_rank(SupervisorSelf self, const std::string& from, const std::string& why) {
  self->state.joins.info("the rank process" + from + " is refused: " + why, self->clock().now());
  return make_error(Fault::bad_message, why);
}

// How the config of a rank's command line differs from the run's; nothing if it has none, or the same. Without a run
// folder at hand a rank takes the number of ranks for that of shards, and thereby for the least number of workers.
std::optional<std::string> config_difference(const RunConfig& run, const std::string& given) {
  if (given.empty()) return std::nullopt;
  const RunConfig config = parse_config(given, "the config of the rank");
  const bool guessed = config.trainer.shards == config.trainer.ranks;
  for (const SettingChange& change : changed_settings(to_json(config), to_json(run))) {
    const std::string& path = change.path;
    if (is_file_setting(path) || path == "env.python" || path == "task.python") continue;
    if (guessed && (path == "trainer.shards" || path == "workers.count")) continue;
    return "another config: " + path + " is " + change.before + ", and in the run " + change.now;
  }
  return std::nullopt;
}

caf::result<Welcome> join_rank(SupervisorSelf self, const JoinRequest& request) {
  auto& st = self->state;
  if (!st.context->rank_processes)
    return make_error(Fault::bad_message, "the run trains on one rank; train with --ranks");
  // A host that joins again has given up its rank, for example because the answer to its RankReady came too late.
  const caf::actor_addr host = self->current_sender()->address();
  if (st.rank_hosts.erase(host) > 0) self->demonitor(host);
  if (are_ranks_complete(st)) return make_error(Fault::not_ready, all_ranks(st));
  try {
    if (const auto difference = config_difference(st.context->config, request.config))
      return refuse_rank(self, from(request), *difference);
  } catch (const ConfigError& error) {
    return refuse_rank(self, from(request), error.what());
  }
  const uint64_t process = st.next_rank_process++;
  st.joins.info(name_of_rank(process) + " joins" + from(request), self->clock().now());
  return Welcome{process, to_json(st.context->config), {}, st.replay, st.stats, 0, st.context->run_id};
}

}  // namespace

caf::result<Welcome> join(SupervisorSelf self, const JoinRequest& request) {
  auto& st = self->state;
  if (request.protocol != kProtocolVersion)
    return make_error(Fault::bad_message, "the run speaks protocol " + std::to_string(kProtocolVersion) + ", the " +
                                              printable(request.kind) + " " + std::to_string(request.protocol));
  const bool scorer = request.kind == name_of(Role::scoring), inference = request.kind == name_of(Role::sampling);
  const bool rank = request.kind == kRankKind;
  if (request.kind != "worker" && !inference && !scorer && !rank)
    return make_error(Fault::bad_message, "nothing joins as \"" + printable(request.kind) +
                                              "\", expected worker, inference, scorer or rank");
  if (!request.run.empty() && request.run != st.context->run_id)
    return make_error(Fault::not_ready, "another run listens there (" + st.context->config.name +
                                            "), not the one that the " + printable(request.kind) + " belongs to");
  if (st.phase != Phase::running) return make_error(Fault::shutting_down, "the run is ending");
  if (!self->current_sender())
    return make_error(Fault::peer_gone, "the worker's connection is lost");  // reaches nobody
  if (inference || scorer) return join_inference(self, scorer ? Role::scoring : Role::sampling, request);
  if (rank) return join_rank(self, request);
  const uint64_t id = st.next_worker++;
  auto handle = caf::actor_cast<MemberActor>(self->current_sender());
  forget_former_worker(self, handle.address());
  self->monitor(handle);
  st.members[handle.address()] = {id, handle, false};
  report_members(self);
  st.joins.info("worker " + std::to_string(id) + " connected" + from(request), self->clock().now());
  return Welcome{.member = id,
                 .config = to_json(st.context->config),
                 .inference = place_worker(self, Role::sampling, id),
                 .replay = st.replay,
                 .stats = st.stats,
                 .epoch = st.dependencies.start.version.epoch,
                 .run = st.context->run_id,
                 .spec = spec_fields(*st.context),
                 .scorer = place_worker(self, Role::scoring, id)};
}

caf::result<void> serve(SupervisorSelf self, const ServeRequest& request) {
  auto& st = self->state;
  if (st.phase != Phase::running) return make_error(Fault::shutting_down, "the run is ending");
  if (request.inference_index >= st.next_inference_index || st.inference.contains(request.inference_index) ||
      !request.inference)
    return make_error(Fault::bad_message,
                      "inference actor " + std::to_string(request.inference_index) + " has not joined");
  const Role role = request.role;
  if (role != Role::sampling && (role != Role::scoring || !has_scorers(st.context->config)))
    return make_error(Fault::bad_message, "this run has no actor of its role");
  const bool weights = needs_weights(st.context->config, role);
  if (const auto difference = spec_difference(spec_fields(*st.context), request.spec))
    return make_error(Fault::bad_message,
                      std::string("the ") + name_of(role) + " process does not fit the run: " + *difference);
  if (const auto difference = st.signature->first_difference(request.signature); weights && difference)
    return make_error(Fault::bad_message, "another policy: " + *difference);
  std::string& address = st.weights_addresses[static_cast<size_t>(role)];
  if (weights && address.empty())
    address = st.context->network_address.empty() ? request.address : st.context->network_address;
  if (weights && is_loopback(address) && !is_loopback(request.address))
    return make_error(Fault::bad_message, "the run sends its weights from " + address + ", which " + request.address +
                                              " cannot be reached by; train with --listen " + request.address +
                                              ":PORT");
  self->monitor(request.inference);
  auto host = caf::actor_cast<InferenceMember>(self->current_sender());
  st.inference[request.inference_index] = {request.inference, {}, host, false, {}, role};
  if (weights) self->send(st.publisher_of(role), ReceiverJoined{request.inference_index, host, request.address});
  return caf::unit;
}

caf::result<void> take_rank(SupervisorSelf self, const RankReady& ready) {
  auto& st = self->state;
  if (st.phase != Phase::running) return make_error(Fault::shutting_down, "the run is ending");
  if (!st.context->rank_processes || are_ranks_complete(st)) return make_error(Fault::not_ready, all_ranks(st));
  if (!ready.rank || !self->current_sender()) return make_error(Fault::bad_message, "there is no rank");
  const std::string from = " " + std::to_string(ready.process);
  if (const auto difference = spec_difference(spec_fields(*st.context), ready.spec))
    return refuse_rank(self, from, "the rank process does not fit the run: " + *difference);
  if (const auto difference = st.saved_signature->first_difference(ready.signature))
    return refuse_rank(self, from, "another policy: " + *difference);
  if (sends_gradients(st.context->config.network)) {
    std::string& address = st.gradients_address;
    if (address.empty()) address = st.context->network_address.empty() ? ready.address : st.context->network_address;
    if (is_loopback(address) && !is_loopback(ready.address))
      return refuse_rank(self, from,
                         "the ranks exchange gradients at " + address + ", which " + ready.address +
                             " cannot be reached by; train with --listen " + ready.address + ":PORT");
  }
  const auto host = caf::actor_cast<Stoppable>(self->current_sender());
  self->monitor(host);
  st.rank_hosts[host.address()] = host;
  self->send(st.trainer,
             RankJoined{ready.rank, name_of_rank(ready.process) + " (" + process_of(host.node()) + ")", ready.address});
  return caf::unit;
}

void on_serving(SupervisorSelf self, InferenceIndex inference_index) {
  auto& st = self->state;
  const auto it = st.inference.find(inference_index);
  if (it == st.inference.end() || it->second.serving || st.phase != Phase::running) return;
  it->second.serving = true;
  const Role role = it->second.role;
  const std::vector<Placement::Move> moves = st.placement(role).add_inference(inference_index);
  st.joins.info(std::string(name_of(role)) + " process " + std::to_string(inference_index) + " serves " +
                    format_counted(moves.size(), "worker"),
                self->clock().now());
  tell(self, role, moves);
}

}  // namespace troupe
