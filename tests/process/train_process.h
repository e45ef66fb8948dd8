#pragma once
// A `troupe train` under test, its folder, and the workers that join it.

#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/process/process.h"

namespace troupe::test {

using Json = nlohmann::json;

// `troupe train cartpole --run FOLDER` with reports ten times a second and small super-batches, and `more` words.
Words train_line(const std::string& folder, const Words& more = {});

// {"--set", "a=1", "--set", "b=2"} of {"a=1", "b=2"}.
Words set(const Words& settings);

// Readers of a run folder's current contents.
// The newest statistics: of a run with a statistics socket what it answers now, else the newest line of metrics.jsonl;
// null before the first.
Json metrics_of(const std::string& folder);
std::vector<Json> lines_of(const std::string& folder);  // of metrics.jsonl
Json json_of(const std::string& path);                  // null when it cannot be read
uint64_t updates_of(const std::string& folder);
bool log_has(const std::string& folder, const std::string& text);
size_t log_count(const std::string& folder, const std::string& text);
// Numbers of the complete checkpoints, ascending.
std::vector<uint64_t> checkpoints_of(const std::string& folder);
// The folder of a checkpoint, and what the newest one says of the run.
std::string checkpoint_folder(const std::string& folder, uint64_t updates);
Json state_of(const std::string& folder);
// GET /stats of a run that listens there; null when nobody answers or there is no snapshot yet.
Json stats_at(const std::string& address);

// Whether produced = trained + dropped_stale + dropped_full + lost_in_crash + left_over + waiting, with something
// produced.
bool balances(const Json& ledger);

// A training run that has begun: its endpoints are known.
class TrainProcess {
 public:
  // Throws when the run does not start.
  explicit TrainProcess(const std::string& folder, const Words& more = {}, std::optional<rlim_t> limit_file_size = {});

  Process& process() { return process_; }
  const std::string& folder() const { return folder_; }
  std::string workers_at() const { return workers_at_; }
  std::string stats_at() const { return stats_at_; }
  uint64_t updates() const { return updates_of(folder_); }
  // Whether the run makes at least `count` more updates before the deadline.
  bool goes_on(uint64_t count = 2) const;
  // Asks the run to end (Ctrl-C); its exit code.
  std::optional<int> interrupt();
  Json summary() const { return json_of(folder_ + "/summary.json"); }

 private:
  std::string folder_;
  Process process_;
  std::string workers_at_, stats_at_;
};

// A `troupe node` that listens.
class NodeProcess {
 public:
  NodeProcess();  // throws when it does not listen

  Process& process() { return process_; }
  const std::string& address() const { return address_; }
  // `troupe spawn` of `workers` for the run at this address.
  CommandLine spawn(int workers, const std::string& run) const;

 private:
  Process process_{{"troupe", "node", "--listen", "127.0.0.1:0"}};
  std::string address_;
};

// `troupe worker --connect ADDRESS`
std::unique_ptr<Process> start_worker(const std::string& address, int count = 1);

}  // namespace troupe::test
