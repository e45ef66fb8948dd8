#include "runtime/caf/connect.h"

#include <sys/socket.h>

#include <mutex>
#include <span>

#include <caf/io/basp/header.hpp>
#include <caf/io/network/default_multiplexer.hpp>
#include <caf/io/network/scribe_impl.hpp>

#include "runtime/base/log.h"
#include "runtime/base/tcp_probe.h"
#include "runtime/caf/frame_reader.h"
#include "runtime/caf/greeting.h"

namespace troupe {

namespace {

namespace basp = caf::io::basp;
namespace network = caf::io::network;
using Clock = std::chrono::steady_clock;

uint32_t payload_bytes(std::span<const char> header) { return big_endian<uint32_t>(header.data() + 4); }

// No process of troupe sends more in one frame: four parts of the largest network.chunk_bytes (8 MiB), and 1 MiB beside
// the payload (actors/parts.h).
constexpr size_t kMostFrameBytes = 33 << 20;

// Why CAF must not see this header, as text that continues "it ..."; empty when it may.
std::string header_problem(std::span<const char> header) {
  if (header.size() != kFrameHeaderBytes) return "sent less than a header";
  const bool heartbeat = static_cast<uint8_t>(header[0]) == static_cast<uint8_t>(basp::message_type::heartbeat);
  const uint32_t payload = payload_bytes(header);
  if (payload > kMostFrameBytes)
    return "announced a message of " + std::to_string(payload) + " bytes; the limit is " +
           std::to_string(kMostFrameBytes);
  return (payload == 0) == heartbeat ? "" : "sent a malformed header";
}

// A connection that this process opened. CAF allocates whatever length a header announces, up to 4 GiB, before the
// payload arrives, and ends the process at a header without its payload. So damaged bytes, or another program that has
// taken over the port, must not reach it.
class OpenedConnection : public network::scribe_impl {
 public:
  // Written by the network thread, read by who opened the connection.
  struct Problem {
    std::mutex mutex;
    std::string text;
  };

  OpenedConnection(network::default_multiplexer& loop, network::native_socket socket, std::string peer)
      : scribe_impl(loop, socket), peer_(std::move(peer)) {}

  std::shared_ptr<Problem> problem() const { return problem_; }

  // CAF asks for a header, then for the payload that the header announced.
  bool consume(caf::execution_unit* context, const void* bytes, size_t count) override {
    if (detached()) return false;
    const std::span<const char> piece{static_cast<const char*>(bytes), count};
    const std::string problem = in_payload_ ? "" : header_problem(piece);
    if (problem.empty()) {
      if (in_payload_) greeted_ = true;
      in_payload_ = !in_payload_ && payload_bytes(piece) > 0;
      return scribe_impl::consume(context, bytes, count);
    }
    if (greeted_)
      log_warn("network", "the connection to " + peer_ + " is closed: it " + problem);
    else
      note(problem);
    ::shutdown(stream_.fd(), SHUT_RDWR);
    io_failure(context, network::operation::read);
    return false;
  }

 private:
  void note(const std::string& text) {
    const std::scoped_lock lock(problem_->mutex);
    problem_->text = text;
  }

  std::string peer_;
  bool in_payload_ = false;
  bool greeted_ = false;  // the peer's handshake has arrived
  std::shared_ptr<Problem> problem_ = std::make_shared<Problem>();
};

caf::result<std::string, caf::io::scribe_ptr> open_connection(caf::actor_system& system, const std::string& host,
                                                              uint16_t port, Clock::time_point until) {
  const TcpProbe probe = probe_tcp(host, port, until);
  if (probe.unknown_host) return make_error(Fault::io_failed, probe.problem);
  if (probe.address.empty())
    return probe.late ? caf::error(caf::sec::request_timeout) : make_error(Fault::peer_gone, probe.problem);
  if (caf::error other = await_greeting(probe.address, port, until)) return other;
  const auto socket = network::new_tcp_connection(probe.address, port);
  if (!socket) return socket.error();
  auto& loop = dynamic_cast<network::default_multiplexer&>(system.middleman().backend());
  caf::io::scribe_ptr scribe = caf::make_counted<OpenedConnection>(loop, *socket, address_text(host, port));
  return {probe.address, std::move(scribe)};
}

}  // namespace

std::function<std::string()> problem_of(const caf::io::scribe& connection) {
  return [problem = dynamic_cast<const OpenedConnection&>(connection).problem()] {
    const std::scoped_lock lock(problem->mutex);
    return problem->text;
  };
}

caf::actor spawn_connector(caf::actor_system& system, const std::string& host, uint16_t port,
                           std::chrono::milliseconds deadline) {
  // Hidden: the process can end without waiting for a name server.
  return system.spawn<caf::detached + caf::hidden>(
      [host, port, until = Clock::now() + deadline](caf::event_based_actor* self) -> caf::behavior {
        return {[self, host, port, until](caf::connect_atom) {
          self->quit();
          return open_connection(self->system(), host, port, until);
        }};
      });
}

}  // namespace troupe
