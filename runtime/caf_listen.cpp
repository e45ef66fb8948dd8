#include "runtime/caf_listen.h"

#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <vector>

#include <caf/io/basp_broker.hpp>
#include <caf/io/middleman.hpp>
#include <caf/io/network/default_multiplexer.hpp>
#include <caf/io/network/doorman_impl.hpp>
#include <caf/io/network/scribe_impl.hpp>
#include <caf/send.hpp>

#include "runtime/caf_system.h"
#include "runtime/log.h"

namespace troupe {

namespace {

namespace network = caf::io::network;
using caf::io::receive_policy;
using Clock = std::chrono::steady_clock;
using Count = std::shared_ptr<std::atomic<size_t>>;

constexpr const char* kComponent = "network";

// One connection. CAF asks it for so many bytes: a header, then as many as the header says, and so on.
class GuardedScribe : public network::scribe_impl {
 public:
  GuardedScribe(network::default_multiplexer& loop, network::native_socket socket, const ListenLimits& limits,
                Count open)
      : scribe_impl(loop, socket), limits_(limits), open_(std::move(open)), since_(Clock::now()) {
    ++*open_;
  }
  ~GuardedScribe() override { --*open_; }

  void configure_read(receive_policy::config wanted) override {
    ++reads_;
    const size_t limit = introduced() ? limits_.message_bytes : limits_.introduction_bytes;
    if (wanted.second <= limit) return scribe_impl::configure_read(wanted);
    close("announced a message of " + std::to_string(wanted.second) + " bytes, more than " + std::to_string(limit));
    scribe_impl::configure_read(receive_policy::at_most(1));  // what CAF gets next is the end of the connection
  }

  bool introduced() const { return reads_ > 2; }
  bool overdue() const { return !introduced() && Clock::now() - since_ > limits_.introduction; }

  void close(const std::string& why) {
    log_warn(kComponent, "a connection from " + addr() + " is closed: it " + why);
    shutdown(stream_.fd(), SHUT_RDWR);
  }

 private:
  ListenLimits limits_;
  Count open_;
  Clock::time_point since_;
  uint64_t reads_ = 0;
};

class GuardedDoorman : public network::doorman_impl {
 public:
  GuardedDoorman(network::default_multiplexer& loop, network::native_socket socket, const ListenLimits& limits)
      : doorman_impl(loop, socket), limits_(limits), open_(std::make_shared<std::atomic<size_t>>(0)) {}

  bool new_connection() override {
    if (detached()) return false;
    close_overdue();
    const network::native_socket socket = acceptor_.accepted_socket();
    if (*open_ >= limits_.connections) {
      log_warn(kComponent, "a connection is refused: " + std::to_string(limits_.connections) + " are open");
      network::close_socket(socket);
      return true;
    }
    auto& loop = acceptor_.backend();
    auto scribe = caf::make_counted<GuardedScribe>(loop, socket, limits_, open_);
    newcomers_.push_back(scribe);
    const auto handle = scribe->hdl();
    parent()->add_scribe(std::move(scribe));
    return doorman::new_connection(&loop, handle);
  }

 private:
  // At a new connection, so that silent ones cannot use up the places.
  void close_overdue() {
    std::erase_if(newcomers_, [](const auto& scribe) {
      if (scribe->overdue()) scribe->close("did not introduce itself in time");
      return scribe->overdue() || scribe->introduced() || scribe->detached();
    });
  }

  ListenLimits limits_;
  Count open_;
  std::vector<caf::intrusive_ptr<GuardedScribe>> newcomers_;
};

size_t half_of_open_files() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? static_cast<size_t>(limit.rlim_cur) / 2 : 512;
}

}  // namespace

uint16_t detail::listen(caf::actor_system& system, const caf::strong_actor_ptr& actor, std::set<std::string> interface,
                        const std::string& host, uint16_t port, const ListenLimits& limits) {
  const auto refuse = [&](const std::string& why) {
    throw ConfigError("--listen " + host + ':' + std::to_string(port) + ": cannot listen: " + why);
  };
  const auto socket = network::new_tcp_acceptor_impl(port, host.c_str(), true);
  if (!socket) refuse(describe(socket.error()));
  const auto bound = network::local_port_of_fd(*socket);
  if (!bound) refuse(describe(bound.error()));
  ListenLimits within = limits;
  within.connections = std::min(limits.connections, half_of_open_files());
  auto& middleman = system.middleman();
  caf::io::doorman_ptr doorman = caf::make_counted<GuardedDoorman>(
      dynamic_cast<network::default_multiplexer&>(middleman.backend()), *socket, within);
  // What middleman().publish() does with a doorman of its own.
  const caf::actor broker = middleman.named_broker<caf::io::basp_broker>(caf::atom("BASP"));
  caf::anon_send(broker, caf::publish_atom::value, std::move(doorman), *bound, actor, std::move(interface));
  return *bound;
}

}  // namespace troupe
