#include "runtime/stats/socket.h"

#include <pthread.h>
#include <signal.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

#include "runtime/base/address.h"
#include "runtime/base/file.h"
#include "runtime/base/listener.h"
#include "runtime/base/log.h"
#include "runtime/base/machine.h"
#include "runtime/stats/socket_server.h"

namespace troupe {

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr size_t kMaxPending = 16;                      // published snapshots that the thread has not taken yet
constexpr size_t kMaxRefused = 256;                     // clients beyond max_clients that get time to read an error
constexpr std::chrono::milliseconds kStopTime{500};     // for clients to read what is queued at the end
constexpr std::chrono::milliseconds kAbortTime{200};    // after that, for operations on closed connections to end
constexpr std::chrono::milliseconds kAcceptPause{200};  // after accept() failed, as when no descriptors are left

std::string text_of(const tcp::endpoint& endpoint) {
  return address_text(endpoint.address().to_string(), endpoint.port());
}

}  // namespace

StatsSocket::Server::Server(StatsSocketOptions options)
    : options_(std::move(options)),
      history_(options_.max_snapshots, options_.max_history_bytes),
      hello_(
          line_of(hello_message(options_.run, options_.config, options_.defaults, options_.started, options_.name))) {
  listen();
  pages_.text = text_page();
  pages_.html_gz = options_.page_gz;
  pages_.data = options_.data;
  pages_.log = options_.log;
  pages_.stats = [this] { return history_.latest_message(); };
  pages_.figures = options_.figures;
  pages_.metrics = [this](bool open_metrics) { return history_.metrics(options_.metrics, open_metrics); };
  // Signals are for the program's own threads.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  if (options_.data) data_thread_ = std::make_unique<asio::thread_pool>(1);
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
  if (!endpoint_.address().is_loopback()) pages_.own_hosts = own_host_names();
  pages_.own_hosts.push_back(options_.host);
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
    log_.warn("cannot accept a client: " + error.message());
    accept_timer_.expires_after(kAcceptPause);
    accept_timer_.async_wait([this](error_code) {
      if (!stopping_) accept();
    });
  });
}

void StatsSocket::Server::accepted(tcp::socket socket) {
  ++accepted_;
  const size_t files = raise_open_files() / 4;  // the rest is for the run
  const size_t most = std::min(options_.max_clients, files);
  // A client that was refused and lingers takes no one's place.
  const auto served = std::ranges::count_if(sessions_, [](const auto& session) { return !session->refused(); });
  const bool refuse = static_cast<size_t>(served) >= most && !close_oldest_silent();
  if (refuse) ++refused_;
  const std::string too_many = "too many clients, at most " + std::to_string(most);
  error_code ignored;
  if (sessions_.size() >= std::min(most + kMaxRefused, files)) return turn_away(std::move(socket), too_many);
  ignored = socket.set_option(tcp::no_delay(true), ignored);
  ignored = socket.set_option(asio::socket_base::keep_alive(true), ignored);
  const auto session = std::make_shared<Session>(*this, std::move(socket), refuse ? too_many : "");
  sessions_.push_back(session);
  open_ = sessions_.size();
  session->start();
}

// Clients that say nothing cannot keep others out: /health has to answer a launcher whoever else is connected.
bool StatsSocket::Server::close_oldest_silent() {
  const auto oldest = std::ranges::find_if(sessions_, [](const auto& session) { return session->silent(); });
  if (oldest == sessions_.end()) return false;
  ++displaced_;
  const std::shared_ptr<Session> session = *oldest;
  session->close();
  return true;
}

// Refuses a client without waiting, for floods of connections: the answer fits into the empty buffer of a new
// connection. What the client has sent is read first, for two reasons: it says whether to answer in HTTP or JSON, and a
// connection that is closed with unread bytes is reset, so that the client could lose the answer.
void StatsSocket::Server::turn_away(tcp::socket socket, const std::string& reason) {
  error_code ended;
  ended = socket.non_blocking(true, ended);
  std::array<char, kReadBytes> unread;
  std::string begin;
  for (int reads = 0; !ended && reads < 16; ++reads) {
    const size_t bytes = socket.read_some(asio::buffer(unread), ended);
    if (begin.empty()) begin.assign(unread.data(), bytes);
  }
  if (begin.empty()) return;
  socket.write_some(asio::buffer(*refusal(may_be_http(begin[0]), reason)), ended);
  if (!ended) ended = socket.shutdown(tcp::socket::shutdown_send, ended);
}

void StatsSocket::Server::remove(const std::shared_ptr<Session>& session) {
  std::erase(sessions_, session);
  open_ = sessions_.size();
  if (stopping_ && sessions_.empty()) stop_timer_.cancel();
}

void StatsSocket::Server::answer_data(std::shared_ptr<Session> session, std::string head) {
  // Clients that ask and close at once are not counted among the clients.
  if (data_requests_ >= options_.max_clients)
    return session->answered(http_error("503 Service Unavailable", "too many requests are waiting for an answer"));
  ++data_requests_;
  asio::post(*data_thread_, [this, session = std::move(session), head = std::move(head)]() mutable {
    std::string answer;
    try {
      if (!session->is_closed()) answer = http_response(head, pages_);
    } catch (const std::exception& error) {
      log_error(kComponent, std::string("a request failed: ") + error.what());
      answer = http_error("500 Internal Server Error", error.what());
    }
    // The session is handed over with it: only the thread of the port may destroy it.
    asio::post(context_, [this, session = std::move(session), answer = std::move(answer)] {
      --data_requests_;
      session->answered(answer);
    });
  });
}

void StatsSocket::Server::publish(std::string snapshot) {
  const MutexLock guard(pending_mutex_);
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
    const MutexLock guard(pending_mutex_);
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
    if (!data_thread_) return;
    data_thread_->stop();
    data_thread_->join();
  });
}

void StatsSocket::Server::begin_stop() {
  stopping_ = true;
  error_code ignored;
  ignored = acceptor_.close(ignored);
  accept_timer_.cancel();
  for (const auto& session : std::vector(sessions_.begin(), sessions_.end())) session->finish(false);
  if (sessions_.empty()) return;
  stop_timer_.expires_after(kStopTime);
  stop_timer_.async_wait([this](error_code cancelled) {
    if (cancelled) return;
    for (const auto& session : std::vector(sessions_.begin(), sessions_.end())) session->close();
    // The run ends even if an operation of a client never completes.
    stop_timer_.expires_after(kAbortTime);
    stop_timer_.async_wait([this](error_code) { context_.stop(); });
  });
}

StatsSocket::Counters StatsSocket::Server::counters() const {
  return {accepted_, refused_, displaced_, errors_, slow_, open_, published_, skipped_};
}

std::string StatsSocket::Server::text_page() const {
  const std::string address = text_of(endpoint_);
  if (options_.data) return "troupe dash\n\nOpen http://" + address + "/ in a browser, or read /data/runs, JSON.\n";
  return "troupe run: " + options_.run + "\n\nOpen http://" + address +
         "/ in a browser, or read:\n\n"
         "  /stats    the newest figures, JSON\n"
         "  /metrics  the same for Prometheus\n"
         "  /figures.json  what each figure means, JSON\n"
         "  /stream   a WebSocket with all of them\n\n"
         "A stream without HTTP, one JSON object per line, which begins when you press Enter:\n\n  nc " +
         endpoint_.address().to_string() + ' ' + std::to_string(endpoint_.port()) + "\n";
}

StatsSocket::StatsSocket(StatsSocketOptions options) : server_(std::make_unique<Server>(std::move(options))) {}
StatsSocket::~StatsSocket() = default;

uint16_t StatsSocket::port() const { return server_->endpoint().port(); }
std::string StatsSocket::address() const { return text_of(server_->endpoint()); }
void StatsSocket::publish(std::string snapshot) { server_->publish(std::move(snapshot)); }
void StatsSocket::stop() { server_->stop(); }
StatsSocket::Counters StatsSocket::counters() const { return server_->counters(); }

}  // namespace troupe
