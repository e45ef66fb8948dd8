#include "actors/replay_shards.h"

#include <algorithm>

#include "actors/experience/common/state_bytes.h"
#include "models/shards/shard_sum.h"
#include "runtime/base/errors.h"

namespace troupe {

// What was before this start of the run is counted in the first shard.
ReplayShards::ReplayShards(const ReplayRules& rules, size_t shards, PolicyVersion first, uint64_t seed,
                           const Ledger& ledger, uint64_t env_steps, uint64_t uncounted) {
  TROUPE_CHECK(shards > 0, shards);
  stores_.emplace_back(rules, first, seed, ledger, env_steps, uncounted);
  for (size_t shard = 1; shard < shards; ++shard) stores_.emplace_back(rules, first, shard_key(seed, shard));
}

template <class Value>
auto ReplayShards::sum(Value value) const {
  auto result = value(stores_.front());
  for (size_t shard = 1; shard < stores_.size(); ++shard) result += value(stores_[shard]);
  return result;
}

void ReplayShards::stop_at(uint64_t env_steps, uint64_t steps_per_sample) {
  for (ReplayStore& store : stores_) store.stop_at(env_steps, steps_per_sample);
}

void ReplayShards::expect_baselines() {
  for (ReplayStore& store : stores_) store.expect_baselines();
}

std::vector<size_t> ReplayShards::workers_of_shards(bool that_sample) const {
  std::vector<size_t> result(stores_.size(), 0);
  for (const auto& [worker, member] : members_)
    if (member.samples || !that_sample) ++result[member.moves_to.value_or(member.shard)];
  return result;
}

void ReplayShards::join(uint64_t worker, uint32_t groups, uint64_t samples_per_rollout) {
  remove(worker, /*in_order=*/false);
  const std::vector<size_t> workers = workers_of_shards(/*that_sample=*/false);
  const auto shard = static_cast<size_t>(std::ranges::min_element(workers) - workers.begin());
  members_[worker] = {shard, groups, samples_per_rollout};
  stores_[shard].join(worker, groups, samples_per_rollout);
}

void ReplayShards::remove(uint64_t worker, bool in_order) {
  const auto member = members_.find(worker);
  if (member == members_.end()) return;
  store_of(member->second).leave(worker, in_order);
  members_.erase(member);
}

void ReplayShards::leave(uint64_t worker, bool in_order) {
  remove(worker, in_order);
  fill_empty_shards();
}

// The worker that joined last is taken from the shard that has most.
void ReplayShards::fill_empty_shards() {
  for (;;) {
    const std::vector<size_t> workers = workers_of_shards(/*that_sample=*/true);
    const auto [fewest, most] = std::ranges::minmax_element(workers);
    if (*fewest > 0 || *most < 2) return;
    const auto from = static_cast<size_t>(most - workers.begin());
    const auto may_go = [&](const auto& each) {
      return each.second.samples && each.second.moves_to.value_or(each.second.shard) == from;
    };
    auto last = std::find_if(members_.rbegin(), members_.rend(), may_go);
    last->second.moves_to = static_cast<size_t>(fewest - workers.begin());
    store_of(last->second).revoke(last->first);
  }
}

void ReplayShards::move_workers() {
  for (auto& [worker, member] : members_) {
    if (!member.moves_to || store_of(member).holds_credits(worker)) continue;
    if (*member.moves_to != member.shard) {
      store_of(member).leave(worker, /*in_order=*/true);
      stores_[*member.moves_to].join(worker, member.groups, member.samples_per_rollout);
      member.shard = *member.moves_to;
    }
    member.moves_to.reset();
  }
}

void ReplayShards::progress(uint64_t worker, std::vector<PartialRollout> partial, bool last) {
  const auto member = members_.find(worker);
  if (member != members_.end()) store_of(member->second).progress(worker, std::move(partial), last);
}

bool ReplayShards::applied(InferenceIndex inference_index, PolicyVersion version) {
  bool result = true;
  for (ReplayStore& store : stores_) result &= store.applied(inference_index, version);
  return result;
}

void ReplayShards::receiver_gone(InferenceIndex inference_index) {
  for (ReplayStore& store : stores_) store.receiver_gone(inference_index);
}

uint32_t ReplayShards::revoke(uint64_t worker) {
  Member& member = members_.at(worker);
  const uint32_t count = store_of(member).revoke(worker);
  member.samples = false;
  fill_empty_shards();
  return count;
}

uint32_t ReplayShards::credits_of(uint64_t worker) const {
  const auto member = members_.find(worker);
  return member == members_.end() ? 0 : stores_[member->second.shard].credits_of(worker);
}

std::optional<size_t> ReplayShards::shard_of(uint64_t worker) const {
  const auto member = members_.find(worker);
  return member == members_.end() ? std::nullopt : std::optional(member->second.shard);
}

// A limit on the environment steps of the run counts those of all shards, and what the shards before have just
// promised.
std::vector<CreditGrant> ReplayShards::grant() {
  move_workers();
  const uint64_t steps = env_steps();
  uint64_t promised = sum([](const ReplayStore& store) { return store.samples_promised(); });
  std::vector<CreditGrant> result;
  for (ReplayStore& store : stores_) {
    promised -= store.samples_promised();
    store.set_others({.env_steps = steps - store.env_steps(), .promised = promised});
    const std::vector<CreditGrant> granted = store.grant();
    result.insert(result.end(), granted.begin(), granted.end());
    promised += store.samples_promised();
  }
  return result;
}

bool ReplayShards::push(RolloutPtr rollout) {
  const auto member = members_.find(rollout->worker);
  if (member == members_.end()) return false;
  member->second.samples = true;
  return store_of(member->second).push(std::move(rollout));
}

std::optional<std::vector<SuperBatch>> ReplayShards::sample(std::chrono::nanoseconds now) {
  bool ready = true;
  for (ReplayStore& store : stores_) ready &= store.ready(now);  // also notes since when one waits
  if (!ready) return std::nullopt;
  const uint64_t steps = env_steps();
  std::vector<SuperBatch> result;
  for (ReplayStore& store : stores_) {
    store.set_others({.env_steps = steps - store.env_steps()});
    result.push_back(store.draw());
  }
  return result;
}

void ReplayShards::trained(uint64_t index) {
  for (ReplayStore& store : stores_) store.trained(index);
}

void ReplayShards::failed(uint64_t index) {
  for (ReplayStore& store : stores_) store.failed(index);
}

void ReplayShards::close() {
  for (ReplayStore& store : stores_) store.close();
}

// Of one shard: that of its store.
std::string ReplayShards::save() const {
  if (stores_.size() == 1) return stores_.front().save();
  std::vector<std::string> states;
  for (const ReplayStore& store : stores_) states.push_back(store.save());
  return to_bytes(states);
}

void ReplayShards::load(const std::string& bytes) {
  if (stores_.size() == 1) return stores_.front().load(bytes);
  std::vector<std::string> states;
  from_bytes(bytes, "replay", states);
  TROUPE_CHECK(states.size() == stores_.size(), states.size(), stores_.size());
  for (size_t shard = 0; shard < stores_.size(); ++shard) stores_[shard].load(states[shard]);
}

Ledger ReplayShards::ledger() const {
  return sum([](const ReplayStore& store) { return store.ledger(); });
}

uint64_t ReplayShards::env_steps() const {
  return sum([](const ReplayStore& store) { return store.env_steps(); });
}

std::vector<Episodes> ReplayShards::take_episodes() {
  std::vector<Episodes> result;
  for (ReplayStore& store : stores_)
    for (Episodes& episodes : store.take_episodes()) result.push_back(std::move(episodes));
  return result;
}

uint64_t ReplayShards::uncounted_at_most() const {
  return sum([](const ReplayStore& store) { return store.uncounted_at_most(); });
}

uint64_t ReplayShards::count_waiting() const {
  return sum([](const ReplayStore& store) { return store.count_waiting(); });
}

uint64_t ReplayShards::stored_units() const {
  return sum([](const ReplayStore& store) { return store.stored_units(); });
}

uint64_t ReplayShards::capacity() const {
  return sum([](const ReplayStore& store) { return store.capacity(); });
}

uint64_t ReplayShards::credits_outstanding() const {
  return sum([](const ReplayStore& store) { return store.credits_outstanding(); });
}

uint64_t ReplayShards::credits_revoked() const {
  return sum([](const ReplayStore& store) { return store.credits_revoked(); });
}

std::vector<std::pair<uint64_t, uint32_t>> ReplayShards::last_lags() const {
  std::vector<std::pair<uint64_t, uint32_t>> result;
  for (const ReplayStore& store : stores_)
    result.insert(result.end(), store.last_lags().begin(), store.last_lags().end());
  return result;
}

TokenFigures ReplayShards::token_figures() const {
  return sum([](const ReplayStore& store) { return store.token_figures(); });
}

// The longest of a shard: they wait at the same time.
double ReplayShards::late_wait_seconds(std::chrono::nanoseconds now) const {
  double result = 0;
  for (const ReplayStore& store : stores_) result = std::max(result, store.late_wait_seconds(now));
  return result;
}

double ReplayShards::mean_reuse() const {
  return sum([](const ReplayStore& store) { return store.uses(); }).mean();
}

}  // namespace troupe
