#pragma once
// PythonEnv: N rows of an environment written in Python, in P server processes (envs/bridge/server_process.h). Results
// depend neither on N nor on P. The processes start at the first reset(); a process that is lost is started again, and
// only its rows fail. One thread at a time; a step blocks until the processes have answered.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "envs/bridge/python_spec.h"
#include "envs/bridge/server_process.h"
#include "envs/bridge/step_block.h"
#include "envs/env.h"
#include "envs/row.h"
#include "runtime/base/token_bucket.h"

namespace troupe {

class PythonEnv final : public Env {
 public:
  // `spec` is python_spec(target), perhaps with another chunk. Starts nothing.
  PythonEnv(PythonTarget target, PythonSpec spec, int64_t rows, int64_t processes);
  ~PythonEnv() override;

  const EnvSpec& spec() const override { return spec_; }
  int64_t rows() const override { return static_cast<int64_t>(rows_.size()); }
  void prepare() override;
  void reset(uint64_t seed, uint64_t first_row, EnvStep& out) override;
  bool reset_as(uint64_t seed, std::span<const uint64_t> numbers, EnvStep& out) override;
  // False for vector environments.
  bool play_singly(uint64_t seed) override;
  void begin_episode(int64_t row, uint64_t episode) override;
  void step(const Array& actions, EnvStep& out) override;
  void observe(EnvStep& out) override;
  void set_active(int64_t row, bool active) override;
  // What the environment draws with render_mode "ansi"; else its name and the step.
  std::string render(int64_t row) const override;
  // False: the state of a Python process cannot be saved.
  bool save(std::string& bytes) const override;
  bool load(const std::string& bytes) override;
  void begin_close() override;

  // The processes that run now, for tests.
  std::vector<pid_t> process_ids() const;

 private:
  // stopped: the next step starts an episode; begun: it shows one that has begun, in which no step was made.
  enum class Phase : uint8_t { stopped, running, inactive, begun };
  struct Row {
    Phase phase = Phase::stopped;
    RowCommand command = RowCommand::skip;  // of the present round
    bool seeded = false;                    // whether its environment exists and has its seed
    bool rebuild = false;                   // whether its environment has to be made anew
    bool unplayed = false;                  // an episode began after a failure, and no step was made in it
    uint64_t key = 0;                       // its random stream
    uint64_t rebuilds = 0;                  // since the reset
    int64_t elapsed = 0;                    // environment steps in this episode
    std::string error;                      // of this step
    bool lost = false;                      // it failed only because another row took its process along
    std::string next_error;                 // why the next episode could not begin in this step

    // The next step begins an episode with this random stream.
    void begin(uint64_t with) {
      key = with;
      phase = Phase::stopped;
      seeded = unplayed = false;
      rebuilds = 0;
    }
    RowCommand start_command() const {
      if (rebuild) return RowCommand::rebuild;
      return seeded ? RowCommand::start : RowCommand::start_seeded;
    }
  };
  // The rows of one process.
  struct Group {
    int64_t begin = 0, end = 0;
    std::unique_ptr<StepBlock> block;
    std::unique_ptr<ServerProcess> server;  // none before the first reset and after a loss
    bool attached = false;                  // whether the server has answered and has the block
    bool asked = false;                     // whether the present round asks it for a step

    // Starts the process and does not wait for it. Throws IoError.
    void start(const PythonTarget& target, const EnvSpec& spec);
  };

  Row& row(int64_t i) { return rows_[static_cast<size_t>(i)]; }
  const Group& group_of(int64_t i) const;
  void plan_step(int64_t i, const std::byte* actions, const Group& group);
  void run_round();
  void start_servers();
  bool write_commands(Group& group);
  void collect(Group& group, std::vector<ServerRowError> errors);
  void collect_row(int64_t i, const Group& group);
  void take_observation(int64_t i, const Group& group);
  void take_result(int64_t i, const Group& group);
  void take_next(int64_t i, const Group& group);
  void fail(int64_t i, const std::string& text, bool rebuild);
  void lose(Group& group, const std::exception& error);
  void restart_failed();
  void publish(EnvStep& out);

  PythonTarget target_;
  EnvSpec spec_;
  std::string spaces_;
  bool shared_;  // whether the rows of a process cannot be stepped and started one by one
  bool seeds_alone_;
  int64_t agents_;
  std::optional<uint64_t> singly_;  // the seed of play_singly()
  StepBuffers buffers_;
  std::vector<Row> rows_;
  std::vector<Group> groups_;
  std::vector<int64_t> failed_;  // rows that failed while an episode ran, in this step
  TokenBucket tracebacks_{1, 1.0 / 60};
};

}  // namespace troupe
