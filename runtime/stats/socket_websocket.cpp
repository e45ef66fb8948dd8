// The WebSocket side of a session.

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

// Handlers hold the session, which owns this.
class StatsSocket::Server::Session::WebSocket : public Frames {
 public:
  explicit WebSocket(Session& session) : session_(session), stream_(session.socket_) {}

  // Answers a complete request for a WebSocket; then the session begins.
  void accept(const std::string& head) {
    beast::http::request_parser<beast::http::string_body> parser;
    error_code error;
    parser.put(asio::buffer(head), error);
    if (error) return session_.close();
    request_ = parser.release();
    stream_.read_message_max(session_.server_->options_.max_line_bytes);
    stream_.text(true);
    stream_.control_callback([this](beast::websocket::frame_type, beast::string_view) { heard_ = true; });
    session_.set_deadline(session_.server_->options_.line_timeout, [this] { session_.close(); });
    stream_.async_accept(request_, [this, self = session_.shared_from_this()](error_code failed) {
      if (failed || session_.closing_) return session_.close();
      session_.begin_lines();
      if (!session_.closing_) session_.set_deadline(session_.server_->options_.line_timeout, [this] { watch(); });
      read();
    });
  }

  void write(Message message) override {
    const auto bytes = asio::buffer(*message);
    stream_.async_write(bytes, [self = session_.shared_from_this(), message = std::move(message)](
                                   error_code error, size_t) { self->written(error); });
  }

  void end() override {
    if (std::exchange(ending_, true)) return;
    if (session_.mode_ != Mode::websocket) return session_.close();
    stream_.async_close(beast::websocket::close_code::normal,
                        [self = session_.shared_from_this()](error_code) { self->close(); });
  }

 private:
  // A client that does not answer a ping in time is gone. This also limits the time that it takes to close its side. A
  // client that leaves no room for a ping in that time does not read, whatever it sends. The stream holds one ping at
  // most: a second one would replace the first, whose handler would then never be called.
  void watch() {
    if (pinging_) ++session_.server_->slow_;
    if (pinging_ || !std::exchange(heard_, false)) return session_.close();
    session_.set_deadline(session_.server_->options_.line_timeout, [this] { watch(); });
    pinging_ = true;
    stream_.async_ping({}, [this, self = session_.shared_from_this()](error_code) { pinging_ = false; });
  }

  void read() {
    stream_.async_read(received_, [this, self = session_.shared_from_this()](error_code error, size_t) {
      if (error) {
        if (error != beast::websocket::error::closed && !session_.closing_) ++session_.server_->errors_;
        return session_.close();
      }
      heard_ = true;
      const auto bytes = received_.data();
      if (!session_.closing_) session_.handle({static_cast<const char*>(bytes.data()), bytes.size()});
      received_.consume(bytes.size());
      if (session_.socket_.is_open()) read();
    });
  }

  Session& session_;
  beast::websocket::stream<tcp::socket&> stream_;
  beast::http::request<beast::http::string_body> request_;  // until it is accepted
  beast::flat_buffer received_;
  bool heard_ = true;  // anything from the client since the last ping
  bool pinging_ = false;
  bool ending_ = false;
};

void StatsSocket::Server::Session::begin_websocket(const std::string& head) {
  received_.clear();
  auto websocket = std::make_unique<WebSocket>(*this);
  WebSocket& made = *websocket;
  websocket_ = std::move(websocket);
  made.accept(head + "\r\n\r\n");
}

}  // namespace troupe
