#include "runtime/caf/listen.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include <caf/event_based_actor.hpp>
#include <caf/io/network/acceptor_impl.hpp>
#include <caf/io/network/default_multiplexer.hpp>
#include <caf/io/network/scribe_impl.hpp>
#include <caf/send.hpp>

#include "runtime/base/descriptor.h"
#include "runtime/base/file.h"
#include "runtime/base/limited_log.h"
#include "runtime/base/listener.h"
#include "runtime/base/machine.h"
#include "runtime/caf/broker.h"
#include "runtime/caf/system.h"

namespace troupe {

namespace {

namespace network = caf::io::network;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kSweepInterval{1};
constexpr size_t kLargeBufferBytes = 1 << 20;

// CAF identifies a connection by its file descriptor and cleans up an ended one only some messages later. A new
// connection that reused the descriptor meanwhile would lose its entry: its process would count as lost without being
// told. So descriptors are not reused soon.
constexpr int kFirstNumber = 64, kLastNumber = 1 << 16;

class GuardedScribe;

// What the connections of one port share. Used only by the network thread, except at the end of the process.
struct Port {
  ListenLimits limits;
  const AcceptedMessages& messages;
  size_t open = 0;
  bool freed_buffers = false;          // large ones, since the last sweep
  size_t buffer_bytes = 0;             // of all connections
  std::set<GuardedScribe*> newcomers;  // handshake not complete
  int next_number = kFirstNumber;      // minimum descriptor of the next connection
  LimitedLog log{"network"};
};

// One connection. CAF asks it for so many bytes: a header, then as many as the header says, and so on.
class GuardedScribe : public network::scribe_impl {
 public:
  GuardedScribe(network::default_multiplexer& loop, network::native_socket socket, std::shared_ptr<Port> port)
      : scribe_impl(loop, socket),
        port_(std::move(port)),
        frames_(loop.system(), port_->messages, port_->limits.message_bytes),
        address_(addr().empty() ? "an unknown address" : addr()) {  // of a peer that has gone already
    ++port_->open;
    port_->newcomers.insert(this);
  }
  ~GuardedScribe() override {
    port_->newcomers.erase(this);
    --port_->open;
    port_->buffer_bytes -= buffer_bytes_;
    port_->freed_buffers |= buffer_bytes_ >= kLargeBufferBytes;
  }

  bool consume(caf::execution_unit* context, const void* bytes, size_t count) override {
    if (detached()) return false;
    std::string why = frames_.check({static_cast<const char*>(bytes), count});
    if (frames_.introduced()) port_->newcomers.erase(this);
    if (why.empty()) why = reserve(frames_.awaits());
    if (why.empty()) return scribe_impl::consume(context, bytes, count);
    close(why);
    io_failure(context, network::operation::read);
    return false;
  }

  bool overdue() const { return Clock::now() - since_ > port_->limits.introduction; }

  void close(const std::string& why) {
    port_->log.warn("a connection from " + address_ + " is closed: it " + why);
    ::shutdown(stream_.fd(), SHUT_RDWR);
  }

 private:
  // CAF allocates a payload's memory when its header has arrived, and keeps it until the connection ends. Returns why
  // it must not, or an empty text.
  std::string reserve(size_t bytes) {
    if (bytes <= buffer_bytes_) return "";
    const size_t more = bytes - buffer_bytes_, limit = port_->limits.buffer_bytes;
    if (more > limit - std::min(limit, port_->buffer_bytes))
      return "announced a payload of " + std::to_string(bytes) +
             " bytes; the buffers of all connections already hold " + std::to_string(port_->buffer_bytes) +
             " bytes of at most " + std::to_string(limit) + " (a lower network.chunk_bytes makes messages smaller)";
    buffer_bytes_ = bytes;
    port_->buffer_bytes += more;
    return "";
  }

  std::shared_ptr<Port> port_;
  size_t buffer_bytes_ = 0;  // of this connection
  FrameCheck frames_;
  std::string address_;
  Clock::time_point since_ = Clock::now();
};

void close_overdue(Port& port) {
  std::erase_if(port.newcomers, [](GuardedScribe* scribe) {
    if (!scribe->overdue()) return false;
    scribe->close("did not introduce itself in time");
    return true;
  });
}

// CAF starts an actor for every process it learns of and keeps it after the connection ends. A peer that reconnects
// under new names would fill the memory.
void forget_gone_processes(caf::io::basp_broker& broker) {
  std::erase_if(broker.spawn_servers, [&](const auto& process) {
    if (broker.instance.tbl().lookup(process.first)) return false;
    caf::anon_send_exit(process.second, caf::exit_reason::kill);
    return true;
  });
}

// The allocator keeps freed buffers of this size for the process, as many as were ever in use at a time.
void give_back_buffers(Port& port) {
  if (std::exchange(port.freed_buffers, false)) ::malloc_trim(0);
}

// Until the port is closed: closes silent connections in time and frees what CAF keeps of ended ones.
caf::behavior sweeper(caf::event_based_actor* self, const std::weak_ptr<Port>& port, const caf::actor_addr& broker) {
  self->delayed_send(self, kSweepInterval, caf::tick_atom_v);
  return {[self, port, broker](caf::tick_atom) {
    if (port.expired()) return self->quit();
    self->system().middleman().backend().post([port, broker] {
      if (const auto open = port.lock()) {
        close_overdue(*open);
        give_back_buffers(*open);
      }
      if (auto* const connections = running(caf::actor_cast<caf::strong_actor_ptr>(broker)))
        forget_gone_processes(*connections);
    });
    self->delayed_send(self, kSweepInterval, caf::tick_atom_v);
  }};
}

// How connections are accepted. When the process has no file left for one, CAF's own policy would leave it in the
// queue and be told of it again at once, without end. Here a file that is kept in reserve takes it, and it is closed.
class AcceptOrClose {
 public:
  explicit AcceptOrClose(std::shared_ptr<Port> port) : port_(std::move(port)), reserve_(any_file()) {}

  bool try_accept(network::native_socket& result, network::native_socket listener) {
    result = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (result == network::invalid_native_socket && (errno == EMFILE || errno == ENFILE)) close_one(listener);
    return result != network::invalid_native_socket;
  }

 private:
  static Descriptor any_file() { return Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC)); }

  void close_one(network::native_socket listener) {
    constexpr std::chrono::milliseconds kPause{20};
    reserve_ = Descriptor();
    const bool closed = Descriptor(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)).number() >= 0;
    reserve_ = any_file();
    port_->log.warn("a connection is closed: the process has no file left for it (`ulimit -n`)");
    if (!closed) std::this_thread::sleep_for(kPause);  // another thread has taken the file
  }

  std::shared_ptr<Port> port_;
  Descriptor reserve_;
};

class GuardedDoorman : public caf::io::doorman {
 public:
  GuardedDoorman(network::default_multiplexer& loop, network::native_socket socket, std::shared_ptr<Port> port)
      : doorman(network::accept_hdl_from_socket(socket)), acceptor_(loop, socket, port), port_(std::move(port)) {}

  bool new_connection() override {
    if (detached()) return false;
    const network::native_socket socket = acceptor_.accepted_socket();
    if (port_->open >= port_->limits.connections) {
      port_->log.warn("a connection is refused: " + std::to_string(port_->limits.connections) + " are open");
      network::close_socket(socket);
      return true;
    }
    auto& loop = acceptor_.backend();
    auto scribe = caf::make_counted<GuardedScribe>(loop, renumbered(socket), port_);
    const auto handle = scribe->hdl();
    parent()->add_scribe(std::move(scribe));
    return doorman::new_connection(&loop, handle);
  }
  void graceful_shutdown() override {
    acceptor_.graceful_shutdown();
    detach(&acceptor_.backend(), false);
  }
  void launch() override { acceptor_.start(this); }
  std::string addr() const override {
    const auto address = network::local_addr_of_fd(acceptor_.fd());
    return address ? *address : "";
  }
  uint16_t port() const override {
    const auto port = network::local_port_of_fd(acceptor_.fd());
    return port ? *port : 0;
  }
  void add_to_loop() override { acceptor_.activate(this); }
  void remove_from_loop() override { acceptor_.passivate(); }

 private:
  // The same connection under a descriptor that was not used recently, if the limit of open files allows.
  network::native_socket renumbered(network::native_socket socket) {
    int& next = port_->next_number;
    int fresh = ::fcntl(socket, F_DUPFD_CLOEXEC, next);
    if (fresh < 0) fresh = ::fcntl(socket, F_DUPFD_CLOEXEC, next = kFirstNumber);
    if (fresh < 0) return socket;
    next = fresh < kLastNumber ? fresh + 1 : kFirstNumber;
    network::close_socket(socket);
    return fresh;
  }

  network::acceptor_impl<AcceptOrClose> acceptor_;
  std::shared_ptr<Port> port_;
};

}  // namespace

uint16_t detail::listen(caf::actor_system& system, const caf::strong_actor_ptr& actor, std::set<std::string> interface,
                        const std::string& host, uint16_t port, const AcceptedMessages& messages,
                        const ListenLimits& limits) {
  Descriptor socket;
  try {
    socket = Descriptor(open_listener(host, port));
  } catch (const IoError& refused) {
    throw ConfigError(std::string("--listen ") + refused.what());
  }
  const auto bound = network::local_port_of_fd(socket.number());
  TROUPE_CHECK(bound, host);
  auto shared = std::make_shared<Port>(limits, messages);
  shared->limits.connections = std::min<size_t>(limits.connections, raise_open_files() / 2);
  auto& middleman = system.middleman();
  caf::io::doorman_ptr doorman = caf::make_counted<GuardedDoorman>(
      dynamic_cast<network::default_multiplexer&>(middleman.backend()), socket.release(), shared);
  // What middleman().publish() does with a doorman of its own.
  const auto broker = caf::actor_cast<caf::actor>(broker_of(system));
  caf::anon_send(broker, caf::publish_atom::value, std::move(doorman), *bound, actor, std::move(interface));
  system.spawn<caf::hidden>(sweeper, std::weak_ptr<Port>(shared), broker.address());
  return *bound;
}

}  // namespace troupe
