#pragma once
// What `troupe worker`, `node` and `inference` share: an actor system that can reach other processes.

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include <caf/actor_system.hpp>

#include "actors/joining.h"
#include "actors/run_context.h"
#include "tools/cli/address.h"

namespace troupe {

// Environments for the config (JSON) of the run at the address `run`, without policies. Throws ConfigError.
RunContextPtr worker_context(const std::string& run, const std::string& config, std::shared_ptr<ActorBoard> board);

// The error of a process that joins the run at address `run`, which it names: "RUN: ERROR".
std::string about_run(const std::string& run, const std::string& error);

// CAF's network settings in a process that joins a run. CAF fixes them before the run's settings are known, so its own
// limit on silence is disabled: the hosts watch the connection with the run's settings (runtime/caf/keep_alive.h).
NetworkConfig joining_network();

// Runs `body` with an actor system on the network, whose actors share `threads` threads. Throws ConfigError when the
// system does not allow these threads, those of CAF, and `more` that the process will start.
int with_network(size_t threads, size_t more, const NetworkConfig& network,
                 const std::function<int(caf::actor_system&)>& body);

// Reports of the hosts of one process: lines on the console, and the exit code. Used by the hosts' actors and by the
// command.
class JoinReport : public std::enable_shared_from_this<JoinReport> {
 public:
  // Errors of a process that never joined begin with `source`: what gave the address.
  explicit JoinReport(std::string source = "--connect") : source_(std::move(source)) {}
  // Called on the host's actor whenever the run is lost; set before a host starts.
  void on_lost(std::function<void()> lost) { on_lost_ = std::move(lost); }
  // Where to find the run. The hosts report here and keep this alive. `wait` is in seconds.
  RunAddress address(const Address& connect, std::optional<int64_t> wait);
  void fail(const std::string& error);
  // Whether a host is joined; and whether one has ended in order.
  bool is_member() const;
  bool has_ended() const;
  // The exit code of the process when all hosts have ended. Throws ConfigError when none of them ever joined a run.
  int exit_code(bool interrupted) const;

 private:
  void tell(const JoinNews& news);
  void tell_lost(const JoinNews& news);

  const std::string source_;
  std::function<void()> on_lost_;
  mutable std::mutex mutex_;
  bool joined_ = false, member_ = false, ended_ = false, gave_up_ = false;
  std::string error_;
};

// How a host finds its run.
struct HostStart {
  Address connect;
  std::optional<int64_t> wait = {};  // seconds
  std::string source = "--connect";  // what gave the address
  std::string config = {};           // JSON; as in a JoinRequest
  // By what has started the run too (tools/cli/launcher.h), or by the run. Signals come to both, and the run has to end
  // first: the host goes on for at most kLaunchedPatience while the run is there. When the run has ended, so has the
  // host, with exit code 0 also after a signal: launchers kill all processes when one ends with another code.
  bool launched = false;
};
constexpr std::chrono::seconds kLaunchedPatience{30};

// Runs one host, which `spawn` starts and which keeps itself joined to the run, until it ends or a signal comes. It is
// given the address of the run, and what to call at its end. `more` is as in with_network(). Returns the exit code.
// Throws ConfigError.
using SpawnHost = std::function<Stoppable(caf::actor_system&, const RunAddress&,
                                          std::function<void(const std::string& error)> on_end)>;
int run_host(const HostStart& start, size_t more, const SpawnHost& spawn);

// The number of threads for so many workers: at most one per processor.
size_t threads_for(size_t workers);

}  // namespace troupe
