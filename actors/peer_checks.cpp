#include "actors/peer_checks.h"

#include <algorithm>

#include "actors/experience/common/array_checks.h"

namespace troupe {

Misfit misfit(const RunConfig& config, const WorkerHello& hello) {
  if (hello.groups == static_cast<uint32_t>(config.workers.groups) &&
      hello.samples_per_rollout == samples_per_rollout(config))
    return std::nullopt;
  return std::to_string(hello.groups) + " groups with " + std::to_string(hello.samples_per_rollout) +
         " samples a rollout, expected " + std::to_string(config.workers.groups) + " with " +
         std::to_string(samples_per_rollout(config));
}

Misfit misfit(const RunConfig& config, const EnvSpec& spec, const WorkerReport& report) {
  // A group can have two partial rollouts: one that waits for its last values, and the next one.
  const auto groups = static_cast<uint64_t>(config.workers.groups);
  if (report.partial.size() > 2 * groups) return std::to_string(report.partial.size()) + " rollouts under way";
  for (const PartialRollout& partial : report.partial) {
    if (partial.group >= groups) return "group " + std::to_string(partial.group) + " of " + std::to_string(groups);
    if (partial.samples > samples_per_rollout(config))
      return std::to_string(partial.samples) + " samples in a rollout of " +
             std::to_string(samples_per_rollout(config));
    if (partial.env_steps > partial.samples * static_cast<uint64_t>(spec.action.chunk))
      return std::to_string(partial.env_steps) + " environment steps in a rollout under way";
    if (auto error = check_episodes(partial.episodes, partial.samples)) return error;
  }
  return std::nullopt;
}

Misfit misfit(const InferenceReport& report) {
  if (report.role != Role::sampling && report.role != Role::scoring) return "no actor has its role";
  if (auto error = check_array("batch_rows", report.batch_rows, DType::i32, Shape{report.batch_rows.size()}))
    return error;
  return check_array("latency_us", report.latency_us, DType::f32, Shape{report.latency_us.size()});
}

bool is_taken(const NumberHolders& holders, const caf::actor_addr& sender, uint64_t number) {
  const auto own = holders.find(sender);
  if (own != holders.end()) return own->second != number;
  return std::ranges::any_of(holders, [&](const auto& holder) { return holder.second == number; });
}

size_t most_bytes_of_report(const RunConfig& config) {
  constexpr size_t kEpisodeBytes = sizeof(float) + sizeof(int32_t) + sizeof(uint8_t);
  return 2 * static_cast<size_t>(config.workers.groups) * samples_per_rollout(config) * kEpisodeBytes + kNamesBytes;
}

}  // namespace troupe
