#include "actors/trainer_gradients.h"

#include <stdexcept>
#include <utility>

#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/trainer_moments.h"
#include "runtime/base/log.h"

namespace troupe {

namespace {

// In one update, without a lost rank.
constexpr int kMostFailures = 3;

// Those of the attempt that begins.
std::vector<caf::actor_addr> ranks_of_attempt(const TrainerState& st) {
  std::vector<caf::actor_addr> result;
  for (size_t rank = 1; rank < st.group->ranks(); ++rank) result.push_back(st.ranks[rank - 1].actor.address());
  return result;
}

}  // namespace

void meet_ranks_at(TrainerSelf self, const std::string& address) {
  auto& st = self->state;
  const RunContext& context = *st.context;
  if (!context.make_gradient_backend || !context.rank_processes || st.gradients) return;
  st.gradients.emplace(
      context.make_gradient_backend(context.network_address.empty() ? address : context.network_address),
      context.config.network);
}

std::vector<Rendezvous> begin_gradients(TrainerSelf self) {
  auto& st = self->state;
  if (!st.gradients) return {};
  if (st.group->ranks() == 1) {
    st.gradients->leave();
    st.gradient_ranks.clear();
    return {};
  }
  if (auto ranks = ranks_of_attempt(st); st.gradients_failed || ranks != st.gradient_ranks) {
    const uint64_t generation = st.gradient_group.generation + 1;
    st.gradient_group = st.gradients->host();
    st.gradient_group.generation = generation;
    st.gradient_group.size = static_cast<int>(st.group->ranks());
    st.gradient_ranks = std::move(ranks);
    st.gradients_failed = false;
    log_info("trainer", std::to_string(st.group->ranks()) + " ranks exchange gradients with " +
                            st.context->config.network.backend + " (group " + std::to_string(generation) + ')');
  }
  const auto failed = [to = TrainerActor(self)](const GradientsFailed& message) { caf::anon_send(to, message); };
  st.gradients->begin(
      st.group->attempt(), st.gradient_group,
      gradient_division(st.context->config, st.group->ranks(), st.learner->trained_elements()),
      [to = TrainerActor(self)](const RoundSaid& said) { caf::anon_send(to, said); }, failed);
  return {st.gradient_group};
}

void update_failed(TrainerSelf self, const std::string& what) {
  auto& st = self->state;
  if (!st.update || st.recovering) return;
  if (++st.failures == kMostFailures)
    throw std::runtime_error(what + ", " + std::to_string(kMostFailures) + " times in this update" +
                             (st.gradients ? "; network.backend " + st.context->config.network.backend +
                                                 " needs connections between all ranks, \"messages\" only those with "
                                                 "rank 0"
                                           : ""));
  if (!divides_moments(st.context->config) || keeps_copies(st.context->config))
    log_warn("trainer", what + "; the update begins again");
  else
    throw std::runtime_error(what + "; the same command resumes from the last checkpoint");
  if (divides_moments(st.context->config))
    recover_moments(self, what);
  else
    try_again(self);
}

// Mostly a rank was lost. That is soon said by itself, and then the update begins again without it.
void on_gradients_failed(TrainerSelf self, const GradientsFailed& failed) {
  auto& st = self->state;
  if (!st.gradients || failed.generation != st.gradient_group.generation) return;
  if (!failed.waited) {
    if (std::exchange(st.gradients_failed, true)) return;
    const auto wait = st.context->config.network.peer_timeout + st.context->config.network.heartbeat;
    return self->delayed_send(self, wait, GradientsFailed{failed.generation, failed.error, true});
  }
  update_failed(self, "the ranks could not exchange gradients (" + failed.error + ")");
}

}  // namespace troupe
