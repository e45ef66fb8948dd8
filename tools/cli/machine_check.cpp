#include "tools/cli/machine_check.h"

#include <algorithm>
#include <functional>

#include "actors/config/config.h"
#include "actors/config/kind_settings.h"
#include "actors/memory_estimate.h"
#include "models/devices.h"
#include "runtime/base/errors.h"
#include "runtime/base/machine.h"
#include "runtime/base/suggest.h"
#include "runtime/config/effects.h"
#include "runtime/stats/console.h"

namespace troupe {
namespace {

constexpr double kMostBytes = 1e18;  // that are reported: an integer cannot hold every sum

std::string bytes_text(double bytes) {
  constexpr double kMost = 1e19;  // larger values are shown as this
  return format_bytes(static_cast<uint64_t>(std::min(bytes, kMost)));
}

double total(const std::vector<MemoryNeed>& needs) {
  double sum = 0;
  for (const MemoryNeed& need : needs) sum += need.bytes;
  return sum;
}

// Of those that a setting determines.
const MemoryNeed& largest(const std::vector<MemoryNeed>& needs) {
  return *std::ranges::max_element(needs, {},
                                   [](const MemoryNeed& need) { return need.setting.empty() ? 0 : need.bytes; });
}

// What settings determine, without the program itself.
double of_settings(std::vector<MemoryNeed> needs) {
  std::erase_if(needs, [](const MemoryNeed& need) { return need.setting.empty(); });
  return total(needs);
}

// "model.hidden: [64, 64]", short enough for a line.
std::string setting_of(const MemoryNeed& need) { return need.setting + ": " + printable(need.value, 60); }

// Whether this machine has the device is checked later, once LibTorch is loaded.
bool is_in_build(const std::string& device) { return TROUPE_USES_CUDA != 0 || !device.starts_with("cuda"); }

std::string build_error(const std::vector<NamedDevice>& missing) {
  return device_error(missing, "this build has no CUDA") + ", or build with the preset gpu";
}

// More threads than processors make nothing faster.
void warn_of_threads(const char* setting, int64_t threads, uint64_t processors, std::vector<std::string>& out) {
  if (static_cast<uint64_t>(threads) > processors)
    out.push_back(std::string(setting) + ": " + std::to_string(threads) + " threads share " +
                  std::to_string(processors) + (processors == 1 ? " processor" : " processors") +
                  ", which is slower than one thread for each; use at most " + std::to_string(processors));
}

// Some of the ranks may be on other machines, or bound to other processors of this one.
void warn_of_ranks(const RunConfig& config, uint64_t processors, std::vector<std::string>& out) {
  const TrainerConfig& t = config.trainer;
  if (t.ranks == 1 || config.deterministic || static_cast<uint64_t>(t.ranks * t.threads) <= processors) return;
  if (processors < all_processors())
    return out.push_back("trainer.ranks: this rank, with its workers and inference, is bound to " +
                         std::to_string(processors) + " of " + std::to_string(all_processors()) +
                         " processors; if mpirun has bound it, use mpirun --bind-to none");
  out.push_back("trainer.ranks: " + std::to_string(t.ranks) + " ranks with trainer.threads " +
                std::to_string(t.threads) + " share " + std::to_string(processors) +
                (processors == 1 ? " processor" : " processors") +
                " unless some are on other machines (troupe rank); fewer ranks or threads are faster");
}

// Actors wait for each other, so a few per processor can be useful.
void warn_of_actors(const char* setting, int64_t count, const char* actors, uint64_t processors, const char* advice,
                    std::vector<std::string>& out) {
  constexpr uint64_t kPerProcessor = 8;
  if (static_cast<uint64_t>(count) > kPerProcessor * processors)
    out.push_back(std::string(setting) + ": " + std::to_string(count) + ' ' + actors + " share " +
                  std::to_string(processors) + (processors == 1 ? " processor" : " processors") + "; " + advice);
}

// That one rollout has more samples than an update takes from a shard; empty if not. Where replay reuses samples, or in
// a token run, that is no mistake.
std::string large_rollout_warning(const RunConfig& config) {
  const auto rollout = static_cast<int64_t>(samples_per_rollout(config));
  const int64_t shards = config.trainer.shards;
  if (config.replay.mode != "consume_once" || is_token_run(config) || rollout <= config.trainer.super_batch / shards)
    return "";
  const auto text = [](int64_t value) { return std::to_string(value); };
  return "trainer.super_batch: " + text(config.trainer.super_batch) +
         (shards == 1 ? "" : " / trainer.shards " + text(shards)) + " is less than a rollout of " + text(rollout) +
         " samples (rollout.length " + text(config.rollout.length) + " x env.rows " + text(config.env.rows) +
         "); what an update cannot take is trained late or dropped as stale; use at least " + text(rollout * shards) +
         ", or fewer env.rows or a smaller rollout.length" + (shards == 1 ? "" : ", or fewer shards");
}

}  // namespace

Machine Machine::here() {
  const uint64_t memory = available_memory();
  return {troupe::processors(), memory, available_address_space() <= memory};
}

std::string devices_missing_in_build(const RunConfig& config) {
  std::vector<NamedDevice> devices{{"trainer.device", config.trainer.device},
                                   {"evaluation.device", config.evaluation.device}};
  if (config.inference.count > 0) devices.push_back({"inference.device", config.inference.device});
  std::erase_if(devices, [](const NamedDevice& each) { return is_in_build(each.device); });
  if (config.network.weights == "nccl" && !config.deterministic && !is_in_build("cuda"))
    return "network.weights: \"nccl\" cannot be used, since this build has no CUDA and NCCL; use \"gloo\", or build "
           "with "
           "the preset gpu";
  if (config.network.backend == "nccl" && !config.deterministic && !is_in_build("cuda"))
    return "network.backend: \"nccl\" cannot be used, since this build has no CUDA and NCCL; use \"gloo\", or build "
           "with the preset gpu";
  return devices.empty() ? "" : build_error(devices);
}

void require_device_of_build(const std::string& setting, const std::string& device) {
  if (!is_in_build(device)) throw ConfigError(build_error({{setting, device}}));
}

std::string memory_shortage(const RunConfig& config, const EnvSpec& env, const Machine& machine) {
  const std::vector<MemoryNeed> needs = memory_needs(config, env);
  if (total(needs) <= static_cast<double>(machine.memory)) return "";
  const std::string left = (machine.by_ulimit ? "`ulimit -v` leaves " : "") + format_bytes(machine.memory) +
                           (machine.by_ulimit ? "" : " are available here");
  if (const MemoryNeed& most = *std::ranges::max_element(needs, {}, &MemoryNeed::bytes); most.setting.empty())
    return "the run needs about " + bytes_text(total(needs)) + " of memory, " + bytes_text(most.bytes) + " of it for " +
           most.what + ", and " + left;
  const MemoryNeed& most = largest(needs);
  return most.setting + ": " + most.value + " needs about " + bytes_text(most.bytes) + " of memory for " + most.what +
         "; the run needs " + bytes_text(total(needs)) + ", and " + left + "; use less";
}

uint64_t memory_needed(const RunConfig& config, const EnvSpec& env) {
  return static_cast<uint64_t>(std::min(of_settings(memory_needs(config, env)), kMostBytes));
}

uint64_t estimated_memory(const RunConfig& config, const EnvSpec& env) {
  return static_cast<uint64_t>(std::min(total(memory_needs(config, env)), kMostBytes));
}

std::string memory_summary(const RunConfig& config, const EnvSpec& env) {
  const std::vector<MemoryNeed> needs = memory_needs(config, env);
  const MemoryNeed& most = largest(needs);
  return "about " + bytes_text(total(needs)) + ", " + bytes_text(most.bytes) + " of it for " + most.what + " (" +
         setting_of(most) + ')';
}

std::string memory_table(const RunConfig& config, const EnvSpec& env) {
  std::vector<MemoryNeed> needs = memory_needs(config, env);
  std::ranges::sort(needs, std::greater(), &MemoryNeed::bytes);
  const auto line = [](double bytes, const std::string& text) {
    const std::string size = bytes_text(bytes);
    return std::string(size.size() < 9 ? 9 - size.size() : 0, ' ') + size + "  " + text + '\n';
  };
  std::string table = line(total(needs), "in all, of which");
  for (const MemoryNeed& need : needs)
    table += line(need.bytes, need.what + (need.setting.empty() ? "" : " (" + setting_of(need) + ')'));
  return table;
}

size_t threads_needed(const RunConfig& config) {
  constexpr int64_t kSystem = 6;     // two of the scheduler, timer, network, the end of the system, statistics socket
  constexpr int64_t kEssential = 4;  // recorder, prefetcher, evaluator, trainer
  constexpr int64_t kMore = 8;       // main, signals, and what LibTorch and Gloo start
  const int64_t policies = 1 + (config.deterministic ? 0 : config.inference.count);  // with the evaluator's
  const int64_t compute = config.trainer.threads - 1 + policies * (config.inference.threads - 1) +
                          (config.deterministic ? 0 : config.scorers.count * (config.scorers.threads - 1));
  const int64_t sampling = config.workers.count * (1 + settings_of_kind(config).graders(config));
  const int64_t scorers = has_scorers(config) ? config.scorers.count : 0;
  const int64_t actors = config.deterministic ? 0 : sampling + config.inference.count + scorers + kEssential;
  return static_cast<size_t>(kSystem + actors + compute + kMore);
}

std::vector<std::string> probable_mistakes(const RunConfig& config, const EnvSpec& env, const Machine& machine) {
  RunConfig checked = config, defaults;
  std::vector<std::string> warnings = ignored_settings(describe(checked), describe(defaults));
  if (std::string warning = large_rollout_warning(config); !warning.empty()) warnings.push_back(std::move(warning));
  warn_of_threads("trainer.threads", config.trainer.threads, machine.processors, warnings);
  warn_of_ranks(config, machine.processors, warnings);
  warn_of_threads("inference.threads", config.inference.threads, machine.processors, warnings);
  warn_of_actors("workers.count", config.workers.count, "workers", machine.processors,
                 "more environments in each (env.rows, workers.groups) take less time", warnings);
  warn_of_actors("inference.count", config.inference.count, "inference actors", machine.processors, "use fewer",
                 warnings);
  warn_of_threads("scorers.threads", config.scorers.threads, machine.processors, warnings);
  warn_of_actors("scorers.count", config.scorers.count, "scorers", machine.processors, "use fewer", warnings);
  for (const MemoryNeed& need : possible_memory(config, env))
    if (need.bytes > static_cast<double>(machine.memory))
      warnings.push_back(need.setting + ": " + need.value + " may take up to " + bytes_text(need.bytes) +
                         " of memory for " + need.what + ", and " + format_bytes(machine.memory) +
                         " are available here");
  return warnings;
}

}  // namespace troupe
