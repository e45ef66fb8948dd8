#include "runtime/stats/socket.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <deque>
#include <functional>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/address.h"
#include "runtime/base/file.h"
#include "runtime/base/limited_log.h"
#include "runtime/base/listener.h"
#include "runtime/base/log.h"
#include "runtime/base/machine.h"
#include "runtime/base/token_bucket.h"
#include "runtime/stats/protocol.h"

namespace troupe {

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using Message = std::shared_ptr<const std::string>;

constexpr const char* kComponent = "stats socket";
constexpr size_t kReadBytes = 4096;
constexpr size_t kMaxPending = 16;                      // published snapshots that the thread has not taken yet
constexpr size_t kMaxRefused = 256;                     // clients beyond max_clients that are told so and waited for
constexpr double kRequestsAtOnce = 20;                  // requests one client may send at once,
constexpr double kRequestsPerSecond = 10;               // and in the long run
constexpr double kSnapshotsPerRequest = 200;            // this much history counts as one more request
constexpr std::chrono::milliseconds kStopTime{500};     // for clients to read what is queued at the end
constexpr std::chrono::milliseconds kAcceptPause{200};  // after accept() failed, as when no descriptors are left

Message line_of(std::string message) { return std::make_shared<const std::string>(std::move(message) + '\n'); }

std::string text_of(const tcp::endpoint& endpoint) {
  return address_text(endpoint.address().to_string(), endpoint.port());
}

}  // namespace

// All that is shared by the clients; everything but what says otherwise is touched by the socket's thread alone.
class StatsSocket::Server {
 public:
  explicit Server(StatsSocketOptions options);
  ~Server() { stop(); }

  void publish(std::string snapshot);  // any thread
  void stop();                         // any thread
  tcp::endpoint endpoint() const { return endpoint_; }
  Counters counters() const;  // any thread

 private:
  class Session;

  void listen();
  void run();
  void accept();
  void accepted(tcp::socket socket);
  void turn_away(tcp::socket socket, const std::string& reason);
  void take_published();
  void begin_stop();
  void remove(const std::shared_ptr<Session>& session);
  std::string page() const;

  const StatsSocketOptions options_;
  asio::io_context context_{1};
  tcp::acceptor acceptor_{context_};
  asio::steady_timer accept_timer_{context_};
  asio::steady_timer stop_timer_{context_};
  tcp::endpoint endpoint_;
  std::vector<std::string> own_hosts_;  // names that a request may give for this machine
  StatsHistory history_;
  Message hello_;
  LimitedLog log_{kComponent};
  std::set<std::shared_ptr<Session>> sessions_;
  bool stopping_ = false;

  std::mutex pending_mutex_;
  std::deque<std::string> pending_;  // under pending_mutex_
  std::once_flag stop_once_;
  std::atomic<uint64_t> accepted_{0}, refused_{0}, errors_{0}, slow_{0}, open_{0}, published_{0}, skipped_{0};
  std::thread thread_;
};

// One connection. It is undecided until its first bytes, or their absence, tell whether it speaks HTTP or lines of JSON.
class StatsSocket::Server::Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Server& server, tcp::socket socket)
      : server_(&server), socket_(std::move(socket)), timer_(socket_.get_executor()) {}

  void start();
  // Tells the client why, and closes once it has read that, or did not in time.
  void refuse(const std::string& reason);
  // The newest snapshot, if this client is to have it. `stats` is the message for those who have all.
  void snapshot(const Message& stats);
  // Closes after what is queued has been sent. `linger`: wait for the client to close first, so that it gets everything.
  void finish(bool linger);
  void close();

 private:
  enum class Mode : uint8_t { undecided, http, lines };

  void read();
  void received(size_t bytes);
  void client_ended();
  void decide();
  void begin_lines();
  void handle_http();
  void handle_lines();
  void handle(const StatsRequest& request);
  void send(Message message);
  void fail(const std::string& reason);
  void write();
  void written();
  void set_deadline(std::chrono::milliseconds time, void (Session::*action)());
  void line_deadline();

  Server* server_;
  tcp::socket socket_;
  asio::steady_timer timer_;
  uint64_t timer_generation_ = 0;
  Mode mode_ = Mode::undecided;
  std::array<char, kReadBytes> chunk_;
  std::string received_;  // bytes that are not handled yet
  bool line_timer_on_ = false;
  std::deque<Message> queue_;  // the first is being written
  size_t queued_bytes_ = 0;
  bool closing_ = false;  // nothing more is handled or queued
  bool linger_ = true;
  bool sent_all_ = false;  // closing, and our side is shut down
  std::string topic_;      // subscribed to; empty = whole snapshots
  TokenBucket requests_{kRequestsAtOnce, kRequestsPerSecond};
};

void StatsSocket::Server::Session::start() {
  set_deadline(server_->options_.detect_timeout, &Session::begin_lines);
  read();
}

void StatsSocket::Server::Session::read() {
  socket_.async_read_some(asio::buffer(chunk_), [self = shared_from_this()](error_code error, size_t bytes) {
    if (!self->socket_.is_open()) return;  // closed while this result was on its way
    if (error == asio::error::eof)
      self->client_ended();
    else if (error)
      self->close();
    else
      self->received(bytes);
  });
}

void StatsSocket::Server::Session::received(size_t bytes) {
  if (!closing_) {
    received_.append(chunk_.data(), bytes);
    if (mode_ == Mode::undecided) decide();
    if (mode_ == Mode::http) handle_http();
    if (mode_ == Mode::lines) handle_lines();
  }
  if (socket_.is_open()) read();
}

// A client that has nothing more to say still gets what it asked for; a silent one gets `hello` and the newest snapshot.
void StatsSocket::Server::Session::client_ended() {
  if (sent_all_) return close();
  if (mode_ == Mode::undecided && !closing_) begin_lines();
  finish(false);
}

// HTTP begins with a method in capitals, which no JSON request does.
void StatsSocket::Server::Session::decide() {
  const bool capital = received_[0] >= 'A' && received_[0] <= 'Z';
  const size_t line_end = received_.find('\n');
  if (!capital) {
    begin_lines();
  } else if (line_end != std::string::npos) {
    if (is_http_request_line(std::string_view(received_).substr(0, line_end)))
      mode_ = Mode::http;
    else
      begin_lines();
  } else if (received_.size() > server_->options_.max_line_bytes) {
    begin_lines();
  }
  if (mode_ == Mode::lines || line_timer_on_) return;
  line_timer_on_ = true;
  set_deadline(server_->options_.line_timeout, &Session::line_deadline);
}

void StatsSocket::Server::Session::begin_lines() {
  mode_ = Mode::lines;
  line_timer_on_ = false;
  ++timer_generation_;
  send(server_->hello_);
  if (server_->history_.size() > 0) send(line_of(server_->history_.latest_message()));
}

void StatsSocket::Server::Session::handle_http() {
  size_t end = received_.find("\r\n\r\n");
  if (end == std::string::npos) end = received_.find("\n\n");
  if (end == std::string::npos && received_.size() <= server_->options_.max_line_bytes) return;
  const std::string answer = end == std::string::npos
                                 ? http_error("431 Request Header Fields Too Large")
                                 : http_response(received_.substr(0, end), server_->page(),
                                                 server_->history_.latest_message(), server_->own_hosts_);
  if (!answer.starts_with("HTTP/1.1 200")) ++server_->errors_;
  send(std::make_shared<const std::string>(answer));
  finish(true);
}

void StatsSocket::Server::Session::handle_lines() {
  size_t begin = 0;
  for (size_t end; !closing_ && (end = received_.find('\n', begin)) != std::string::npos; begin = end + 1) {
    std::string_view line = std::string_view(received_).substr(begin, end - begin);
    if (line.ends_with('\r')) line.remove_suffix(1);
    try {
      if (line.size() > server_->options_.max_line_bytes)
        throw RequestError("line longer than " + std::to_string(server_->options_.max_line_bytes) + " bytes");
      handle(parse_stats_request(line));
    } catch (const RequestError& error) {
      fail(error.what());
    }
    line_timer_on_ = false;
  }
  if (closing_) return received_.clear();
  received_.erase(0, begin);
  if (received_.size() > server_->options_.max_line_bytes)
    return fail("line longer than " + std::to_string(server_->options_.max_line_bytes) + " bytes");
  if (received_.empty())
    ++timer_generation_;
  else if (!line_timer_on_)
    set_deadline(server_->options_.line_timeout, &Session::line_deadline);
  line_timer_on_ = !received_.empty();
}

void StatsSocket::Server::Session::handle(const StatsRequest& request) {
  StatsHistory& history = server_->history_;
  const bool is_history = request.kind == StatsRequest::Kind::history;
  const double snapshots = is_history ? static_cast<double>(std::min<uint64_t>(request.last, history.size())) : 0;
  if (!requests_.take(1 + snapshots / kSnapshotsPerRequest, Clock::now())) throw RequestError("too many requests");
  if (!request.topic.empty() && !history.has_topic(request.topic))
    throw RequestError("no topic \"" + request.topic + "\" in the newest snapshot");
  if (is_history) {
    send(line_of(history.history_message(request, server_->options_.max_queued_bytes / 2)));
  } else if (request.kind == StatsRequest::Kind::subscribe) {
    topic_ = request.topic;
    send(line_of(subscribed_message(topic_)));
  } else {
    send(line_of(pong_message()));
  }
}

void StatsSocket::Server::Session::snapshot(const Message& stats) {
  if (mode_ != Mode::lines || closing_) return;
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

// The client sent something that is no request.
void StatsSocket::Server::Session::fail(const std::string& reason) {
  ++server_->errors_;
  refuse(reason);
}

void StatsSocket::Server::Session::refuse(const std::string& reason) {
  if (closing_) return;
  error_code ignored;
  const tcp::endpoint peer = socket_.remote_endpoint(ignored);
  server_->log_.warn("client " + (ignored ? "that is gone" : peer.address().to_string()) + " closed: " + reason);
  if (queue_.size() > 1) queue_.erase(queue_.begin() + 1, queue_.end());  // the first is under way
  queue_.push_back(line_of(error_message(reason)));
  if (queue_.size() == 1) write();
  finish(true);
}

void StatsSocket::Server::Session::finish(bool linger) {
  linger_ = linger_ && linger;
  closing_ = true;
  received_.clear();
  set_deadline(server_->options_.linger_timeout, &Session::close);
  if (queue_.empty()) written();
}

void StatsSocket::Server::Session::write() {
  asio::async_write(socket_, asio::buffer(*queue_.front()),
                    [self = shared_from_this(), message = queue_.front()](error_code error, size_t) {
                      if (error || !self->socket_.is_open()) return self->close();
                      self->queue_.pop_front();
                      self->queued_bytes_ -= std::min(self->queued_bytes_, message->size());
                      self->written();
                    });
}

void StatsSocket::Server::Session::written() {
  if (!queue_.empty()) return write();
  if (!closing_ || sent_all_) return;
  if (!linger_) return close();
  // Closing with unread bytes would reset the connection and could take the answer with it: read on until the client closes.
  sent_all_ = true;
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
}

void StatsSocket::Server::Session::close() {
  if (!socket_.is_open()) return;
  error_code ignored;
  socket_.close(ignored);
  timer_.cancel();
  closing_ = true;
  server_->remove(shared_from_this());
}

void StatsSocket::Server::Session::set_deadline(std::chrono::milliseconds time, void (Session::*action)()) {
  timer_.expires_after(time);
  timer_.async_wait([self = shared_from_this(), action, generation = ++timer_generation_](error_code error) {
    if (!error && generation == self->timer_generation_ && self->socket_.is_open()) ((*self).*action)();
  });
}

void StatsSocket::Server::Session::line_deadline() {
  if (mode_ != Mode::http) return fail("the rest of a line did not come in time");
  ++server_->errors_;
  send(std::make_shared<const std::string>(http_error("408 Request Timeout")));
  finish(true);
}

StatsSocket::Server::Server(StatsSocketOptions options)
    : options_(std::move(options)),
      history_(options_.max_snapshots, options_.max_history_bytes),
      hello_(line_of(hello_message(options_.run, options_.config))) {
  listen();
  // Signals are for the program's own threads.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void StatsSocket::Server::listen() {
  const int socket = open_listener(options_.host, options_.port);
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&bound), &size);
  acceptor_.assign(bound.ss_family == AF_INET6 ? tcp::v6() : tcp::v4(), socket);
  endpoint_ = acceptor_.local_endpoint();
  if (!endpoint_.address().is_loopback()) own_hosts_ = own_host_names();
  own_hosts_.push_back(options_.host);
}

void StatsSocket::Server::run() {
  try {
    accept();
    context_.run();
  } catch (const std::exception& error) {
    log_error(kComponent, std::string("stopped: ") + error.what());
  }
}

void StatsSocket::Server::accept() {
  acceptor_.async_accept([this](error_code error, tcp::socket socket) {
    if (stopping_) return;
    if (!error) {
      accepted(std::move(socket));
      return accept();
    }
    log_warn(kComponent, "cannot accept a client: " + error.message());
    accept_timer_.expires_after(kAcceptPause);
    accept_timer_.async_wait([this](error_code) {
      if (!stopping_) accept();
    });
  });
}

void StatsSocket::Server::accepted(tcp::socket socket) {
  ++accepted_;
  const bool refuse = sessions_.size() >= options_.max_clients;
  if (refuse) ++refused_;
  const std::string too_many = "too many clients, at most " + std::to_string(options_.max_clients);
  error_code ignored;
  if (sessions_.size() >= options_.max_clients + kMaxRefused) return turn_away(std::move(socket), too_many);
  socket.set_option(tcp::no_delay(true), ignored);
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  const auto session = std::make_shared<Session>(*this, std::move(socket));
  sessions_.insert(session);
  open_ = sessions_.size();
  session->start();
  if (refuse) session->refuse(too_many);
}

// For floods: a line fits into the empty buffer of a new connection, so it need not be waited for. What the client has sent is
// read first, because closing with unread bytes would reset the connection and could take the line with it.
void StatsSocket::Server::turn_away(tcp::socket socket, const std::string& reason) {
  error_code ended;
  socket.non_blocking(true, ended);
  socket.write_some(asio::buffer(*line_of(error_message(reason))), ended);
  if (!ended) socket.shutdown(tcp::socket::shutdown_send, ended);
  std::array<char, kReadBytes> unread;
  for (int reads = 0; !ended && reads < 16; ++reads) socket.read_some(asio::buffer(unread), ended);
}

void StatsSocket::Server::remove(const std::shared_ptr<Session>& session) {
  sessions_.erase(session);
  open_ = sessions_.size();
  if (stopping_ && sessions_.empty()) stop_timer_.cancel();
}

void StatsSocket::Server::publish(std::string snapshot) {
  const std::lock_guard guard(pending_mutex_);
  pending_.push_back(std::move(snapshot));
  if (pending_.size() > kMaxPending) {
    pending_.pop_front();
    ++skipped_;
  }
  if (pending_.size() == 1) asio::post(context_, [this] { take_published(); });
}

void StatsSocket::Server::take_published() {
  std::deque<std::string> taken;
  {
    const std::lock_guard guard(pending_mutex_);
    taken.swap(pending_);
  }
  for (const std::string& snapshot : taken) {
    if (!history_.add(snapshot)) {
      ++skipped_;
      log_error(kComponent, "a snapshot that is no JSON object was left out: " + snapshot.substr(0, 100));
      continue;
    }
    ++published_;
    const Message message = line_of(history_.latest_message());
    // A copy: a client that is dropped leaves the set.
    for (const auto& session : std::vector(sessions_.begin(), sessions_.end())) session->snapshot(message);
  }
}

void StatsSocket::Server::stop() {
  std::call_once(stop_once_, [this] {
    asio::post(context_, [this] { begin_stop(); });
    if (thread_.joinable()) thread_.join();
  });
}

void StatsSocket::Server::begin_stop() {
  stopping_ = true;
  error_code ignored;
  acceptor_.close(ignored);
  accept_timer_.cancel();
  for (const auto& session : std::vector(sessions_.begin(), sessions_.end())) session->finish(false);
  if (sessions_.empty()) return;
  stop_timer_.expires_after(kStopTime);
  stop_timer_.async_wait([this](error_code) {
    for (const auto& session : std::vector(sessions_.begin(), sessions_.end())) session->close();
  });
}

StatsSocket::Counters StatsSocket::Server::counters() const {
  return {accepted_, refused_, errors_, slow_, open_, published_, skipped_};
}

std::string StatsSocket::Server::page() const {
  const std::string port = std::to_string(endpoint_.port());
  return "troupe run: " + options_.run +
         "\n\nThe newest statistics as JSON:  /stats\nA stream of them, one JSON object per line:\n\n  nc " +
         endpoint_.address().to_string() + ' ' + port + "\n";
}

StatsSocket::StatsSocket(StatsSocketOptions options) : server_(std::make_unique<Server>(std::move(options))) {}
StatsSocket::~StatsSocket() = default;

uint16_t StatsSocket::port() const { return server_->endpoint().port(); }
std::string StatsSocket::address() const { return text_of(server_->endpoint()); }
void StatsSocket::publish(std::string snapshot) { server_->publish(std::move(snapshot)); }
void StatsSocket::stop() { server_->stop(); }
StatsSocket::Counters StatsSocket::counters() const { return server_->counters(); }

}  // namespace troupe
