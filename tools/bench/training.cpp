#include "tools/bench/training.h"

#include <unistd.h>

#include <numeric>
#include <stdexcept>
#include <utility>

#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/config/config.h"
#include "actors/network_messages.h"
#include "actors/prefetcher.h"
#include "actors/publisher.h"
#include "actors/trainer.h"
#include "runtime/base/address.h"
#include "runtime/caf/listen.h"
#include "runtime/caf/system.h"

namespace troupe {

namespace {

constexpr const char* kLoopback = "127.0.0.1";
constexpr std::chrono::seconds kUpdatePatience{600};

std::shared_ptr<const SuperBatch> batch_of(const RolloutPtr& rollout, uint64_t index) {
  SuperBatch batch{.index = index, .samples = rollout->samples};
  if (rollout->samples > 0) {
    std::vector<int32_t> columns(static_cast<size_t>(rollout->grid().columns()));
    std::iota(columns.begin(), columns.end(), 0);
    batch.parts.push_back({rollout, std::move(columns)});
  }
  return std::make_shared<const SuperBatch>(std::move(batch));
}

using JoinedHolder = caf::typed_actor<caf::reacts_to<RankJoined>>;

struct RankServerState {
  static inline const char* name = "join server of the benchmark";
  uint64_t members = 0;
};

// Admits all ranks, as the supervisor of a run does, and tells `trainer` and `owner` of each that is ready.
JoinService::behavior_type rank_server(SelfPointer<JoinService, RankServerState> self, const RunContextPtr& context,
                                       const TrainerActor& trainer, const JoinedHolder& owner) {
  return {[self, context](const JoinRequest&) {
            return Welcome{.member = self->state.members++,
                           .config = to_json(context->config),
                           .run = "bench " + std::to_string(getpid())};
          },
          [](const ServeRequest&) {},
          [self, trainer, owner](const RankReady& ready) {
            const RankJoined joined{ready.rank, process_of(ready.rank.node()), ready.address};
            self->send(trainer, joined);
            self->send(owner, joined);
          },
          [](const Serving&) {}};
}

}  // namespace

BenchTraining::BenchTraining(RunContextPtr context, const std::shared_ptr<Learner>& learner, std::vector<Batch> batches,
                             const BenchRanks& ranks)
    : context_(std::move(context)),
      system_(context_->rank_processes, context_->config.network),
      self_(system_.get()),
      batches_(std::move(batches)) {
  caf::actor_system& system = system_.get();
  const auto me = caf::actor_cast<caf::strong_actor_ptr>(self_->address());
  const auto replay = caf::actor_cast<ReplayActor>(me);
  const auto prefetch = system_.stop_at_end(spawn_on(system, true, prefetcher, context_, learner->stager(), replay));
  const TrainerPeers peers{prefetch,
                           replay,
                           system_.stop_at_end(system.spawn(publisher, PublisherDependencies{.context = context_})),
                           system_.stop_at_end(system.spawn(silent_recorder)),
                           system_.stop_at_end(system.spawn(silent_evaluator)),
                           caf::actor_cast<StatsActor>(me),
                           caf::actor_cast<decltype(TrainerPeers::supervisor)>(me)};
  trainer_ = system_.stop_at_end(spawn_on(system, true, trainer, context_, learner, ReplayStart{}, peers));
  if (context_->rank_processes) start_ranks(ranks);
  self_->send(trainer_, begin_atom_v);
  while (!asker_) receive();
}

// First the trainer, for which the end of a rank is a loss.
BenchTraining::~BenchTraining() {
  self_->send_exit(trainer_, caf::exit_reason::user_shutdown);
  self_->wait_for(trainer_);
}

void BenchTraining::start_ranks(const BenchRanks& ranks) {
  caf::actor_system& system = system_.get();
  const JoinService server = system_.stop_at_end(
      system.spawn(rank_server, context_, trainer_, caf::actor_cast<JoinedHolder>(self_->address())));
  const uint16_t port = listen(system, server, kLoopback, 0, messages_to_run());
  for (int64_t rank = 1; rank < context_->config.trainer.ranks; ++rank) {
    uint16_t at = port;
    if (ranks.link_bytes_per_second > 0)
      at = relays_.emplace_back(std::make_unique<Relay>(port, ranks.link_bytes_per_second))->port();
    std::vector<std::string> command = ranks.command;
    command.insert(command.end(), {"--connect", address_text(kLoopback, at)});
    processes_.push_back(std::make_unique<BenchProcess>(std::move(command)));
  }
}

BenchTraining::Slice BenchTraining::run(double seconds) {
  slice_ = {};
  first_ = true;
  auto start = BenchClock::now();
  LinkBytes before;
  do {
    const bool warm = !first_;
    if (asker_) feed();
    receive();
    if (!warm && !first_) {
      start = BenchClock::now();
      before = bytes_so_far();
    }
  } while (slice_.update_seconds.empty() || seconds_since(start) < seconds);
  while (trained_ < fed_) receive();
  slice_.bytes = bytes_so_far() - before;
  return slice_;
}

void BenchTraining::run_updates(uint64_t updates) {
  const uint64_t end = fed_ + updates;
  while (trained_ < end) {
    if (asker_ && fed_ < end) feed();
    receive();
  }
}

void BenchTraining::feed() {
  BatchMessage message;
  for (const RolloutPtr& rollout : batches_[fed_ % batches_.size()]) message.shards.push_back(batch_of(rollout, fed_));
  self_->send(caf::actor_cast<PrefetcherActor>(std::exchange(asker_, nullptr)), std::move(message));
  ++fed_;
}

void BenchTraining::receive() {
  std::string error;
  self_->receive([&](next_atom) { asker_ = self_->current_sender(); },
                 [&](const UpdateMessage& update) {
                   ++trained_;
                   if (std::exchange(first_, false)) return;
                   slice_.update_seconds.push_back(update.update_seconds);
                   slice_.exchange_seconds.push_back(update.report->stages.exchange);
                   slice_.wait_seconds += update.wait_seconds;
                 },
                 [&](const RankJoined& joined) { self_->monitor(joined.rank); },
                 [&](const caf::down_msg& down) { error = "a rank ended: " + describe(down.reason); },
                 [&](const TrainingEnded& ended) { error = "the trainer ended: " + ended.reason + " " + ended.error; },
                 caf::after(kUpdatePatience) >> [] { throw std::runtime_error("no message came from the trainer"); });
  if (!error.empty()) throw std::runtime_error(error);
}

LinkBytes BenchTraining::bytes_so_far() const {
  LinkBytes sum;
  for (const auto& relay : relays_) sum += relay->bytes();
  return sum;
}

}  // namespace troupe
