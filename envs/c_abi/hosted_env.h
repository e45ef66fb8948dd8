#pragma once
// HostedEnv: N rows of an environment in a shared library that runs in a process of its own (LibraryProcess). Results
// are those of the same rows in this process. The process starts at the first use. If it is lost, all rows fail; the
// next step starts another one, whose rows begin new episodes. One thread at a time.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "envs/c_abi/library_process.h"
#include "envs/env.h"
#include "envs/row.h"

namespace troupe {

class HostedEnv final : public Env {
 public:
  // Asks the library what it observes and does, once in each process of troupe. Throws ConfigError when the library
  // cannot be used.
  HostedEnv(LibraryTarget target, int64_t rows);

  const EnvSpec& spec() const override { return spec_; }
  int64_t rows() const override { return static_cast<int64_t>(active_.size()); }
  void begin_reset(uint64_t seed, uint64_t first_row) override;
  void reset(uint64_t seed, uint64_t first_row, EnvStep& out) override;
  bool play_singly(uint64_t seed) override;
  void begin_episode(int64_t row, uint64_t episode) override;
  void step(const Array& actions, EnvStep& out) override;
  void observe(EnvStep& out) override;
  void set_active(int64_t row, bool active) override;
  std::string render(int64_t row) const override;
  // The bytes begin with those of this class. load() also accepts bytes without them, of a run without env.isolate.
  bool save(std::string& bytes) const override;
  bool load(const std::string& bytes) override;
  void begin_close() override;

  // The process that runs now; 0 if there is none. For tests.
  pid_t process_id() const { return process_ ? process_->id() : 0; }

 private:
  // What save() adds to the bytes of the environment.
  struct Start {
    uint64_t seed = 0, first_row = 0;
    uint64_t restarts = 0;  // processes that were lost since the reset
    uint64_t lost = 0;      // 1: the process is lost, and the next step starts another one
  };

  void start() const;
  LibraryProcess& process() const;
  bool lost() const { return start_.lost != 0 || !unreported_.empty(); }
  void note_lost(const LibraryLost& error) const;
  void begin_again(EnvStep& out);
  void take(const std::string& errors, EnvStep& out);
  void lose(const std::string& why, EnvStep& out);
  void note_ended(const EnvStep& out);
  template <class Body>
  void guarded(EnvStep& out, Body body);

  LibraryTarget target_;
  EnvSpec spec_;
  StepBuffers buffers_;
  std::vector<char> active_;  // [N]
  Start start_;
  bool singly_ = false;  // see Env::play_singly
  std::string begins_;   // rows and numbers of the episodes that the next step begins, as HostRequest::step has them
  mutable std::string unreported_;                      // why the process was lost between two steps
  std::optional<std::pair<uint64_t, uint64_t>> begun_;  // the seed and first row of begin_reset()
  mutable std::unique_ptr<LibraryProcess> process_;
  mutable bool checked_ = false;  // whether its library was found to be that of the spec
};

}  // namespace troupe
