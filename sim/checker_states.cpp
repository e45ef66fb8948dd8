// The checks of the actors' states.
#include <algorithm>

#include "actors/config/replay_rules.h"
#include "actors/experience/answers/answer_sampler.h"
#include "actors/run_actors.h"
#include "runtime/weights/sender.h"
#include "sim/actor_states.h"
#include "sim/checker.h"
#include "sim/kinds.h"

namespace troupe::sim {

namespace {

constexpr uint64_t kCreditsPerGroup = 2;

// A receiver of weights has those that it has acknowledged.
void check_acknowledged(World& world, const std::map<caf::actor_id, KnownActor>& actors,
                        const PublisherState& publisher) {
  if (!publisher.sender) return;
  for (const ReceiverReport& report : publisher.sender->receivers()) {
    if (!report.applied || report.state != ReceiverReport::State::connected) continue;
    for (const auto& [id, known] : actors) {
      const auto pointer =
          known.alive && known.remote ? caf::actor_cast<caf::strong_actor_ptr>(known.address) : nullptr;
      const InferenceState* state = pointer ? inference_of(pointer->get()) : nullptr;
      if (state == nullptr || state->inference_index != report.inference_index || state->peers.replay == nullptr)
        continue;
      if (!state->version || *state->version < *report.applied)
        world.violate(known.kind + '#' + std::to_string(known.ordinal) + " has acknowledged version " +
                      report.applied->text() + ", but uses " + (state->version ? state->version->text() : "none"));
    }
  }
}

}  // namespace

void Checker::check_replay(const ReplayState& state) {
  if (!state.store) return;
  const RunConfig& config = world_.scenario.config;
  const Ledger ledger = state.store->ledger();
  replay_.revoked |= state.store->credits_revoked() > 0;
  const auto same = [&](const char* what, uint64_t got, uint64_t wanted) {
    if (got != wanted)
      world_.violate("ledger: " + std::string(what) + " is " + std::to_string(got) + ", expected " +
                     std::to_string(wanted) + " (" + ledger.text() + ")");
  };
  if (!ledger.balances()) world_.violate("the ledger does not balance: " + ledger.text());
  if (state.store->closed()) silent_workers_left();
  same("waiting", ledger.waiting, state.store->count_waiting());
  const uint64_t counted = replay_.arrived + replay_.left + replay_.left_over;
  same("produced", ledger.produced, replay_.base.produced + counted);
  same("env_steps", state.store->env_steps(), ledger.produced);  // every valid step of a FakeEnv is one
  if (state.store->closed()) {                                   // waiting samples are now left over, too
    same("waiting at the end", ledger.waiting, 0);
    if (ledger.left_over < replay_.base.left_over + replay_.left_over)
      world_.violate("the ledger lost samples that workers left over: " + ledger.text());
  } else {
    same("left over", ledger.left_over, replay_.base.left_over + replay_.left_over);
  }
  same("without a score", ledger.unscored, replay_.base.unscored + replay_.unscored);
  same("verifier failed", ledger.verifier_failed, replay_.base.verifier_failed + replay_.failed_scores);
  same("baselines", ledger.baselines, replay_.base.baselines + replay_.baselines);
  same("trained", ledger.trained, replay_.base.trained + replay_.trained);
  if (config.replay.mode == "consume_once")
    same("lost", ledger.lost_in_crash, replay_.base.lost_in_crash + replay_.left + replay_.failed);
  if (counted > world_.produced - replay_.produced_before)
    world_.violate("the ledger counts " + std::to_string(counted) + " samples, but the environments produced " +
                   std::to_string(world_.produced - replay_.produced_before));
  if (ledger.dropped_stale < last_ledger_.dropped_stale || ledger.dropped_full < last_ledger_.dropped_full ||
      ledger.lost_in_crash < last_ledger_.lost_in_crash || ledger.left_over < last_ledger_.left_over)
    world_.violate("a count of the ledger decreased: " + ledger.text());
  check_groups(ledger);
  last_ledger_ = ledger;
  uint64_t joined = 0;
  for (const auto& [worker, account] : workers_) joined += account.joined;
  const uint64_t most = joined * static_cast<uint64_t>(config.workers.groups) * kCreditsPerGroup;
  if (state.store->credits_outstanding() > most)
    world_.violate(std::to_string(state.store->credits_outstanding()) + " credits are outstanding, but at most " +
                   std::to_string(most) + " are allowed");
  const auto shards = static_cast<uint64_t>(config.trainer.shards);
  const uint64_t rollout = shards * samples_per_rollout(config);
  const uint64_t batch =
      static_cast<uint64_t>(config.trainer.super_batch) + shards * static_cast<uint64_t>(config.rollout.length);
  if (ledger.waiting > std::max(state.store->capacity(), batch + rollout) + 3 * batch)
    world_.violate("replay holds " + std::to_string(ledger.waiting) + " samples, but its capacity is " +
                   std::to_string(state.store->capacity()));
}

// Groups that replay left out or dropped.
void Checker::check_groups(const Ledger& ledger) {
  const RunConfig& config = world_.scenario.config;
  const uint64_t filtered = ledger.filtered - replay_.base.filtered;
  const uint64_t most = config.replay.filter_groups ? replay_.without_spread : 0;
  // After 10 super-batches in a row, groups without spread are trained; of each shard by itself.
  const bool all = most <= 10 * static_cast<uint64_t>(config.trainer.super_batch / config.trainer.shards);
  if (filtered > most || (all && filtered < most))
    world_.violate(std::to_string(filtered) + " answers are filtered, but " + std::to_string(most) +
                   " belong to groups without spread");
  const auto generators = std::ranges::count_if(actors_, [this](const auto& entry) {
    const KnownActor& known = entry.second;
    return known.is_inference() && known.role == Role::sampling && known.process == process_;
  });
  // A rollout of steps that is larger than all updates which may use it is dropped in part.
  const ReplayRules rules = replay_rules(config);
  const bool fits =
      rules.unit == UnitKind::group || samples_per_rollout(config) <= rules.max_policy_lag * rules.super_batch;
  const bool waits = rules.waits_for_late && fits;
  if (waits && generators <= 1 && !replay_.revoked && ledger.dropped_stale > last_ledger_.dropped_stale)
    world_.violate("a late sample is dropped, although updates wait for it: " + ledger.text());
}

// Checks that the actors of one stop stage end before those of the next.
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
    if (known.is_inference()) inference_.erase(actor.id());
    if (known.kind == "replay") silent_workers_left();
    return;
  }
  if (known.kind == "replay") check_replay(*replay_of(&actor));
  if (known.kind == "inference") {
    const InferenceState& state = *inference_of(&actor);
    known.role = state.role;
    known.remote = !state.peers.publisher;
    if (state.server && state.pending.size() != state.server->requests())
      world_.violate(name_of(actor.id()) + " has " + std::to_string(state.pending.size()) +
                     " requests, but its server has " + std::to_string(state.server->requests()));
  }
  if (known.kind == "worker") {
    const WorkerState& state = *worker_of(&actor);
    if (state.sampler && state.sampler->credits() > state.sampler->groups() * kCreditsPerGroup)
      world_.violate(name_of(actor.id()) + " holds " + std::to_string(state.sampler->credits()) + " credits");
    if (state.sampler && simulated_kind(world_).workers_count_produced)
      world_.produced += state.sampler->report().env_steps - worker_steps_;
  }
}

// What an inference actor has and owes while no message is in flight.
void Checker::check_pending(caf::actor_id id, const InferenceState& state) {
  // An answer whose client ended before it arrived still counts as open here.
  const auto& open = inference_[id].open;
  const auto owed = static_cast<size_t>(std::ranges::count_if(open, [this](const auto& entry) {
    const auto client = actors_.find(entry.second.client);
    return client != actors_.end() && client->second.alive;
  }));
  const size_t pending = state.pending.size();
  if (pending < owed || pending > open.size())
    world_.violate(name_of(id) + " owes " + std::to_string(owed) + " of " + std::to_string(open.size()) +
                   " answers but has requests pending: " + std::to_string(pending));
  const auto& published = state.role == Role::sampling ? last_published_ : published_reference_;
  if (!actors_[id].remote && state.version && published && *state.version != *published)
    world_.violate(name_of(id) + " uses version " + state.version->text() +
                   " while no message is in flight and version " + published->text() + " is published");
}

// While no message is in flight, a worker waits for no scores.
void Checker::check_scores(caf::actor_id worker, const WorkerState& state) {
  const auto* sampler = dynamic_cast<const AnswerSampler*>(state.sampler.get());
  if (sampler == nullptr || sampler->scores_outstanding() == 0) return;
  world_.violate(name_of(worker) + " waits for the scores of " + std::to_string(sampler->scores_outstanding()) +
                 " groups that nobody computes");
}

// While no message is in flight, an inference actor of another process has the weights that its process has
// acknowledged.
void Checker::quiet() {
  for (auto& [id, known] : actors_) {
    const auto pointer = known.alive ? caf::actor_cast<caf::strong_actor_ptr>(known.address) : nullptr;
    if (!pointer || !known.initialized) continue;
    if (const InferenceState* state = inference_of(pointer->get())) {
      check_pending(id, *state);
      if (!simulated_kind(world_).requests_may_wait && state->version && !state->pending.empty())
        world_.violate(name_of(id) + " has " + std::to_string(state->pending.size()) +
                       " requests, but computes nothing");
    }
    if (const WorkerState* state = worker_of(pointer->get())) check_scores(id, *state);
    if (known.kind == "publisher") check_acknowledged(world_, actors_, *publisher_of(pointer->get()));
    if (known.kind == "replay") {
      const ReplayState& state = *replay_of(pointer->get());
      uint64_t out = 0;
      for (const auto& [worker, account] : workers_)
        if (account.joined) out += credits_[worker] - std::min(credits_[worker], pushed_[worker]);
      const uint64_t counted = state.store->credits_outstanding() + state.store->credits_revoked();
      if (out != counted)
        world_.violate("replay counts " + std::to_string(counted) +
                       " outstanding and revoked credits, but workers have " + std::to_string(out));
    }
  }
}

void Checker::check_last(const StatsSnapshot& last) {
  if (replay_.inexact) return;  // samples that a worker did not report cannot be known
  const uint64_t made = replay_.base.produced + world_.produced - replay_.produced_before;
  const std::string says =
      "the last report says " + last.ledger.text() + ", env_steps " + std::to_string(last.env_steps);
  if (last.ledger.produced != made || last.env_steps != made)
    world_.violate(says + ", but the environments produced " + std::to_string(made));
  // For a reused sample the last failed update counts, so fewer samples may be lost than failed updates contained.
  if (last.ledger.lost_in_crash > replay_.base.lost_in_crash + replay_.failed)
    world_.violate(says + ", but no update failed");
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
      text += std::string(s->trainer ? " the trainer waits" : "") + (s->staged.empty() ? "" : ", a batch is ready") +
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
    if (const auto* s = worker_of(pointer->get()); s != nullptr && s->sampler) {
      const WorkerReport report = s->sampler->report();
      text += " id " + std::to_string(report.worker) + ", credits " + std::to_string(s->sampler->credits()) +
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
