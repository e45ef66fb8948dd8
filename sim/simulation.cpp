#include "sim/simulation.h"

#include <algorithm>
#include <map>
#include <typeinfo>

#include <caf/actor_registry.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scheduler/test_coordinator.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/config/config.h"
#include "actors/inference.h"
#include "actors/resume.h"
#include "actors/supervisor.h"
#include "actors/worker_host.h"
#include "runtime/base/memory_disk.h"
#include "runtime/caf/system.h"
#include "runtime/run_folder/run_folder.h"
#include "runtime/stats/snapshot.h"
#include "sim/checker.h"
#include "sim/fakes.h"
#include "sim/link.h"

namespace troupe::sim {

namespace {

using Seconds = std::chrono::duration<double>;

constexpr uint64_t kMaxEvents = 60'000;   // of one simulation; a healthy one needs a few thousand
constexpr uint64_t kQuietEvents = 4'000;  // after these no new faults come, so that the run can end
constexpr double kMaxIdleSeconds = 90;    // of virtual time without progress: longer than every patience and back-off
constexpr uint64_t kMaxProcesses = 8;

// What RunReport does in a real run, on a disk in memory.
class SimulatedSink final : public RunSink {
 public:
  SimulatedSink(World& world, Checker& checker, MemoryDisk& disk)
      : world_(world), checker_(checker), store_(disk, "run/checkpoints") {}
  void save(const Checkpoint& checkpoint) override {
    if (world_.scenario.mutation == Mutation::checkpoint_missing) return;
    store_.save(checkpoint);
    store_.prune(static_cast<uint64_t>(world_.scenario.config.checkpoint.keep), checkpoint.updates);
  }
  void record(const StatsSnapshot& snapshot) override {
    if (snapshot.env_steps < recorded_)
      world_.violate("a point at " + std::to_string(snapshot.env_steps) + " steps comes after one at " +
                     std::to_string(recorded_));
    recorded_ = snapshot.env_steps;
    look_at(snapshot);
  }
  void show(const StatsSnapshot& snapshot) override { look_at(snapshot); }
  CheckpointStore& store() { return store_; }
  const StatsSnapshot& last() const { return last_; }

 private:
  void look_at(const StatsSnapshot& snapshot) {
    if (!snapshot.ledger.balances()) world_.violate("a reported ledger does not balance: " + snapshot.ledger.text());
    if (snapshot.lag_max > static_cast<double>(world_.scenario.config.replay.max_policy_lag))
      world_.violate("a lag of " + std::to_string(snapshot.lag_max) + " is reported");
    // Every step of a fake environment is one sample.
    if (snapshot.env_steps != snapshot.ledger.produced)
      world_.violate("a report of " + std::to_string(snapshot.env_steps) + " steps has " + snapshot.ledger.text());
    checker_.check_return(snapshot);
    last_ = snapshot;
  }

  World& world_;
  Checker& checker_;
  CheckpointStore store_;
  StatsSnapshot last_;
  uint64_t recorded_ = 0;
};

RunConfig as_the_actors_see_it(const Scenario& scenario) {
  RunConfig config = scenario.config;
  if (scenario.mutation == Mutation::lag_bound_off) config.replay.max_policy_lag += 2;
  if (scenario.mutation == Mutation::max_batch_off) config.inference.max_batch *= 4;
  if (scenario.mutation == Mutation::max_batch_off) config.inference.batch_size = config.inference.max_batch;
  if (scenario.mutation == Mutation::gamma_off) config.algorithm.gamma = 0.8;
  if (scenario.mutation == Mutation::quarantine_off) config.workers.quarantine_after = 1'000'000;
  return config;
}

class Simulation {
 public:
  Simulation(uint64_t seed, Mutation mutation, const std::function<void(const std::string&)>& trace)
      : world_(draw_scenario(seed, mutation)), checker_(world_), rng_(derive_key(seed, "schedule")), trace_(trace) {
    register_messages(system_config_);
    configure(system_config_, {.scheduler = SchedulerKind::single_step, .network_config = {}});
    system_ = std::make_unique<caf::actor_system>(system_config_);
    scheduler_ = &dynamic_cast<caf::scheduler::test_coordinator&>(system_->scheduler());
    while (scheduler_->try_run_once()) {
    }
    running_at_rest_ = system_->registry().running();
    auto context = std::make_shared<RunContext>();
    context->config = as_the_actors_see_it(scenario());
    context->spec = fake_spec();
    context->recurrence = scenario().recurrence;
    context->make_env = [this](const EnvConfig& env) { return std::make_unique<FakeEnv>(world_, env.rows); };
    context->make_evaluation_env = [this](int64_t rows) { return std::make_unique<FakeEnv>(world_, rows); };
    context->make_policy = [this] { return fake_policy(world_); };
    context->threads = false;
    context_ = context;
    nodes_.resize(static_cast<size_t>(scenario().nodes));
  }

  Outcome run();

 private:
  struct Node {  // a worker process elsewhere
    WorkerHostActor host;
    bool host_ended = true;
    std::vector<std::shared_ptr<Link>> links;  // the last one is the newest
    caf::actor_clock::time_point stalled_until;
  };
  enum class Choice { nothing, job, parcel };

  const Scenario& scenario() const { return world_.scenario; }
  caf::detail::test_actor_clock& clock() { return scheduler_->clock(); }
  double now() { return Seconds(clock().now().time_since_epoch()).count(); }
  bool chance(double p) { return rng_.uniform_double() < p; }

  void start_process();
  void run_process();
  void end_process();
  void finish();
  void crash();
  void run_only(const std::function<bool(const KnownActor&)>& wanted);
  bool step();
  void drain();
  void idle();
  size_t pick_job();
  void run_job(size_t index);
  std::vector<std::pair<Link*, Direction>> deliverable();
  void faults();
  void spawn_hosts();
  void cut(Node& node, bool late);
  std::vector<caf::strong_actor_ptr> alive(const std::function<bool(const KnownActor&)>& wanted);
  bool of_node(const KnownActor& known);
  void kill(const caf::strong_actor_ptr& actor, const std::string& what);
  bool kill_one(const std::function<bool(const KnownActor&)>& wanted);
  void forget_request(caf::scheduled_actor& actor);
  void mutate(caf::scheduled_actor& actor, caf::mailbox_element& element);
  void note(const std::string& kind, uint64_t ordinal, caf::mailbox_element* element);
  void event(const std::string& text);
  void check_outcome();

  World world_;
  Checker checker_;
  Rng rng_;
  std::function<void(const std::string&)> trace_;
  Outcome outcome_;
  MemoryDisk disk_;
  caf::actor_system_config system_config_;
  std::unique_ptr<caf::actor_system> system_;
  caf::scheduler::test_coordinator* scheduler_ = nullptr;
  size_t running_at_rest_ = 0;
  RunContextPtr context_;
  std::vector<Node> nodes_;
  std::vector<std::shared_ptr<Link>> old_links_;

  SupervisorActor supervisor_;
  std::shared_ptr<SimulatedSink> sink_;
  RunOutcome run_outcome_;
  bool ended_ = false, crashed_ = false, done_ = false;
  bool cause_ = false;  // something was done that may end the process with an error
  bool interrupted_ = false, disk_fault_ = false, disk_faults_ever_ = false;
  uint32_t endings_ = 0;
  double idle_seconds_ = 0;
  uint64_t progress_ = 0;
  bool disturbed_ = false;  // what replay hears or says was touched in this process
  PolicyVersion start_version_;
  std::map<uint64_t, uint64_t> priority_;
  std::map<const std::type_info*, uint64_t> type_hash_;
  std::vector<WeightsPtr> old_weights_;
  std::map<std::pair<uint64_t, uint32_t>, Array> last_states_;  // by worker and group
  std::shared_ptr<const SuperBatch> last_batch_;
  caf::actor leaked_;
};

uint64_t hash_text(const char* text) {
  uint64_t hash = 14695981039346656037ULL;
  for (; *text != 0; ++text) hash = (hash ^ static_cast<unsigned char>(*text)) * 1099511628211ULL;
  return hash;
}

void Simulation::event(const std::string& text) {
  outcome_.trace_hash = mix(outcome_.trace_hash, hash_text(text.c_str()));
  if (trace_) trace_(std::to_string(outcome_.events) + " " + std::to_string(now()) + "s  " + text);
}

void Simulation::note(const std::string& kind, uint64_t ordinal, caf::mailbox_element* element) {
  ++outcome_.events;
  uint64_t what = 0;
  if (element != nullptr && !element->content().empty()) {
    const auto type = element->content().type(0);
    what = type.first;
    if (type.second != nullptr) {
      const auto [it, added] = type_hash_.try_emplace(type.second, 0);
      if (added) it->second = hash_text(type.second->name());
      what = it->second;
    }
  }
  outcome_.trace_hash = mix(mix(outcome_.trace_hash, hash_text(kind.c_str()) + ordinal),
                            mix(what, static_cast<uint64_t>(clock().now().time_since_epoch().count())));
  if (!trace_) return;
  std::string text = element == nullptr ? "starts" : element->content().stringify();
  if (text.size() > 200) text.resize(200);
  const caf::actor_id sender = element != nullptr && element->sender ? element->sender->id() : 0;
  const auto from = checker_.actors().find(sender);
  const std::string who =
      from == checker_.actors().end() ? "-" : from->second.kind + "#" + std::to_string(from->second.ordinal);
  trace_(std::to_string(outcome_.events) + " " + std::to_string(now()) + "s  " + kind + "#" + std::to_string(ordinal) +
         " <- " + who + " " + text);
}

// -- processes ---------------------------------------------------------------------------------------------------------------

void Simulation::start_process() {
  ++outcome_.processes;
  disk_.clear_fault();
  disk_fault_ = ended_ = crashed_ = cause_ = interrupted_ = disturbed_ = false;
  run_outcome_ = {};
  sink_ = std::make_shared<SimulatedSink>(world_, checker_, disk_);
  ReplayStart start;
  const std::optional<Checkpoint> checkpoint = sink_->store().recover();
  disk_.make_directory("run");
  const uint32_t epoch = take_epoch(disk_, "run", checkpoint ? checkpoint->version.epoch + 1 : 0);
  auto learner = std::make_shared<FakeLearner>(world_, epoch);
  if (checkpoint) start = resume(*checkpoint, *learner);
  start.version.epoch = epoch;
  if (scenario().mutation == Mutation::epoch_kept && outcome_.processes > 1) --start.version.epoch;
  if (outcome_.processes > 1 && start.version.epoch <= start_version_.epoch)
    world_.violate("epoch " + std::to_string(start.version.epoch) + " is used again after a resume");
  if (checkpoint) {
    if (start.env_steps != start.ledger.produced)
      world_.violate("a checkpoint has " + std::to_string(start.env_steps) + " steps and " + start.ledger.text());
    if (!start.ledger.balances()) world_.violate("a restored ledger does not balance: " + start.ledger.text());
  }
  start_version_ = start.version;
  event("process " + std::to_string(outcome_.processes) + " starts at " + start.version.text());
  checker_.begin_process(start);
  RunParts parts{learner, start, sink_, [this](const RunOutcome& outcome) {
                   if (ended_) world_.violate("the run ends twice");
                   ended_ = true;
                   run_outcome_ = outcome;
                 }};
  supervisor_ = system_->spawn(supervisor, context_, parts);
  if (scenario().mutation == Mutation::actor_leaked)
    leaked_ = system_->spawn([](caf::event_based_actor*) -> caf::behavior { return {[](int) {}}; });
  spawn_hosts();
}

void Simulation::spawn_hosts() {
  for (Node& node : nodes_) {
    if (!node.host_ended) continue;
    node.host_ended = false;
    RunAddress address;
    address.local = [this, &node]() -> JoinService {
      if (!supervisor_) return {};
      auto link = std::make_shared<Link>(*system_, [this](const caf::strong_actor_ptr& from, caf::actor_id proxy,
                                                          const caf::type_erased_tuple& content) {
        if (from && content.match_elements<ActReply>())
          checker_.answer_sent(from->id(), proxy, content.get_as<ActReply>(0));
      });
      node.links.push_back(link);
      return caf::actor_cast<JoinService>(
          link->stand_in(caf::actor_cast<caf::strong_actor_ptr>(supervisor_), Direction::to_run));
    };
    node.host = system_->spawn(
        worker_host, address,
        [this](const std::string& config) -> RunContextPtr {
          if (parse_config(config, "welcome") != context_->config) world_.violate("a welcome carries another config");
          return context_;
        },
        [this, &node](const std::string& error) {
          event("a worker host ended: " + error);
          node.host_ended = true;
        });
  }
}

bool Simulation::of_node(const KnownActor& known) {
  if (known.kind == "worker host") return true;
  if (known.kind != "worker") return false;
  for (const Node& node : nodes_) {
    const auto host = caf::actor_cast<caf::strong_actor_ptr>(node.host);
    if (!host || node.host_ended) continue;
    const auto* typed =
        dynamic_cast<std::remove_pointer_t<WorkerHostActor::stateful_pointer<WorkerHostState>>*>(host->get());
    if (typed != nullptr && checker_.actors().contains(host->id()) && checker_.actors()[host->id()].initialized &&
        typed->state.worker && typed->state.worker.address() == known.address)
      return true;
  }
  return false;
}

// All actors that live and are wanted, also those that have not run yet.
std::vector<caf::strong_actor_ptr> Simulation::alive(const std::function<bool(const KnownActor&)>& wanted) {
  for (caf::resumable* job : scheduler_->jobs)
    if (auto* actor = dynamic_cast<caf::scheduled_actor*>(job)) checker_.know(*actor);
  std::vector<caf::strong_actor_ptr> result;
  for (auto& [id, known] : checker_.actors()) {
    if (!known.alive || !wanted(known)) continue;
    if (auto pointer = caf::actor_cast<caf::strong_actor_ptr>(known.address)) result.push_back(pointer);
  }
  return result;
}

void Simulation::kill(const caf::strong_actor_ptr& actor, const std::string& what) {
  if (!actor) return;
  event("kill " + what);
  actor->enqueue(nullptr, caf::make_message_id(caf::message_priority::high),
                 caf::make_message(caf::exit_msg{caf::actor_addr{}, caf::exit_reason::kill}), nullptr);
}

bool Simulation::kill_one(const std::function<bool(const KnownActor&)>& wanted) {
  const auto victims = alive(wanted);
  if (victims.empty()) return false;
  const auto& victim = victims[rng_.below(victims.size())];
  const KnownActor& known = checker_.actors()[victim->id()];
  kill(victim, known.kind + "#" + std::to_string(known.ordinal));
  return true;
}

// The trainer's process is killed: all its actors at once; the disk keeps what it has.
void Simulation::crash() {
  event("the process is killed");
  crashed_ = true;
  supervisor_ = nullptr;
  // An actor that has not run yet may start others before it takes its own end: until nobody is left.
  const auto ours = [&](const KnownActor& known) { return !of_node(known); };
  for (auto victims = alive(ours); !victims.empty(); victims = alive(ours)) {
    for (const auto& actor : victims) kill(actor, "all");
    run_only(ours);
  }
}

void Simulation::run_only(const std::function<bool(const KnownActor&)>& wanted) {
  for (size_t i = 0; i < scheduler_->jobs.size();) {
    auto* actor = dynamic_cast<caf::scheduled_actor*>(scheduler_->jobs[i]);
    if (actor == nullptr || !wanted(checker_.know(*actor))) {
      ++i;
      continue;
    }
    run_job(i);
    i = 0;
  }
}

void Simulation::cut(Node& node, bool late) {
  for (const auto& link : node.links) link->cut(late);
  old_links_.insert(old_links_.end(), node.links.begin(), node.links.end());
  node.links.clear();
}

// -- the schedule ------------------------------------------------------------------------------------------------------------

size_t Simulation::pick_job() {
  auto& jobs = scheduler_->jobs;
  if (jobs.size() == 1) return 0;
  if (scenario().schedule == Schedule::uniform) return rng_.below(jobs.size());
  if (scenario().schedule == Schedule::mostly_in_order) return chance(0.1) ? rng_.below(jobs.size()) : 0;
  if (chance(0.02)) priority_.clear();
  size_t best = 0;
  uint64_t highest = 0;
  for (size_t i = 0; i < jobs.size(); ++i) {
    auto* actor = dynamic_cast<caf::scheduled_actor*>(jobs[i]);
    const uint64_t id = actor == nullptr ? 0 : actor->id();
    const auto [it, added] = priority_.try_emplace(id, 0);
    if (added) it->second = rng_.next_u64() | 1;
    if (it->second > highest) {
      highest = it->second;
      best = i;
    }
  }
  return best;
}

void Simulation::run_job(size_t index) {
  auto& jobs = scheduler_->jobs;
  std::swap(jobs[0], jobs[index]);
  auto* actor = dynamic_cast<caf::scheduled_actor*>(jobs.front());
  if (actor == nullptr) {
    scheduler_->try_run_once();
    return;
  }
  const caf::strong_actor_ptr keep(actor->ctrl());
  KnownActor& known = checker_.know(*actor);
  caf::mailbox_element* element = known.alive ? actor->mailbox().peek() : nullptr;
  if (element != nullptr && scenario().mutation != Mutation::none) mutate(*actor, *element);
  note(known.kind, known.ordinal, element);
  checker_.before(*actor, element);
  scheduler_->try_run_once();
  if (scenario().mutation == Mutation::request_lost && known.alive) forget_request(*actor);
  checker_.after(*actor);
  if (world_.seconds_to_pass > 0) {
    clock().current_time +=
        std::chrono::duration_cast<caf::actor_clock::duration_type>(Seconds(world_.seconds_to_pass));
    world_.seconds_to_pass = 0;
  }
}

std::vector<std::pair<Link*, Direction>> Simulation::deliverable() {
  std::vector<std::pair<Link*, Direction>> result;
  for (Node& node : nodes_) {
    if (clock().now() < node.stalled_until) continue;
    for (const auto& link : node.links)
      for (const Direction direction : {Direction::to_run, Direction::to_node})
        if (link->waiting(direction) > 0) result.emplace_back(link.get(), direction);
  }
  return result;
}

// One event; false when nothing can happen but a timer.
bool Simulation::step() {
  const auto parcels = deliverable();
  const size_t jobs = scheduler_->jobs.size();
  if (jobs == 0 && parcels.empty()) return false;
  if (jobs > 0 && (parcels.empty() || rng_.below(jobs + parcels.size()) < jobs)) {
    run_job(pick_job());
  } else {
    const auto [link, direction] = parcels[rng_.below(parcels.size())];
    event(direction == Direction::to_run ? "a message arrives at the run" : "a message arrives at a node");
    link->deliver(direction);
  }
  return true;
}

void Simulation::drain() {
  const uint64_t limit = outcome_.events + 20'000;
  while (!world_.violation && step())
    if (outcome_.events > limit) return world_.violate("actors do not come to rest" + checker_.dump());
}

// Nobody has anything to do: the next timer.
void Simulation::idle() {
  if (std::ranges::all_of(nodes_, [&](const Node& node) { return clock().now() >= node.stalled_until; }) && !ended_)
    checker_.quiet();
  if (world_.violation) return;
  const auto before = clock().now();
  if (!scheduler_->trigger_timeout()) return world_.violate("the run waits for nothing" + checker_.dump());
  idle_seconds_ += Seconds(clock().now() - before).count();
  if (idle_seconds_ > kMaxIdleSeconds) world_.violate("the run is stuck" + checker_.dump());
}

// -- faults ------------------------------------------------------------------------------------------------------------------

void Simulation::faults() {
  const Scenario& s = scenario();
  if (chance(s.clock)) {
    const double seconds = chance(0.1) ? rng_.uniform_double() * 20 : rng_.uniform_double() * 0.2;
    event("the clock moves on by " + std::to_string(seconds) + " s");
    scheduler_->advance_time(std::chrono::duration_cast<caf::timespan>(Seconds(seconds)));
  }
  world_.faults_on = outcome_.events < kQuietEvents;
  if (!world_.faults_on || outcome_.faults >= s.max_faults) return;
  const auto is = [](const char* kind) { return [kind](const KnownActor& known) { return known.kind == kind; }; };
  const auto counted = [&](bool happened) {
    outcome_.faults += happened;
    idle_seconds_ = 0;
  };
  const auto disturbing = [&](bool happened) {
    counted(happened);
    disturbed_ |= happened;
  };
  if (chance(s.kill_worker)) disturbing(kill_one(is("worker")));
  if (chance(s.kill_inference)) counted(kill_one(is("inference")));
  if (endings_ < s.max_endings) {
    if (chance(s.kill_essential)) {
      const auto essential = [&](const KnownActor& known) {
        return known.kind != "worker" && known.kind != "inference" && known.kind != "worker host" &&
               known.kind != "supervisor";
      };
      if (kill_one(essential)) {
        cause_ = true;
        ++endings_;
        disturbing(true);
      }
    } else if (chance(s.crash)) {
      ++endings_;
      counted(true);
      return crash();
    } else if (chance(s.interrupt) && !interrupted_) {
      event("interrupt");
      interrupted_ = true;
      ++endings_;
      counted(true);
      caf::anon_send(supervisor_, Stop{"interrupted"});
    }
  }
  if (chance(s.disk) && !disk_fault_) {
    disk_fault_ = disk_faults_ever_ = true;
    const bool crash_there = endings_ < s.max_endings && chance(0.5);
    event(crash_there ? "the disk will cut a write short" : "the disk will refuse");
    disk_.set_fault({crash_there ? DiskFault::Kind::crash : DiskFault::Kind::refuse,
                     disk_.operations() + rng_.below(12), 1 + rng_.below(8)});
    counted(true);
  }
  if (nodes_.empty()) return;
  Node& node = nodes_[rng_.below(nodes_.size())];
  if (chance(s.cut) && !node.links.empty()) {
    event("a connection breaks");
    cut(node, chance(0.3));
    disturbing(true);
  }
  if (chance(s.stall)) {
    event("a connection stalls");
    node.stalled_until =
        clock().now() + std::chrono::duration_cast<caf::actor_clock::duration_type>(Seconds(rng_.uniform_double() * 8));
    disturbing(true);
  }
  if (chance(s.kill_node) && !node.host_ended) {
    event("a worker process is killed");
    for (const auto& actor : alive([&](const KnownActor& known) {
           return known.address == node.host.address() || (known.kind == "worker" && of_node(known));
         }))
      kill(actor, "of a node");
    cut(node, false);
    node.host_ended = true;
    disturbing(true);
  }
}

// -- bugs put in on purpose --------------------------------------------------------------------------------------------------

template <class T>
T* mutable_content(caf::mailbox_element& element) {
  return element.content().match_elements<T>() ? &element.content().get_mutable_as<T>(0) : nullptr;
}

void Simulation::forget_request(caf::scheduled_actor& actor) {
  auto* inference = dynamic_cast<std::remove_pointer_t<InferenceActor::stateful_pointer<InferenceState>>*>(&actor);
  if (inference == nullptr || inference->state.pending.empty() || !chance(0.2)) return;
  InferenceState& state = inference->state;
  for (const uint64_t ticket : state.batcher->forget(state.pending.begin()->second.id.worker))
    state.pending.erase(ticket);
}

void Simulation::mutate(caf::scheduled_actor& actor, caf::mailbox_element& element) {
  const std::string kind = actor.name();
  const Mutation m = scenario().mutation;
  const auto again = [&] { actor.enqueue(element.sender, element.mid, element.copy_content_to_message(), nullptr); };
  if (kind == "publisher") {
    if (auto* weights = mutable_content<WeightsMessage>(element)) old_weights_.push_back(weights->weights);
  }
  if (kind == "inference") {
    if (auto* request = mutable_content<ActRequest>(element);
        request != nullptr && m == Mutation::state_kept && request->rows > 0) {
      const Array now = request->state;
      Array& last = last_states_[{request->worker, request->group}];
      if (!last.empty()) request->state = last;
      last = now;
    }
    if (auto* weights = mutable_content<WeightsMessage>(element);
        weights != nullptr && weights->weights->version.number > start_version_.number) {
      const PolicyVersion version = weights->weights->version;
      if (m == Mutation::weights_old)
        weights->weights = old_weights_[old_weights_.size() > 1 ? old_weights_.size() - 2 : 0];
      if (m == Mutation::weights_torn) weights->weights = fake_weights(version, {version.epoch, version.number - 1});
    }
  }
  if (kind == "worker") {
    if (auto* reply = mutable_content<ActReply>(element); reply != nullptr && reply->fault == Fault::none) {
      if (m == Mutation::reply_twice && chance(0.05)) again();
      if (m == Mutation::reply_lost && chance(0.1)) reply->id += 1000;
      if (m == Mutation::answers_unheard && outcome_.events > 150) reply->group = 99;
      if (m == Mutation::reply_shifted && reply->values.size() > 1) {
        reply->values = reply->values.clone();
        std::ranges::rotate(reply->values.mutable_view<float>(), reply->values.mutable_view<float>().begin() + 1);
      }
      if (m == Mutation::state_shifted && reply->state.size() > 2) {
        reply->state = reply->state.clone();
        std::ranges::rotate(reply->state.mutable_view<float>(), reply->state.mutable_view<float>().begin() + 2);
      }
      if (m == Mutation::reply_relabelled && reply->version.number > start_version_.number && chance(0.3))
        --reply->version.number;
    }
    if (auto* credits = mutable_content<Credits>(element)) {
      if (m == Mutation::credit_lost && chance(0.3)) --credits->count;
      if (m == Mutation::credit_extra) credits->count += 3;
    }
  }
  if (kind == "replay") {
    if (auto* message = mutable_content<RolloutMessage>(element)) {
      auto changed = std::make_shared<Rollout>(*message->rollout);
      if (m == Mutation::rollout_twice && chance(0.2)) again();
      if (m == Mutation::rollout_renumbered && changed->sequence > 0) ++changed->sequence;
      if (m == Mutation::rollout_miscounted && chance(0.3)) ++changed->samples;
      if (m == Mutation::start_forgotten && !changed->starts.empty())
        changed->starts = Array(DType::u8, changed->starts.shape());
      if (m == Mutation::rollout_reordered && changed->steps() > 1) {
        changed->rewards = changed->rewards.clone();
        std::ranges::rotate(changed->rewards.mutable_view<float>(),
                            changed->rewards.mutable_view<float>().begin() + changed->columns());
      }
      message->rollout = changed;
    }
    if (auto* report = mutable_content<WorkerReport>(element); report != nullptr && m == Mutation::last_words_lost)
      report->partial.clear();
    if (auto* update = mutable_content<UpdateMessage>(element); update != nullptr && m == Mutation::update_claimed)
      update->applied = !update->applied;
  }
  if (kind == "prefetcher")
    if (auto* message = mutable_content<BatchMessage>(element)) {
      if (m == Mutation::batch_again && last_batch_) {
        auto changed = std::make_shared<SuperBatch>(*last_batch_);
        changed->index = message->batch->index;
        message->batch = changed;
      }
      last_batch_ = message->batch;
    }
  if (kind == "evaluator")
    if (auto* job = mutable_content<EvaluateMessage>(element);
        job != nullptr && job->last && m == Mutation::evaluation_old && !old_weights_.empty())
      job->weights = old_weights_.front();
}

// -- the whole ---------------------------------------------------------------------------------------------------------------

void Simulation::run_process() {
  start_process();
  idle_seconds_ = 0;
  while (!ended_ && !crashed_ && !world_.violation) {
    if (checker_.updates() != progress_) idle_seconds_ = 0;
    progress_ = checker_.updates();
    if (outcome_.events > kMaxEvents) return world_.violate("the run does not end" + checker_.dump());
    faults();
    if (crashed_ || world_.violation) break;
    if (!step()) {
      spawn_hosts();
      if (scheduler_->jobs.empty()) idle();
    }
  }
}

void Simulation::check_outcome() {
  const RunConfig& config = scenario().config;
  const RunOutcome& run = run_outcome_;
  const auto wrong = [&](const std::string& what) {
    world_.violate(what + " (reason \"" + run.reason + "\", error \"" + run.error + "\")");
  };
  if (!run.error.empty()) {
    if (run.error.find("on purpose") == std::string::npos && run.error.find("not finite") == std::string::npos &&
        !cause_)
      wrong("the run ended with an error that nothing explains");
    return;
  }
  // Workers elsewhere may still step for the process before.
  if (!disturbed_ && (outcome_.processes == 1 || nodes_.empty())) checker_.check_last(sink_->last());
  if (!run.checkpoint_written && !disk_faults_ever_) wrong("there is no last checkpoint");
  if (run.checkpoint_written) {
    const auto checkpoint = sink_->store().load_newest();
    if (!checkpoint || checkpoint->version != run.version)
      wrong("the last checkpoint is not of version " + run.version.text());
  }
  if (run.reason == "interrupted") {
    if (!interrupted_) wrong("nobody interrupted the run");
    return;
  }
  if (run.version.number != static_cast<uint64_t>(config.stop.updates))
    wrong("the run ended at version " + run.version.text());
  if (interrupted_) return;
  if (!run.evaluation) return wrong("there is no last evaluation");
  if (run.evaluation->version != run.version)
    wrong("the last evaluation is of version " + run.evaluation->version.text());
  if (!run.evaluation->error.empty() || run.evaluation->episodes != static_cast<uint64_t>(config.evaluation.episodes))
    wrong("the last evaluation has " + std::to_string(run.evaluation->episodes) +
          " episodes: " + run.evaluation->error);
}

// Everything of the process must be gone once its messages are.
void Simulation::end_process() {
  if (!crashed_) drain();
  supervisor_ = nullptr;
  if (world_.violation) return;
  if (!crashed_) check_outcome();
  event(crashed_ ? "killed" : "ended: " + run_outcome_.reason + " " + run_outcome_.error);
  outcome_.end = crashed_ ? "killed" : run_outcome_.error.empty() ? run_outcome_.reason : run_outcome_.error;
  for (Node& node : nodes_) cut(node, false);
  if (!crashed_) drain();
  const auto left =
      alive([&](const KnownActor& known) { return known.kind != "worker host" && known.kind != "worker"; });
  if (!left.empty()) world_.violate("actors outlive the run:" + checker_.dump());
  done_ = !crashed_ && run_outcome_.error.empty() && run_outcome_.reason != "interrupted";
  if (endings_ < scenario().max_endings) ++endings_;
  if (endings_ >= 2 || outcome_.processes >= 3) {
    world_.scenario.learner_throws = world_.scenario.update_skipped = 0;
    world_.scenario.max_endings = 0;
  }
}

// The hosts end as well, and then nobody is left.
void Simulation::finish() {
  for (Node& node : nodes_)
    if (!node.host_ended) caf::anon_send(node.host, Stop{"the end"});
  drain();
  if (world_.violation) return;
  const size_t running = system_->registry().running();
  if (running != running_at_rest_)
    world_.violate(std::to_string(running - running_at_rest_) + " actors are left at the end:" + checker_.dump());
}

Outcome Simulation::run() {
  outcome_.scenario = scenario().text();
  while (!done_ && !world_.violation) {
    if (outcome_.processes >= kMaxProcesses)
      world_.violate("the run does not get to its end in " + std::to_string(kMaxProcesses) + " processes");
    if (world_.violation) break;
    run_process();
    if (!world_.violation) end_process();
  }
  if (!world_.violation) finish();
  // After a violation actors may be left; they are ended, or their timers would keep the system busy for ever.
  system_->await_actors_before_shutdown(false);
  const auto anyone = [](const KnownActor&) { return true; };
  for (auto rest = alive(anyone); !rest.empty(); rest = alive(anyone)) {
    for (const auto& actor : rest) kill(actor, "the rest");
    run_only(anyone);
  }
  for (Node& node : nodes_) cut(node, false);
  outcome_.violation = world_.violation;
  outcome_.updates = checker_.updates();
  outcome_.largest_mailbox = checker_.largest_mailbox();
  return outcome_;
}

}  // namespace

Outcome simulate(uint64_t seed, Mutation mutation, const std::function<void(const std::string&)>& trace) {
  return Simulation(seed, mutation, trace).run();
}

}  // namespace troupe::sim
