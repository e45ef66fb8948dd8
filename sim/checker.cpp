#include "sim/checker.h"

#include <algorithm>
#include <cmath>

#include <caf/stateful_actor.hpp>
#include <caf/system_messages.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/inference.h"
#include "actors/prefetcher.h"
#include "actors/publisher.h"
#include "actors/run_actors.h"
#include "actors/trainer.h"
#include "actors/worker.h"
#include "actors/worker_core.h"

namespace troupe::sim {

namespace {

constexpr size_t kMailboxBound = 2000;
constexpr uint64_t kCreditsPerGroup = 2;

// The state of an actor whose type is known by its name; null when it is another one.
template <class Pointer>
auto* state_of(caf::abstract_actor* actor) {
  auto* typed = dynamic_cast<std::remove_pointer_t<Pointer>*>(actor);
  return typed == nullptr ? nullptr : &typed->state;
}
ReplayState* replay_of(caf::abstract_actor* a) { return state_of<ReplayActor::stateful_pointer<ReplayState>>(a); }
InferenceState* inference_of(caf::abstract_actor* a) {
  return state_of<InferenceActor::stateful_pointer<InferenceState>>(a);
}
WorkerState* worker_of(caf::abstract_actor* a) { return state_of<WorkerActor::stateful_pointer<WorkerState>>(a); }
TrainerState* trainer_of(caf::abstract_actor* a) { return state_of<TrainerActor::stateful_pointer<TrainerState>>(a); }
PrefetcherState* prefetcher_of(caf::abstract_actor* a) {
  return state_of<PrefetcherActor::stateful_pointer<PrefetcherState>>(a);
}
SupervisorState* supervisor_of(caf::abstract_actor* a) {
  return state_of<SupervisorActor::stateful_pointer<SupervisorState>>(a);
}

template <class T>
const T* content_of(caf::mailbox_element& element) {
  return element.content().match_elements<T>() ? &element.content().get_as<T>(0) : nullptr;
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
    return world_.violate("a report is of " + std::to_string(snapshot.env_steps) + " steps, which replay never had");
  double sum = 0;
  for (const float episode_return : at->second) sum += episode_return;
  const double mean = sum / static_cast<double>(at->second.size());
  if (at->second.empty() ? !std::isnan(snapshot.return_mean) : snapshot.return_mean != mean)
    world_.violate("the report of " + std::to_string(snapshot.env_steps) + " steps has a return of " +
                   std::to_string(snapshot.return_mean) + ", counted " + std::to_string(mean));
}

// Replay has closed its counts: who was silent until then is taken at its last report.
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
    uint64_t samples = 0;
    for (const uint8_t valid : rollout.valid.view<uint8_t>()) samples += valid;
    WorkerAccount& account = workers_[rollout.worker];
    if (account.joined) {  // those of a worker that is gone were booked as lost when it left
      replay_.arrived += samples;
      count(rollout.env_steps, rollout.episodes);
    }
    const auto reported = std::ranges::find(account.partial, rollout.group, &PartialRollout::group);
    if (reported != account.partial.end()) account.partial.erase(reported);
    const std::string who = "worker " + std::to_string(rollout.worker);
    if (next_sequence_[rollout.worker]++ != rollout.sequence)
      world_.violate(who + ": rollout " + std::to_string(rollout.sequence) + " comes out of turn");
    if (++pushed_[rollout.worker] > credits_[rollout.worker]) world_.violate(who + " pushes without a credit");
    world_.check_rollout(rollout, published_);
  } else if (const auto* report = content_of<WorkerReport>(element)) {
    if (workers_[report->worker].joined) workers_[report->worker].partial = report->partial;
  } else if (const auto* update = content_of<UpdateMessage>(element)) {
    const uint64_t samples = replay_.batches[update->index];
    replay_.batches.erase(update->index);
    const size_t k = update->index - replay_.number;
    if (k >= world_.update_samples_trained.size())
      return world_.violate("update " + std::to_string(update->index) + " is reported but was never made");
    replay_.trained += world_.update_samples_trained[k];
    if (world_.update_samples_trained[k] == 0 && samples > 0) replay_.failed += samples;
  } else if (const auto* down = content_of<caf::down_msg>(element)) {
    const auto it = worker_of_.find(down->source.id());
    if (it == worker_of_.end()) return;
    worker_left(it->second, replay_.training_ended || !down->reason);
    // What it had not reported is in no book, also after the last update.
    replay_.inexact |= static_cast<bool>(down->reason);
    worker_of_.erase(it);
  } else if (const auto* checkpoint = content_of<CheckpointMessage>(element)) {
    replay_.training_ended |= checkpoint->last;
  }
}

void Checker::inference_takes(caf::actor_id id, caf::mailbox_element& element) {
  InferenceAccount& account = inference_[id];
  if (const auto* request = content_of<ActRequest>(element)) {
    const caf::actor_id client = sender_of(element);
    if (client == 0) return;  // its connection is lost: nobody is owed an answer
    account.open[{client, request->group}] = {request->id, client};
    if (!account.asked.emplace(client, request->id).second)
      world_.violate(name_of(id) + " is asked request " + std::to_string(request->id) + " twice");
  } else if (const auto* weights = content_of<WeightsMessage>(element)) {
    const PolicyVersion version = weights->weights->version;
    if (account.any && version <= account.received)
      world_.violate(name_of(id) + " gets version " + version.text() + " after " + account.received.text());
    account.received = version;
    account.any = true;
  } else if (const auto* down = content_of<caf::down_msg>(element)) {
    std::erase_if(account.open, [&](const auto& entry) { return entry.second.client == down->source.id(); });
  }
}

void Checker::answer_sent(caf::actor_id inference, caf::actor_id client, const ActReply& reply) {
  const auto it = inference_.find(inference);
  if (it == inference_.end()) return;
  InferenceAccount& account = it->second;
  const std::string who = name_of(inference) + ", request " + std::to_string(reply.id);
  if (!account.asked.contains({client, reply.id})) world_.violate(who + ": is answered but was not asked");
  if (!account.answered.emplace(client, reply.id).second) world_.violate(who + ": is answered twice");
  std::erase_if(account.open,
                [&](const auto& entry) { return entry.second.client == client && entry.second.id == reply.id; });
  PolicyVersion& last = account.said[client];
  if (reply.version < last) world_.violate(who + ": version " + reply.version.text() + " after " + last.text());
  last = reply.version;
}

void Checker::worker_takes(caf::scheduled_actor& actor, caf::mailbox_element& element) {
  if (const auto* reply = content_of<ActReply>(element)) {
    if (inference_.contains(sender_of(element))) answer_sent(sender_of(element), actor.id(), *reply);
  } else if (const auto* credits = content_of<Credits>(element)) {
    // Worker numbers begin anew in a new process; what was on its way to a worker of the old one does not count.
    if (know(actor).process == process_) credits_[worker_of(&actor)->core->report().worker] += credits->count;
  }
}

void Checker::before(caf::scheduled_actor& actor, caf::mailbox_element* element) {
  KnownActor& known = know(actor);
  world_.running_kind = known.kind;
  if (element == nullptr) return;
  const size_t waiting = actor.mailbox().size();
  largest_mailbox_ = std::max(largest_mailbox_, waiting);
  if (waiting > kMailboxBound)
    world_.violate(name_of(actor.id()) + " has " + std::to_string(waiting) + " messages waiting");
  if (known.kind == "replay") replay_takes(*element);
  if (known.kind == "inference") inference_takes(actor.id(), *element);
  if (known.kind == "worker") worker_takes(actor, *element);
  if (known.kind == "publisher") {
    if (const auto* weights = content_of<WeightsMessage>(*element)) {
      const PolicyVersion version = weights->weights->version;
      if (last_published_ && (version.epoch != last_published_->epoch || version.number != last_published_->number + 1))
        world_.violate("version " + version.text() + " is published after " + last_published_->text());
      last_published_ = version;
      published_[version.number] = true;
      ++updates_;
    }
  }
  if (known.kind == "prefetcher")
    if (const auto* batch = content_of<BatchMessage>(*element)) {
      if (batch->batch->index != replay_.next_batch++)
        world_.violate("batch " + std::to_string(batch->batch->index) + " comes out of turn");
      replay_.batches[batch->batch->index] = batch->batch->samples;
    }
}

void Checker::check_replay(const ReplayState& state) {
  if (!state.store) return;
  const RunConfig& config = world_.scenario.config;
  const Ledger ledger = state.store->ledger();
  const auto same = [&](const char* what, uint64_t got, uint64_t wanted) {
    if (got != wanted)
      world_.violate("ledger: " + std::string(what) + " is " + std::to_string(got) + ", counted " +
                     std::to_string(wanted) + " (" + ledger.text() + ")");
  };
  if (!ledger.balances()) world_.violate("the ledger does not balance: " + ledger.text());
  if (state.store->closed()) silent_workers_left();
  same("waiting", ledger.waiting, state.store->count_waiting());
  const uint64_t counted = replay_.arrived + replay_.left + replay_.left_over;
  same("produced", ledger.produced, replay_.base.produced + counted);
  same("env_steps", state.store->env_steps(), ledger.produced);  // every valid step of a FakeEnv is one
  if (state.store->closed()) {                                   // what waited is left over, too
    same("waiting at the end", ledger.waiting, 0);
    if (ledger.left_over < replay_.base.left_over + replay_.left_over)
      world_.violate("the ledger forgets what workers left: " + ledger.text());
  } else {
    same("left over", ledger.left_over, replay_.base.left_over + replay_.left_over);
  }
  same("trained", ledger.trained, replay_.base.trained + replay_.trained);
  if (config.replay.mode == "consume_once")
    same("lost", ledger.lost_in_crash, replay_.base.lost_in_crash + replay_.left + replay_.failed);
  if (counted > world_.produced - replay_.produced_before)
    world_.violate("the ledger counts " + std::to_string(counted) + " samples, the environments made " +
                   std::to_string(world_.produced - replay_.produced_before));
  if (ledger.dropped_stale < last_ledger_.dropped_stale || ledger.dropped_full < last_ledger_.dropped_full ||
      ledger.lost_in_crash < last_ledger_.lost_in_crash || ledger.left_over < last_ledger_.left_over)
    world_.violate("the ledger forgets: " + ledger.text());
  last_ledger_ = ledger;
  uint64_t joined = 0;
  for (const auto& [worker, account] : workers_) joined += account.joined;
  const uint64_t most = joined * static_cast<uint64_t>(config.workers.groups) * kCreditsPerGroup;
  if (state.store->credits_outstanding() > most)
    world_.violate(std::to_string(state.store->credits_outstanding()) + " credits are out, at most " +
                   std::to_string(most) + " may be");
  const auto rollout = static_cast<uint64_t>(config.rollout.length * config.env.rows);
  const auto batch = static_cast<uint64_t>(config.trainer.super_batch + config.rollout.length);
  if (ledger.waiting > std::max(state.store->capacity(), batch + rollout) + 3 * batch)
    world_.violate("replay holds " + std::to_string(ledger.waiting) + " samples, its capacity is " +
                   std::to_string(state.store->capacity()));
}

// The actors of one stop stage end before those of the next.
void Checker::check_stop_order(const KnownActor& ended) {
  const auto in_table = [](const KnownActor& known) {
    return std::ranges::find(run_actors(), known.kind, &RunActor::name);
  };
  const auto end = run_actors().end();
  const auto last = in_table(ended);
  if (last == end || last->stage == StopStage::first) return;
  for (const auto& [id, known] : actors_) {
    const auto other = in_table(known);
    if (other == end || other->may_be_left_behind) continue;
    if (known.alive && known.process == ended.process && other->stage < last->stage)
      world_.violate(ended.kind + " has ended before " + known.kind);
  }
}

void Checker::after(caf::scheduled_actor& actor) {
  KnownActor& known = know(actor);
  known.initialized = true;
  if (!known.alive) {
    if (known.in_order) check_stop_order(known);
    if (known.kind == "inference") inference_.erase(actor.id());
    if (known.kind == "replay") silent_workers_left();
    return;
  }
  if (known.kind == "replay") check_replay(*replay_of(&actor));
  if (known.kind == "inference") {
    const InferenceState& state = *inference_of(&actor);
    if (state.batcher && state.pending.size() != state.batcher->pending())
      world_.violate(name_of(actor.id()) + " keeps " + std::to_string(state.pending.size()) +
                     " requests, its batcher " + std::to_string(state.batcher->pending()));
  }
  if (known.kind == "worker") {
    const WorkerState& state = *worker_of(&actor);
    if (state.core && state.core->credits() > state.core->groups() * kCreditsPerGroup)
      world_.violate(name_of(actor.id()) + " holds " + std::to_string(state.core->credits()) + " credits");
  }
}

void Checker::quiet() {
  for (auto& [id, known] : actors_) {
    const auto pointer = known.alive ? caf::actor_cast<caf::strong_actor_ptr>(known.address) : nullptr;
    if (!pointer || !known.initialized) continue;
    if (known.kind == "inference") {
      const InferenceState& state = *inference_of(pointer->get());
      const auto& open = inference_[id].open;
      if (open.size() != state.pending.size())
        world_.violate(name_of(id) + " owes " + std::to_string(open.size()) + " answers and knows of " +
                       std::to_string(state.pending.size()));
      if (state.version && last_published_ && *state.version != *last_published_)
        world_.violate(name_of(id) + " serves " + state.version->text() + " while nothing is under way and " +
                       last_published_->text() + " is published");
    }
    if (known.kind == "replay") {
      const ReplayState& state = *replay_of(pointer->get());
      uint64_t out = 0;
      for (const auto& [worker, account] : workers_)
        if (account.joined) out += credits_[worker] - std::min(credits_[worker], pushed_[worker]);
      if (out != state.store->credits_outstanding())
        world_.violate("replay booked " + std::to_string(state.store->credits_outstanding()) +
                       " credits, workers have " + std::to_string(out));
    }
  }
}

void Checker::check_last(const StatsSnapshot& last) {
  if (replay_.inexact) return;  // what a worker had not reported nobody can know
  const uint64_t made = replay_.base.produced + world_.produced - replay_.produced_before;
  const std::string says =
      "the last report says " + last.ledger.text() + ", env_steps " + std::to_string(last.env_steps);
  if (last.ledger.produced != made || last.env_steps != made)
    world_.violate(says + "; the environments made " + std::to_string(made));
  // Of a reused sample the last failed update decides, so that fewer are lost than were in failed ones.
  if (last.ledger.lost_in_crash > replay_.base.lost_in_crash + replay_.failed)
    world_.violate(says + "; nothing crashed");
}

std::string Checker::dump() {
  std::string text;
  for (auto& [id, known] : actors_) {
    const auto pointer = known.alive ? caf::actor_cast<caf::strong_actor_ptr>(known.address) : nullptr;
    if (!pointer || !known.initialized) continue;
    text += "\n  " + name_of(id) + ":";
    if (const auto* s = trainer_of(pointer->get()))
      text += " version " + s->version.text() + (s->ended ? ", ended" : "");
    if (const auto* s = prefetcher_of(pointer->get()))
      text += std::string(s->trainer ? " the trainer waits" : "") + (s->staged ? ", a batch is ready" : "") +
              (s->asked ? ", waits for replay" : "");
    if (const auto* s = replay_of(pointer->get())) {
      const auto served = s->store->applied_number();
      text += " " + s->store->ledger().text() + ", next index " + std::to_string(s->store->next_index()) +
              ", credits " + std::to_string(s->store->credits_outstanding()) + ", workers " +
              std::to_string(s->workers.size()) + ", applied " + (served ? std::to_string(*served) : "nothing") +
              (s->prefetcher ? ", the prefetcher waits" : "");
    }
    if (const auto* s = inference_of(pointer->get()))
      text += (s->version ? " version " + s->version->text() : " no weights") + ", pending " +
              std::to_string(s->pending.size());
    if (const auto* s = worker_of(pointer->get()); s != nullptr && s->core) {
      const WorkerReport report = s->core->report();
      text += " id " + std::to_string(report.worker) + ", credits " + std::to_string(s->core->credits()) +
              ", partial rollouts " + std::to_string(report.partial.size()) + ", requests " +
              std::to_string(report.requests) + ", retries " + std::to_string(report.retries) + ", last error " +
              report.last_error;
    }
    if (const auto* s = supervisor_of(pointer->get()))
      text += " phase " + std::to_string(static_cast<int>(s->phase)) + ", members " + std::to_string(s->members.size());
  }
  return text;
}

}  // namespace troupe::sim
