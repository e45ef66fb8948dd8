#include "sim/schedule.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/liveness.h"
#include "sim/mutate.h"

namespace troupe::sim {

namespace {

constexpr std::chrono::milliseconds kPolls{6};  // in which each receiver of weights looks for them

size_t pick_job(SimulatedRun& run) {
  auto& jobs = run.scheduler->jobs;
  if (jobs.size() == 1) return 0;
  const Schedule schedule = run.live.calm ? Schedule::mostly_in_order : run.scenario().schedule;
  if (schedule == Schedule::uniform) return run.rng.below(jobs.size());
  if (schedule == Schedule::mostly_in_order) return run.chance(0.1) ? run.rng.below(jobs.size()) : 0;
  if (run.chance(0.02)) run.priority.clear();
  size_t best = 0;
  uint64_t highest = 0;
  for (size_t i = 0; i < jobs.size(); ++i) {
    auto* actor = dynamic_cast<caf::scheduled_actor*>(jobs[i]);
    const uint64_t id = actor == nullptr ? 0 : actor->id();
    const auto [it, added] = run.priority.try_emplace(id, 0);
    if (added) it->second = run.rng.next_u64() | 1;
    if (it->second > highest) {
      highest = it->second;
      best = i;
    }
  }
  return best;
}

void run_job(SimulatedRun& run, size_t index) {
  auto& jobs = run.scheduler->jobs;
  std::swap(jobs[0], jobs[index]);
  auto* actor = dynamic_cast<caf::scheduled_actor*>(jobs.front());
  if (actor == nullptr) {
    run.scheduler->try_run_once();
    return;
  }
  const caf::strong_actor_ptr keep(actor->ctrl());
  KnownActor& known = run.checker.know(*actor);
  caf::mailbox_element* element = known.alive ? actor->mailbox().peek() : nullptr;
  if (element != nullptr && run.scenario().mutation != Mutation::none) mutate(run, *actor, *element);
  run.note(known.kind, known.ordinal, element);
  run.checker.before(*actor, element);
  run.scheduler->try_run_once();
  const Mutation mutation = run.scenario().mutation;
  if ((mutation == Mutation::request_lost || mutation == Mutation::request_unended) && known.alive)
    forget_request(run, *actor);
  if (const auto afterwards = std::exchange(run.afterwards, nullptr); afterwards && known.alive) afterwards();
  run.checker.after(*actor);
  if (run.world.seconds_to_pass > 0) {
    run.clock().current_time +=
        std::chrono::duration_cast<caf::actor_clock::duration_type>(Seconds(run.world.seconds_to_pass));
    run.world.seconds_to_pass = 0;
  }
}

std::vector<std::pair<Link*, Direction>> deliverable(SimulatedRun& run) {
  std::vector<std::pair<Link*, Direction>> result;
  for (RemoteProcess* process : run.remote_processes()) {
    if (run.clock().now() < process->stalled_until) continue;
    for (const auto& link : process->links)
      for (const Direction direction : {Direction::to_run, Direction::to_node})
        if (link->waiting(direction) > 0) result.emplace_back(link.get(), direction);
  }
  return result;
}

}  // namespace

// Receivers of weights look for them every 2 ms (actors/weight_receiver_actor.h). If they have looked since anything
// was sent, the clock moves on to what else is due, and they look once then.
void pass_over_idle_polls(SimulatedRun& run) {
  if (run.inference_processes.empty()) return;
  if (std::exchange(run.seen_operations, run.network.operations()) != run.network.operations())
    run.polls_until = run.clock().now() + kPolls;
  if (run.clock().now() < run.polls_until) return;
  for (const auto& [due, event] : run.clock().schedule()) {
    const auto* timer = dynamic_cast<const caf::detail::simple_actor_clock::actor_msg*>(event.get());
    const auto* receiver = timer == nullptr ? nullptr : timer->receiver->get();
    const auto* actor = dynamic_cast<const caf::scheduled_actor*>(receiver);
    if (actor != nullptr && std::string_view(actor->name()) == "weight receiver") continue;
    run.clock().current_time = std::max(run.clock().current_time, due);
    return;
  }
}

bool step(SimulatedRun& run) {
  const auto parcels = deliverable(run);
  const size_t jobs = run.scheduler->jobs.size();
  if (jobs == 0 && parcels.empty()) return false;
  if (jobs > 0 && (parcels.empty() || run.rng.below(jobs + parcels.size()) < jobs)) {
    run_job(run, pick_job(run));
  } else {
    const auto [link, direction] = parcels[run.rng.below(parcels.size())];
    run.event(direction == Direction::to_run ? "a message arrives at the run" : "a message arrives at a node");
    link->deliver(direction);
  }
  return true;
}

void drain(SimulatedRun& run) {
  const uint64_t limit = run.outcome.events + 20'000;
  while (!run.world.violation && step(run))
    if (run.outcome.events > limit) return run.world.violate("actors never become idle" + run.checker.dump());
}

void idle(SimulatedRun& run) {
  if (!run.ended && std::ranges::all_of(run.remote_processes(), [&](const RemoteProcess* process) {
        return run.clock().now() >= process->stalled_until;
      }))
    run.checker.quiet();
  if (run.world.violation) return;
  const auto before = run.clock().now();
  pass_over_idle_polls(run);
  if (!run.scheduler->trigger_timeout())
    return run.world.violate("the run waits, but no timer is set" + run.checker.dump());
  run.idle_seconds += Seconds(run.clock().now() - before).count();
  if (run.idle_seconds > most_seconds_without_progress(run)) run.world.violate("the run is stuck" + run.checker.dump());
}

void run_only(SimulatedRun& run, const std::function<bool(const KnownActor&)>& wanted) {
  for (size_t i = 0; i < run.scheduler->jobs.size();) {
    auto* actor = dynamic_cast<caf::scheduled_actor*>(run.scheduler->jobs[i]);
    if (actor == nullptr || !wanted(run.checker.know(*actor))) {
      ++i;
      continue;
    }
    run_job(run, i);
    i = 0;
  }
}

}  // namespace troupe::sim
