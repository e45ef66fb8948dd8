#include <algorithm>
#include <boost/asio/write.hpp>
#include <functional>
#include <string_view>
#include <utility>

#include "runtime/stats/socket_server.h"

namespace troupe {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;

constexpr double kSnapshotsPerRequest = 400;  // this much history counts as one more request

}  // namespace

void StatsSocket::Server::Session::start() {
  const StatsSocketOptions& options = server_->options_;
  set_deadline(refused_.empty() ? options.silence_timeout : options.line_timeout, [this] { close(); });
  // Not read() yet: it takes the bytes from the socket before received() is called, and silent() would not see them.
  socket_.async_wait(tcp::socket::wait_read, [self = shared_from_this()](error_code error) {
    if (!self->socket_.is_open()) return;
    if (error) return self->close();
    error_code ignored;
    self->heard_ = self->socket_.available(ignored) > 0;  // not at the end of the connection
    self->read();
  });
}

bool StatsSocket::Server::Session::silent() const {
  error_code ignored;
  return !heard_ && !refused() && !closing_ && socket_.available(ignored) == 0;
}

void StatsSocket::Server::Session::read() {
  socket_.async_read_some(asio::buffer(chunk_), [self = shared_from_this()](error_code error, size_t bytes) {
    if (!self->socket_.is_open()) return;  // closed since this operation completed
    if (!error) return self->received(bytes);
    if (error != asio::error::eof || self->sent_all_) return self->close();
    if (self->answering_) {
      self->linger_ = false;
      return;
    }
    self->finish(false);  // it has shut down its side of the connection, and still gets the answers to its requests
  });
}

void StatsSocket::Server::Session::received(size_t bytes) {
  if (!closing_ && !answering_) {
    received_.append(chunk_.data(), bytes);
    if (mode_ == Mode::undecided) decide();
    if (mode_ == Mode::http) handle_http();
    if (mode_ == Mode::lines) handle_lines();
  }
  if (socket_.is_open() && !websocket_) read();
}

void StatsSocket::Server::Session::decide() {
  const size_t line_end = received_.find('\n');
  const bool complete = line_end != std::string::npos;
  if (complete && is_http_request_line(std::string_view(received_).substr(0, line_end)))
    mode_ = Mode::http;
  else if (complete || received_.size() > server_->options_.max_line_bytes)
    mode_ = Mode::lines;
  if (mode_ != Mode::undecided && !refused_.empty()) return refuse(refused_);
  if (mode_ == Mode::lines) return begin_lines();
  if (line_timer_on_) return;
  line_timer_on_ = true;
  set_deadline(server_->options_.line_timeout, [this] { line_deadline(); });
}

void StatsSocket::Server::Session::begin_lines() {
  if (server_->options_.data) return fail("this port speaks HTTP: open it in a browser");
  mode_ = websocket_ ? Mode::websocket : Mode::lines;
  line_timer_on_ = false;
  ++timer_generation_;
  send(server_->hello_);
  if (server_->history_.size() > 0) send(line_of(server_->history_.latest_message()));
}

void StatsSocket::Server::Session::handle_http() {
  size_t end = received_.find("\r\n\r\n");
  if (end == std::string::npos) end = received_.find("\n\n");
  if (end == std::string::npos && received_.size() <= server_->options_.max_line_bytes) return;
  const std::string head = received_.substr(0, end);
  if (end != std::string::npos && !server_->options_.data && asks_for_websocket(head)) {
    const std::string refused = refuse_websocket(head, server_->pages_.own_hosts);
    if (refused.empty()) return begin_websocket(head);
    ++server_->errors_;
    send(std::make_shared<const std::string>(refused));
    return finish(true);
  }
  if (end == std::string::npos) return answered(http_error("431 Request Header Fields Too Large"));
  if (!server_->options_.data || !asks_for_data(head)) return answered(http_response(head, server_->pages_));
  answering_ = true;
  received_.clear();
  ++timer_generation_;  // the request came in time
  server_->answer_data(shared_from_this(), head);
}

void StatsSocket::Server::Session::answered(const std::string& answer) {
  if (closing_) return;
  if (!answer.starts_with("HTTP/1.1 200")) ++server_->errors_;
  send(std::make_shared<const std::string>(answer));
  finish(true);
}

void StatsSocket::Server::Session::handle_lines() {
  size_t begin = 0;
  for (size_t end; !closing_ && (end = received_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    std::string_view line = std::string_view(received_).substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty()) handle(line);  // an empty line only asks for `hello`
    line_timer_on_ = false;
  }
  if (closing_) return received_.clear();
  received_.erase(0, begin);
  if (received_.size() > server_->options_.max_line_bytes)
    return fail("line longer than " + std::to_string(server_->options_.max_line_bytes) + " bytes");
  if (received_.empty())
    ++timer_generation_;
  else if (!line_timer_on_)
    set_deadline(server_->options_.line_timeout, [this] { line_deadline(); });
  line_timer_on_ = !received_.empty();
}

void StatsSocket::Server::Session::handle(std::string_view line) {
  StatsHistory& history = server_->history_;
  try {
    if (line.size() > server_->options_.max_line_bytes)
      throw RequestError("line longer than " + std::to_string(server_->options_.max_line_bytes) + " bytes");
    const StatsRequest request = parse_stats_request(line);
    const bool is_history = request.kind == StatsRequest::Kind::history;
    if (!requests_.take(1, Clock::now())) throw RequestError("too many requests");
    if (!request.topic.empty() && !history.has_topic(request.topic))
      throw RequestError("no topic \"" + request.topic + "\" in the newest snapshot");
    if (is_history) {
      const StatsHistory::Reply reply = history.history_message(request, server_->options_.max_queued_bytes / 2);
      requests_.charge(static_cast<double>(reply.snapshots) / kSnapshotsPerRequest);
      send(line_of(reply.message));
    } else if (request.kind == StatsRequest::Kind::subscribe) {
      topic_ = request.topic;
      send(line_of(subscribed_message(topic_)));
    } else if (request.kind == StatsRequest::Kind::metrics) {
      send(line_of(metrics_message(server_->options_.metrics)));
    } else {
      send(line_of(pong_message()));
    }
  } catch (const RequestError& error) {
    fail(error.what());
  }
}

void StatsSocket::Server::Session::snapshot(const Message& stats) {
  if ((mode_ != Mode::lines && mode_ != Mode::websocket) || closing_) return;
  send(topic_.empty() ? stats : line_of(server_->history_.topic_message(topic_)));
}

void StatsSocket::Server::Session::send(Message message) {
  if (closing_) return;
  if (queued_bytes_ + message->size() > server_->options_.max_queued_bytes && !queue_.empty()) {
    ++server_->slow_;
    return refuse("too slow: " + std::to_string(queued_bytes_) + " bytes are waiting to be read");
  }
  queued_bytes_ += message->size();
  queue_.push_back(std::move(message));
  if (queue_.size() == 1) write();
}

// Answers invalid input of the client with an error.
void StatsSocket::Server::Session::fail(const std::string& reason) {
  ++server_->errors_;
  refuse(reason);
}

void StatsSocket::Server::Session::refuse(const std::string& reason) {
  if (closing_) return;
  error_code ignored;
  const tcp::endpoint peer = socket_.remote_endpoint(ignored);
  server_->log_.warn("client " + (ignored ? "that is gone" : peer.address().to_string()) + " closed: " + reason);
  if (queue_.size() > 1) queue_.erase(queue_.begin() + 1, queue_.end());  // the first is being written
  queue_.push_back(refusal(mode_ == Mode::http, reason));
  if (queue_.size() == 1) write();
  finish(true);
}

StatsSocket::Server::Message StatsSocket::Server::refusal(bool http, const std::string& reason) {
  if (!http) return line_of(error_message(reason));
  return std::make_shared<const std::string>(http_error("503 Service Unavailable", reason));
}

void StatsSocket::Server::Session::finish(bool linger) {
  linger_ = linger_ && linger;
  closing_ = true;
  received_.clear();
  set_deadline(server_->options_.linger_timeout, [this] { close(); });
  if (queue_.empty()) flush();
}

void StatsSocket::Server::Session::write() {
  if (websocket_) return websocket_->write(queue_.front());
  asio::async_write(
      socket_, asio::buffer(*queue_.front()),
      [self = shared_from_this(), message = queue_.front()](error_code error, size_t) { self->written(error); });
}

// The first message of the queue has been sent.
void StatsSocket::Server::Session::written(error_code error) {
  if (error || !socket_.is_open()) return close();
  queued_bytes_ -= std::min(queued_bytes_, queue_.front()->size());
  queue_.pop_front();
  flush();
}

void StatsSocket::Server::Session::flush() {
  if (!queue_.empty()) return write();
  if (!closing_ || sent_all_) return;
  if (websocket_) return websocket_->end();
  if (!linger_) return close();
  // Closing with unread bytes would reset the connection, and the client could lose the answer. So the session reads
  // until the client closes.
  sent_all_ = true;
  error_code ignored;
  ignored = socket_.shutdown(tcp::socket::shutdown_send, ignored);
}

void StatsSocket::Server::Session::close() {
  if (closed_.exchange(true)) return;
  error_code ignored;
  ignored = socket_.close(ignored);  // Beast may have closed it already
  timer_.cancel();
  closing_ = true;
  server_->remove(shared_from_this());
}

void StatsSocket::Server::Session::set_deadline(std::chrono::milliseconds time, std::function<void()> action) {
  timer_.expires_after(time);
  timer_.async_wait(
      [self = shared_from_this(), action = std::move(action), generation = ++timer_generation_](error_code error) {
        if (!error && generation == self->timer_generation_ && self->socket_.is_open()) action();
      });
}

void StatsSocket::Server::Session::line_deadline() {
  if (mode_ != Mode::http) return fail("the rest of a line did not come in time");
  ++server_->errors_;
  send(std::make_shared<const std::string>(http_error("408 Request Timeout")));
  finish(true);
}

}  // namespace troupe
