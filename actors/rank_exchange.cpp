#include "actors/rank_exchange.h"

#include <algorithm>
#include <exception>
#include <functional>
#include <iterator>
#include <utility>

#include <caf/event_based_actor.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "models/shards/parameter_slices.h"
#include "runtime/base/errors.h"
#include "runtime/caf/system.h"

namespace troupe {

namespace {

using ExchangeSelf = SelfPointer<RankExchangeActor, RankExchangeState>;

auto find_rank(const std::vector<ExchangeAttempt::Rank>& ranks, const caf::actor_addr& address) {
  return std::ranges::find(ranks, address, [](const ExchangeAttempt::Rank& rank) { return rank.actor.address(); });
}

// Messages of an attempt before are of no use, and ranks that are lost do not go on with theirs.
void begin_attempt(ExchangeSelf self, const ExchangeAttempt& attempt) {
  auto& st = self->state;
  for (const ExchangeAttempt::Rank& before : st.attempt.others)
    if (find_rank(attempt.others, before.actor.address()) == attempt.others.end())
      st.parts.forget(before.actor.address());
  st.attempt = attempt;
  size_t shards = attempt.own.count;
  for (const ExchangeAttempt::Rank& rank : attempt.others) shards += rank.shards.count;
  st.rounds.emplace(shards, attempt.gradients_elsewhere);
  st.pieces.reset();
  st.slices.clear();
  if (attempt.elements == 0) return;
  st.pieces.emplace(attempt.elements, piece_elements(st.context->config.trainer));
  const ParameterSlices slices(attempt.elements, attempt.others.size() + 1);
  for (size_t rank = 0; rank < slices.ranks(); ++rank) st.slices.push_back(slices.slice(rank));
}

// The shards of a rank; nothing for a sender that is none, or is lost.
std::optional<ShardRange> shards_of(const RankExchangeState& st, const caf::actor_addr& sender) {
  if (sender == st.owner.address()) return st.attempt.own;
  const auto rank = find_rank(st.attempt.others, sender);
  if (rank == st.attempt.others.end()) return std::nullopt;
  return rank->shards;
}

// What a rank is told of a piece.
RoundSaid told(const RankExchangeState& st, RoundSaid message, size_t rank) {
  if (!st.pieces || message.all.gradients.empty()) return message;
  message.all = of_slice(std::move(message.all), st.pieces->range(message.piece.piece), st.slices[rank]);
  return message;
}

void on_said(ExchangeSelf self, const caf::actor_addr& sender, const RankSaid& said) {
  auto& st = self->state;
  const std::optional<ShardRange> shards = shards_of(st, sender);
  if (!shards || said.attempt != st.attempt.attempt) return;
  std::optional<RoundResult> all;
  try {
    TROUPE_CHECK(said.part.shards == *shards, said.part.shards.first, said.part.shards.count);
    if (st.pieces && !said.part.branches.empty()) {
      TROUPE_CHECK(said.piece.piece < st.pieces->count(), said.piece.piece, st.pieces->count());
      const size_t elements = st.pieces->range(said.piece.piece).size();
      const int64_t size = said.part.branches.front().values.size();
      TROUPE_CHECK(size == static_cast<int64_t>(elements), size, elements);
    }
    all = st.rounds->say(said.piece, said.part);
  } catch (const InvariantError& error) {
    return self->send(st.owner, RankMisfit{sender, error.what()});
  }
  if (!all) return;
  const RoundSaid message{said.attempt, said.piece, *std::move(all)};
  for (size_t rank = 1; rank <= st.attempt.others.size(); ++rank) {
    const RankActor& to = st.attempt.others[rank - 1].actor;
    if (message.all.own && sender == to.address()) continue;
    send_in_parts(self, to, told(st, message, rank), st.context->config.network.chunk_bytes, st.streams);
  }
  if (!message.all.own || sender != st.owner.address()) self->send(st.owner, told(st, message, 0));
}

// To the rank before the sender.
void on_copy(ExchangeSelf self, const caf::actor_addr& sender, const RankCopy& copy) {
  auto& st = self->state;
  const auto rank = find_rank(st.attempt.others, sender);
  if (rank == st.attempt.others.end() || copy.attempt != st.attempt.attempt) return;
  if (rank == st.attempt.others.begin()) return self->send(st.owner, copy);
  send_in_parts(self, std::prev(rank)->actor, copy, st.context->config.network.chunk_bytes, st.streams);
}

void on_part(ExchangeSelf self, const caf::actor_addr& sender, const Part& part) {
  auto& st = self->state;
  if (!shards_of(st, sender)) return;
  std::function<void()> handle;
  try {
    TROUPE_CHECK(part.of == PartOf::rank_said || part.of == PartOf::rank_copy, static_cast<int>(part.of));
    const auto whole = st.parts.add(sender, part);
    if (!whole) return;
    if (part.of == PartOf::rank_said)
      handle = [&, said = deserialize<RankSaid>(self->system(), *whole)] { on_said(self, sender, said); };
    else
      handle = [&, copy = deserialize<RankCopy>(self->system(), *whole)] { on_copy(self, sender, copy); };
  } catch (const std::exception& error) {
    return self->send(st.owner, RankMisfit{sender, error.what()});
  }
  handle();
}

}  // namespace

RankExchangeActor::behavior_type rank_exchange(ExchangeSelf self, RunContextPtr context, ExchangeOwner owner) {
  begin_actor(self, *context);
  self->state.context = std::move(context);
  self->state.owner = std::move(owner);
  return {
      [self](const RankSaid& said) {
        if (self->current_sender()) on_said(self, self->current_sender()->address(), said);
      },
      [self](const RankCopy& copy) {
        if (self->current_sender()) on_copy(self, self->current_sender()->address(), copy);
      },
      [self](const Part& part) {
        if (self->current_sender()) on_part(self, self->current_sender()->address(), part);
      },
      [self](const ExchangeAttempt& attempt) { begin_attempt(self, attempt); },
  };
}

}  // namespace troupe
