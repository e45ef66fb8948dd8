#include "sim/checker.h"

#include <algorithm>
#include <cmath>

#include <caf/system_messages.hpp>

#include "actors/publisher.h"
#include "sim/actor_states.h"
#include "sim/kinds.h"

namespace troupe::sim {

namespace {

constexpr size_t kMailboxBound = 2000;

template <class T>
const T* content_of(caf::mailbox_element& element) {
  return element.content().match_elements<T>() ? &element.content().get_as<T>(0) : nullptr;
}

uint64_t steps_of_worker(caf::scheduled_actor& actor) {
  const WorkerState* state = worker_of(&actor);
  return state->sampler ? state->sampler->report().env_steps : 0;
}

caf::actor_id sender_of(const caf::mailbox_element& element) { return element.sender ? element.sender->id() : 0; }

}  // namespace

void Checker::begin_process(const ReplayStart& start) {
  ++process_;
  inference_.clear();
  workers_.clear();
  worker_of_.clear();
  credits_.clear();
  pushed_.clear();
  next_sequence_.clear();
  published_.clear();
  last_published_.reset();
  published_reference_.reset();
  replay_ = {};
  replay_.base = start.ledger;
  replay_.base.lost_in_crash += replay_.base.waiting;
  replay_.base.waiting = 0;
  replay_.produced_before = world_.produced;
  replay_.number = replay_.next_batch = start.version.number;
  last_ledger_ = replay_.base;
  env_steps_ = start.env_steps;
  if (start.env_steps == 0) returns_by_step_[0] = {};
  returns_ = returns_by_step_[start.env_steps];
  world_.update_samples_trained.clear();
  world_.work.clear();
  world_.lost_ranks.clear();
}

KnownActor& Checker::know(caf::scheduled_actor& actor) {
  const auto [it, added] = actors_.try_emplace(actor.id());
  KnownActor& known = it->second;
  if (!added) return known;
  known.kind = actor.name();
  known.ordinal = ordinals_[known.kind]++;
  known.address = actor.address();
  known.process = process_;
  actor.attach_functor([&known](const caf::error& reason) {
    known.alive = false;
    known.in_order = !reason;
  });
  return known;
}

std::string Checker::name_of(caf::actor_id id) {
  const auto it = actors_.find(id);
  return it == actors_.end() ? "actor " + std::to_string(id)
                             : it->second.kind + " #" + std::to_string(it->second.ordinal);
}

void Checker::worker_left(uint64_t worker, bool in_order) {
  WorkerAccount& account = workers_[worker];
  if (account.joined) {
    for (const PartialRollout& partial : account.partial) {
      (in_order ? replay_.left_over : replay_.left) += partial.samples;
      count(partial.env_steps, partial.episodes);
    }
    replay_.inexact |= !in_order;
  }
  account = {};
}

void Checker::count(uint64_t env_steps, const Episodes& episodes) {
  env_steps_ += env_steps;
  if (episodes.count() > 0)
    for (const float episode_return : episodes.returns.view<float>()) returns_.push_back(episode_return);
  while (returns_.size() > static_cast<size_t>(world_.scenario.config.stats.window)) returns_.pop_front();
  returns_by_step_[env_steps_] = returns_;
}

void Checker::check_return(const StatsSnapshot& snapshot) {
  const auto at = returns_by_step_.find(snapshot.env_steps);
  if (at == returns_by_step_.end())
    return world_.violate("a report is for " + std::to_string(snapshot.env_steps) +
                          " steps, a count that replay never had");
  double sum = 0;
  for (const float episode_return : at->second) sum += episode_return;
  const double mean = sum / static_cast<double>(at->second.size());
  if (at->second.empty() ? !std::isnan(snapshot.return_mean) : snapshot.return_mean != mean)
    world_.violate("the report of " + std::to_string(snapshot.env_steps) + " steps has a return of " +
                   std::to_string(snapshot.return_mean) + ", counted " + std::to_string(mean));
}

// Replay has closed its counts. For workers that have not reported since, it uses their previous report.
void Checker::silent_workers_left() {
  for (const auto& [worker, account] : std::map(workers_)) {
    replay_.inexact |= account.joined;
    worker_left(worker, true);
  }
}

void Checker::replay_takes(caf::mailbox_element& element) {
  const caf::actor_id sender = sender_of(element);
  if (const auto* hello = content_of<WorkerHello>(element)) {
    worker_left(hello->worker, false);
    workers_[hello->worker].joined = true;
    worker_of_[sender] = hello->worker;
  } else if (const auto* message = content_of<RolloutMessage>(element)) {
    const Rollout& rollout = *message->rollout;
    const SimulatedKind& kind = simulated_kind(world_);
    const uint64_t without = rollout.unscored + rollout.verifier_failed;
    WorkerAccount& account = workers_[rollout.worker];
    if (account.joined) {  // samples of a worker that is gone were counted as lost when it left
      replay_.arrived += kind.samples(rollout) + without + rollout.baselines;
      replay_.unscored += rollout.unscored;
      replay_.failed_scores += rollout.verifier_failed;
      replay_.baselines += rollout.baselines;
      replay_.without_spread += kind.without_spread(rollout);
      count(rollout.env_steps, rollout.episodes);
    }
    const auto reported = std::ranges::find(account.partial, rollout.group, &PartialRollout::group);
    if (reported != account.partial.end()) account.partial.erase(reported);
    const std::string who = "worker " + std::to_string(rollout.worker);
    if (next_sequence_[rollout.worker]++ != rollout.sequence)
      world_.violate(who + ": rollout " + std::to_string(rollout.sequence) + " is out of order");
    if (++pushed_[rollout.worker] > credits_[rollout.worker]) world_.violate(who + " pushes without a credit");
    kind.check_rollout(world_, rollout, published_);
  } else if (const auto* report = content_of<WorkerReport>(element)) {
    if (workers_[report->worker].joined) workers_[report->worker].partial = report->partial;
  } else if (const auto* update = content_of<UpdateMessage>(element)) {
    const uint64_t samples = replay_.batches[update->index];
    replay_.batches.erase(update->index);
    const auto trained = world_.update_samples_trained.find(update->index);
    if (trained == world_.update_samples_trained.end())
      return world_.violate("update " + std::to_string(update->index) + " is reported but was never made");
    replay_.trained += trained->second;
    if (trained->second == 0 && samples > 0) replay_.failed += samples;
  } else if (const auto* down = content_of<caf::down_msg>(element)) {
    const auto it = worker_of_.find(down->source.id());
    if (it == worker_of_.end()) return;
    worker_left(it->second, replay_.training_ended || !down->reason);
    // Samples that it has not reported are never counted, also if it ends after the last update.
    replay_.inexact |= static_cast<bool>(down->reason);
    worker_of_.erase(it);
  } else if (const auto* checkpoint = content_of<CheckpointMessage>(element)) {
    replay_.training_ended |= checkpoint->last;
  }
}

void Checker::publisher_takes(caf::mailbox_element& element) {
  const auto* weights = content_of<WeightsMessage>(element);
  if (weights == nullptr) return;
  const PolicyVersion version = weights->weights->version;
  if (is_reference(*weights->weights)) {
    if (published_reference_) world_.violate("the reference is published again, as version " + version.text());
    published_reference_ = version;
    return;
  }
  if (last_published_ && (version.epoch != last_published_->epoch || version.number != last_published_->number + 1))
    world_.violate("version " + version.text() + " is published after " + last_published_->text());
  if (last_published_ && !world_.is_computed(*last_published_))
    world_.violate("version " + version.text() + " is published before every rank has completed its update");
  world_.work.erase(world_.work.begin(), world_.work.upper_bound(last_published_.value_or(PolicyVersion{})));
  last_published_ = version;
  published_[version.number] = true;
  ++updates_;
}

void Checker::take_request(caf::actor_id inference, caf::actor_id client, uint64_t request, uint32_t group,
                           bool again) {
  if (client == 0) return;  // its connection is lost, so it gets no answer
  InferenceAccount& account = inference_[inference];
  account.open[{client, group}] = {request, client};
  if (!again) ++account.asked[{client, request}];
}

void Checker::inference_takes(caf::scheduled_actor& actor, caf::mailbox_element& element) {
  const caf::actor_id id = actor.id();
  InferenceAccount& account = inference_[id];
  if (const auto* request = content_of<InferenceRequest>(element)) {
    const caf::actor_id client = sender_of(element);
    const bool again = std::ranges::any_of(inference_of(&actor)->pending, [&](const auto& entry) {
      const InferenceState::Pending& pending = entry.second;
      return pending.client->id() == client && pending.request == request->id && pending.id.group == request->group;
    });
    take_request(id, client, request->id, request->group, again);
    simulated_kind(world_).note_request(world_, *request, process_);
  } else if (const auto* pause = content_of<Pause>(element)) {
    const InferenceState& state = *inference_of(&actor);
    const bool own = element.sender && state.clients.contains(element.sender->address());
    for (const auto& [address, client] : state.clients)  // it withdraws their requests
      if (own ? address == element.sender->address() : client.worker == pause->worker)
        account.open.erase({address.id(), pause->group});
  } else if (const auto* weights = content_of<WeightsMessage>(element)) {
    const PolicyVersion version = weights->weights->version;
    if (account.any && version <= account.received)
      world_.violate(name_of(id) + " gets version " + version.text() + " after " + account.received.text());
    account.received = version;
    account.any = true;
    world_.transfers += know(actor).remote;
  } else if (const auto* down = content_of<caf::down_msg>(element)) {
    std::erase_if(account.open, [&](const auto& entry) { return entry.second.client == down->source.id(); });
  }
}

std::string Checker::answered(InferenceAccount& account, caf::actor_id inference, caf::actor_id client,
                              uint64_t request) {
  const std::string who = name_of(inference) + ", request " + std::to_string(request);
  const auto asked = account.asked.find({client, request});
  if (asked == account.asked.end())
    world_.violate(who + ": is answered but was never sent");
  else if (++account.answered[{client, request}] > asked->second)
    world_.violate(who + ": is answered twice");
  std::erase_if(account.open,
                [&](const auto& entry) { return entry.second.client == client && entry.second.id == request; });
  return who;
}

void Checker::answer_sent(caf::actor_id inference, caf::actor_id client, const InferenceReply& reply) {
  const auto it = inference_.find(inference);
  if (it == inference_.end()) return;
  InferenceAccount& account = it->second;
  const std::string who = reply.in_progress() ? name_of(inference) + ", request " + std::to_string(reply.id)
                                              : answered(account, inference, client, reply.id);
  PolicyVersion& last = account.said[client];
  if (reply.version < last) world_.violate(who + ": version " + reply.version.text() + " after " + last.text());
  last = reply.version;
}

void Checker::worker_takes(caf::scheduled_actor& actor, caf::mailbox_element& element) {
  if (const auto* reply = content_of<InferenceReply>(element)) {
    if (inference_.contains(sender_of(element))) answer_sent(sender_of(element), actor.id(), *reply);
  } else if (const auto* credits = content_of<Credits>(element)) {
    // Worker numbers start again in a new process; messages in flight to a worker of the old one do not count.
    if (know(actor).process == process_) credits_[worker_number(&actor)] += credits->count;
  }
}

void Checker::before(caf::scheduled_actor& actor, caf::mailbox_element* element) {
  KnownActor& known = know(actor);
  world_.running_kind = known.kind;
  world_.running = actor.id();
  if (known.is_worker() && known.alive && simulated_kind(world_).workers_count_produced)
    worker_steps_ = steps_of_worker(actor);
  if (element == nullptr) return;
  const size_t waiting = actor.mailbox().size();
  largest_mailbox_ = std::max(largest_mailbox_, waiting);
  if (waiting > kMailboxBound)
    world_.violate(name_of(actor.id()) + " has " + std::to_string(waiting) + " messages waiting");
  if (known.kind == "replay") replay_takes(*element);
  if (known.is_inference()) inference_takes(actor, *element);
  if (known.is_worker()) worker_takes(actor, *element);
  if (known.kind == "publisher") publisher_takes(*element);
  if (known.kind == "rank trainer" && content_of<RankUpdate>(*element) != nullptr) asked_[actor.id()] = updates_;
  if (const auto* save = content_of<RankSave>(*element); save != nullptr && save->wanted != MomentsWanted::own)
    recoveries_.emplace(process_, save->number);
  if (known.kind == "prefetcher")
    if (const auto* batch = content_of<BatchMessage>(*element)) {
      const uint64_t index = replay_.next_batch++;
      for (const auto& shard : batch->shards) {
        if (shard->index != index) world_.violate("batch " + std::to_string(shard->index) + " is out of order");
        replay_.batches[shard->index] += shard->samples;
      }
    }
}

}  // namespace troupe::sim
