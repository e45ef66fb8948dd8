#pragma once
// Which rank of a run this process is, where several processes are started with the same line: by torchrun, as a step
// of Slurm, by mpirun, or by hand. Pure functions, except environment_here(); any thread.

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "tools/cli/address.h"

namespace troupe {

using Environment = std::map<std::string, std::string>;
// The environment of this process.
Environment environment_here();

// What the command line says.
struct LaunchFlags {
  std::optional<int64_t> rank, ranks;  // --rank, --ranks
  std::optional<Address> rank0;        // --rank0
  Address listen = kLoopbackAnyPort;   // --listen
};

struct Launch {
  int64_t rank = 0, ranks = 1;
  std::string found;  // where that was found: "Slurm: SLURM_PROCID"
  Address rank0;      // to which the other ranks connect
  Address listen;     // on which rank 0 listens: loopback if all ranks are on one host

  // "rank 0 of 4 (Slurm: SLURM_PROCID)".
  std::string text() const;
  // Whether another program has started this process together with others, whose output may go to the same terminal.
  bool by_launcher() const { return !found.starts_with("--"); }
  friend bool operator==(const Launch&, const Launch&) = default;
};

// How long the ranks of a launcher wait for rank 0, which may load a model.
inline constexpr std::chrono::seconds kLaunchWait{120};

// The ports of ranks that a launcher gives none: from the job and, with Slurm, the step.
inline constexpr uint16_t kLowestLaunchPort = 20000, kHighestLaunchPort = 29999;

// Looks at the flags, then at TROUPE_RANK, then at the variables of torchrun, of a step of Slurm, and of MPI, and takes
// the first that say something. Nothing for an ordinary run: where none does, where there is one rank, and with --ranks
// 1. With --ranks alone and no launcher, this process starts the others, which is an ordinary run too. Throws
// ConfigError, which begins with the flag or the variable that makes no sense.
std::optional<Launch> find_launch(const LaunchFlags& flags, const Environment& environment);

}  // namespace troupe
