#pragma once
// Test fixtures: a `troupe train` process with its run folder, a `troupe node` process, and worker processes.

#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/process/process.h"

namespace troupe::test {

using Json = nlohmann::json;

// `troupe train cartpole --run FOLDER` with reports ten times a second, small super-batches, and the words `more`.
Words train_line(const std::string& folder, const Words& more = {});

// {"--set", "a=1", "--set", "b=2"} from {"a=1", "b=2"}.
Words set(const Words& settings);

// The functions below read the current contents of a run folder. The newest statistics come from the statistics port
// while the run has one, else from the last line of metrics.jsonl; null before the first.
Json metrics_of(const std::string& folder);
std::vector<Json> lines_of(const std::string& folder);  // of metrics.jsonl
Json json_of(const std::string& path);                  // null if it cannot be read
uint64_t updates_of(const std::string& folder);
bool log_has(const std::string& folder, const std::string& text);
size_t log_count(const std::string& folder, const std::string& text);
// The update numbers of the complete checkpoints, ascending.
std::vector<uint64_t> checkpoints_of(const std::string& folder);
// The folder of a checkpoint; and the state of the run in state.json of the newest one.
std::string checkpoint_folder(const std::string& folder, uint64_t updates);
Json state_of(const std::string& folder);
// The reply to GET /stats at this address; null if there is no reply or no snapshot yet.
Json stats_at(const std::string& address);

// Whether produced = trained + dropped_stale + dropped_full + lost_in_crash + left_over + filtered + unscored +
// verifier_failed + baselines + waiting, and produced > 0.
bool balances(const Json& ledger);

// A running `troupe train`; its endpoints are known.
class TrainProcess {
 public:
  // Throws if the run does not start.
  explicit TrainProcess(const std::string& folder, const Words& more = {}, std::optional<rlim_t> limit_file_size = {});

  Process& process() { return process_; }
  const std::string& folder() const { return folder_; }
  std::string workers_at() const { return workers_at_; }
  std::string stats_at() const { return stats_at_; }
  uint64_t updates() const { return updates_of(folder_); }
  // Waits until the run has made at least `count` more updates; false at the deadline.
  bool makes_updates(uint64_t count = 2) const;
  // Sends INT (Ctrl-C) and waits for the end. The result is the exit code.
  std::optional<int> interrupt();
  Json summary() const { return json_of(folder_ + "/summary.json"); }

 protected:
  // Of another command line, whose run folder is `folder`.
  struct Line {
    Words words;
    std::optional<rlim_t> limit_file_size;
  };
  TrainProcess(const std::string& folder, const Line& line);

 private:
  std::string folder_;
  Process process_;
  std::string workers_at_, stats_at_;
};

// `troupe train FOLDER/tokens.json --run FOLDER/run`: a small language model learns to reverse two digits. Writes that
// file, without a warm-up, and adds the words `more`.
Words token_train_line(const std::string& folder, const Words& more = {});
class TokenTrainProcess : public TrainProcess {
 public:
  explicit TokenTrainProcess(const std::string& folder, const Words& more = {})
      : TrainProcess(folder + "/run", Line{token_train_line(folder, more), {}}) {}
};

// A `troupe node` process that accepts connections.
class NodeProcess {
 public:
  NodeProcess();  // throws if the node does not listen

  Process& process() { return process_; }
  const std::string& address() const { return address_; }
  // Runs `troupe spawn` for this many workers and the run at this address.
  CommandLine spawn(int workers, const std::string& run) const;

 private:
  Process process_{{"troupe", "node", "--listen", "127.0.0.1:0"}};
  std::string address_;
};

// Starts `troupe worker --connect ADDRESS --count COUNT`.
std::unique_ptr<Process> start_worker(const std::string& address, int count = 1);

}  // namespace troupe::test
