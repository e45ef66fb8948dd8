// The WebSocket side of a session. Apart, because Boost.Beast takes long to compile.

#include <utility>

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/websocket/stream.hpp>

#include "runtime/stats/socket_server.h"

namespace troupe {

namespace {

namespace beast = boost::beast;
namespace asio = boost::asio;
using boost::system::error_code;

}  // namespace

struct StatsSocket::Server::Session::WebSocket {
  explicit WebSocket(tcp::socket& socket) : stream(socket) {}

  beast::websocket::stream<tcp::socket&> stream;
  beast::http::request<beast::http::string_body> request;  // until it is accepted
  beast::flat_buffer received;
  bool heard = true;  // anything from the client since the last ping
  bool ending = false;
};

StatsSocket::Server::Session::Session(Server& server, tcp::socket socket)
    : server_(&server), socket_(std::move(socket)), timer_(socket_.get_executor()) {}
StatsSocket::Server::Session::~Session() = default;

void StatsSocket::Server::Session::accept_websocket(std::string head) {
  line_timer_on_ = false;
  received_.clear();
  websocket_ = std::make_unique<WebSocket>(socket_);
  beast::http::request_parser<beast::http::string_body> parser;
  head += "\r\n\r\n";
  error_code error;
  parser.put(asio::buffer(head), error);
  if (error) return close();
  websocket_->request = parser.release();
  websocket_->stream.read_message_max(server_->options_.max_line_bytes);
  websocket_->stream.text(true);
  websocket_->stream.control_callback(
      [this](beast::websocket::frame_type, beast::string_view) { websocket_->heard = true; });
  set_deadline(server_->options_.line_timeout, &Session::close);
  websocket_->stream.async_accept(websocket_->request, [self = shared_from_this()](error_code failed) {
    if (failed || self->closing_) return self->close();
    self->mode_ = Mode::websocket;
    self->set_deadline(self->server_->options_.line_timeout, &Session::watch_websocket);
    self->greet();
    self->read_message();
  });
}

// A client that does not answer a ping in time is gone. This also limits the time that it takes to close its side.
void StatsSocket::Server::Session::watch_websocket() {
  if (!std::exchange(websocket_->heard, false)) return close();
  set_deadline(server_->options_.line_timeout, &Session::watch_websocket);
  websocket_->stream.async_ping({}, [self = shared_from_this()](error_code) {});
}

void StatsSocket::Server::Session::read_message() {
  websocket_->stream.async_read(websocket_->received, [self = shared_from_this()](error_code error, size_t) {
    if (error) {
      if (error != beast::websocket::error::closed && !self->closing_) ++self->server_->errors_;
      return self->close();
    }
    WebSocket& socket = *self->websocket_;
    socket.heard = true;
    const auto bytes = socket.received.data();
    if (!self->closing_) self->handle_line({static_cast<const char*>(bytes.data()), bytes.size()});
    socket.received.consume(bytes.size());
    if (self->socket_.is_open()) self->read_message();
  });
}

void StatsSocket::Server::Session::write_message() {
  const Message message = queue_.front();
  websocket_->stream.async_write(asio::buffer(*message),
                                 [self = shared_from_this(), message](error_code error, size_t) {
                                   if (error || !self->socket_.is_open()) return self->close();
                                   self->queue_.pop_front();
                                   self->queued_bytes_ -= std::min(self->queued_bytes_, message->size());
                                   self->written();
                                 });
}

void StatsSocket::Server::Session::end_websocket() {
  if (websocket_->ending) return;
  websocket_->ending = true;
  if (mode_ != Mode::websocket) return close();
  websocket_->stream.async_close(beast::websocket::close_code::normal,
                                 [self = shared_from_this()](error_code) { self->close(); });
}

}  // namespace troupe
