#include "sim/simulated_run.h"

#include <caf/actor_registry.hpp>

#include "runtime/caf/system.h"
#include "sim/fake_learner.h"
#include "sim/fake_reference.h"

namespace troupe::sim {

namespace {

RunConfig as_the_actors_see_it(const Scenario& scenario) {
  RunConfig config = scenario.config;
  if (scenario.mutation == Mutation::lag_cap_off) config.replay.max_policy_lag += 2;
  if (scenario.mutation == Mutation::late_dropped) config.replay.late = "drop";
  if (scenario.mutation == Mutation::cells_kept || scenario.mutation == Mutation::finish_ignored)
    config.generation.on_new_weights = "keep";
  if (scenario.mutation == Mutation::max_batch_off) config.inference.max_batch *= 4;
  if (scenario.mutation == Mutation::max_batch_off) config.inference.batch_size = config.inference.max_batch;
  if (scenario.mutation == Mutation::gamma_off) config.algorithm.gamma = 0.8;
  if (scenario.mutation == Mutation::quarantine_off) config.workers.quarantine_after = 1'000'000;
  return config;
}

uint64_t hash_text(const char* text) {
  uint64_t hash = 14695981039346656037ULL;
  for (; *text != 0; ++text) hash = (hash ^ static_cast<unsigned char>(*text)) * 1099511628211ULL;
  return hash;
}

}  // namespace

SimulatedRun::SimulatedRun(const Scenario& drawn, const std::function<void(const std::string&)>& trace)
    : world(drawn),
      checker(world),
      rng(derive_key(drawn.seed, "schedule")),
      rank_rng(derive_key(drawn.seed, "rank faults")),
      trace(trace),
      network(world) {
  register_messages(system_config);
  configure(system_config, {.scheduler = SchedulerKind::single_step, .network_config = {}});
  system = std::make_unique<caf::actor_system>(system_config);
  scheduler = &dynamic_cast<caf::scheduler::test_coordinator&>(system->scheduler());
  while (scheduler->try_run_once()) {
  }
  running_at_rest = system->registry().running();
  auto made = std::make_shared<RunContext>();
  made->config = as_the_actors_see_it(scenario());
  if (is_token_run(made->config)) made->tokens = fake_token_run(world);
  if (!made->config.task.verifier.empty()) made->make_task_graders = [this] { return fake_verifiers(world); };
  made->spec = fake_spec();
  made->signature = fake_signature();
  made->make_group_backend = [this](const std::string&) { return network.backend([] { return false; }); };
  made->recurrence = scenario().recurrence;
  made->make_env = [this](const EnvConfig& env) { return std::make_unique<FakeEnv>(world, env.rows); };
  made->make_evaluation_env = [this](int64_t rows) { return std::make_unique<FakeEnv>(world, rows); };
  made->make_policy = [this] { return fake_policy(world); };
  made->make_learner = [this] { return std::make_shared<FakeLearner>(world, start_version.epoch, /*leads=*/false); };
  made->make_generator = [this](double /*temperature*/) { return fake_generator(world); };
  made->make_reference = [this](double /*temperature*/, int64_t /*threads*/) { return fake_reference(world); };
  made->threads = false;
  made->rank_processes = scenario().rank_processes;
  made->run_id = "simulation";
  context = made;
  nodes.resize(static_cast<size_t>(scenario().nodes));
  inference_processes.resize(static_cast<size_t>(scenario().inference_processes));
  for (InferenceProcess& process : inference_processes) {
    auto own = std::make_shared<RunContext>(*made);
    own->make_group_backend = [this, &process](const std::string&) {
      return network.backend([this, &process] { return clock().now() < process.stalled_until; });
    };
    process.context = own;
    if (has_scorers(made->config) && &process == &inference_processes.back()) process.role = Role::scoring;
  }
  if (scenario().rank_processes) ranks.resize(static_cast<size_t>(scenario().config.trainer.ranks - 1));
}

std::vector<RemoteProcess*> SimulatedRun::remote_processes() {
  std::vector<RemoteProcess*> result;
  for (WorkerProcess& node : nodes) result.push_back(&node);
  for (InferenceProcess& process : inference_processes) result.push_back(&process);
  for (RankProcess& rank : ranks) result.push_back(&rank);
  return result;
}

void SimulatedRun::event(const std::string& text) {
  outcome.trace_hash = mix(outcome.trace_hash, hash_text(text.c_str()));
  if (trace) trace(std::to_string(outcome.events) + " " + std::to_string(now()) + "s  " + text);
}

void SimulatedRun::note(const std::string& kind, uint64_t ordinal, caf::mailbox_element* element) {
  ++outcome.events;
  uint64_t what = 0;
  if (element != nullptr && !element->content().empty()) {
    const auto type = element->content().type(0);
    what = type.first;
    if (type.second != nullptr) {
      const auto [it, added] = type_hash.try_emplace(type.second, 0);
      if (added) it->second = hash_text(type.second->name());
      what = it->second;
    }
  }
  outcome.trace_hash = mix(mix(outcome.trace_hash, hash_text(kind.c_str()) + ordinal),
                           mix(what, static_cast<uint64_t>(clock().now().time_since_epoch().count())));
  if (!trace) return;
  std::string text = element == nullptr ? "starts" : element->content().stringify();
  if (text.size() > 200) text.resize(200);
  const caf::actor_id sender = element != nullptr && element->sender ? element->sender->id() : 0;
  const auto from = checker.actors().find(sender);
  const std::string who =
      from == checker.actors().end() ? "-" : from->second.kind + "#" + std::to_string(from->second.ordinal);
  trace(std::to_string(outcome.events) + " " + std::to_string(now()) + "s  " + kind + "#" + std::to_string(ordinal) +
        " <- " + who + " " + text);
}

}  // namespace troupe::sim
