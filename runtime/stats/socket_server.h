#pragma once
// The inside of StatsSocket: the server, which owns the thread, and its clients' sessions. Internal to socket*.

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/limited_log.h"
#include "runtime/base/mutex.h"
#include "runtime/base/token_bucket.h"
#include "runtime/stats/http.h"
#include "runtime/stats/protocol.h"
#include "runtime/stats/socket.h"

namespace troupe {

// All that is shared by the clients; everything but what says otherwise is touched by the socket's thread alone.
class StatsSocket::Server {
 public:
  using tcp = boost::asio::ip::tcp;
  using Message = std::shared_ptr<const std::string>;

  explicit Server(StatsSocketOptions options);
  ~Server() { stop(); }

  void publish(std::string snapshot);  // any thread
  void stop();                         // any thread
  tcp::endpoint endpoint() const { return endpoint_; }
  Counters counters() const;  // any thread

 private:
  class Session;

  static constexpr const char* kComponent = "stats socket";
  static constexpr size_t kReadBytes = 4096;
  static constexpr double kRequestsAtOnce = 20;     // requests one client may send at once,
  static constexpr double kRequestsPerSecond = 10;  // and in the long run

  static Message line_of(std::string message) { return std::make_shared<const std::string>(std::move(message) + '\n'); }
  // HTTP begins with a method in capitals, which no JSON request does.
  static bool may_be_http(char first) { return first >= 'A' && first <= 'Z'; }
  // The last message to a client that is refused.
  static Message refusal(bool http, const std::string& reason);

  void listen();
  void run();
  void accept();
  void accepted(tcp::socket socket);
  // Closes the client that has been silent for longest, and returns whether there was one.
  bool close_oldest_silent();
  void turn_away(tcp::socket socket, const std::string& reason);
  void take_published();
  void begin_stop();
  void remove(const std::shared_ptr<Session>& session);
  // Answers a request for data on the thread for these, so that others are answered meanwhile.
  void answer_data(std::shared_ptr<Session> session, std::string head);
  std::string text_page() const;

  const StatsSocketOptions options_;
  boost::asio::io_context context_{1};
  tcp::acceptor acceptor_{context_};
  boost::asio::steady_timer accept_timer_{context_};
  boost::asio::steady_timer stop_timer_{context_};
  tcp::endpoint endpoint_;
  StatsHistory history_;
  Message hello_;
  HttpPages pages_;
  LimitedLog log_{kComponent};
  std::vector<std::shared_ptr<Session>> sessions_;  // in the order in which they came
  bool stopping_ = false;
  size_t data_requests_ = 0;                               // that are not answered yet
  std::unique_ptr<boost::asio::thread_pool> data_thread_;  // if there is data

  Mutex pending_mutex_;
  std::deque<std::string> pending_ TROUPE_GUARDED_BY(pending_mutex_);
  std::once_flag stop_once_;
  std::atomic<uint64_t> accepted_{0}, refused_{0}, displaced_{0}, errors_{0}, slow_{0}, open_{0}, published_{0},
      skipped_{0};
  std::thread thread_;
};

// One connection. It is undecided, and nothing is sent, until its first line tells whether it speaks HTTP or JSON. An
// HTTP request can make it a WebSocket (socket_websocket.cpp), which carries the same messages, one in each frame.
class StatsSocket::Server::Session : public std::enable_shared_from_this<Session> {
 public:
  // With a reason in `refused` the client gets that instead of an answer.
  Session(Server& server, tcp::socket socket, std::string refused)
      : server_(&server), socket_(std::move(socket)), timer_(socket_.get_executor()), refused_(std::move(refused)) {}

  void start();
  // Whether it is a client beyond the limit.
  bool refused() const { return !refused_.empty(); }
  // Whether it may have a place that others can take: nothing has come from it, and it was not refused.
  bool silent() const;
  // Tells the client why, and closes once it has read that, or did not in time.
  void refuse(const std::string& reason);
  // The newest snapshot, if this client is to have it. `stats` is the message for those who have all.
  void snapshot(const Message& stats);
  // Closes after what is queued has been sent. `linger`: wait for the client to close first, so that it gets all.
  void finish(bool linger);
  void close();
  // Sends the answer to the HTTP request, and closes.
  void answered(const std::string& answer);
  // Whether it was closed, so that no answer is needed; any thread.
  bool is_closed() const { return closed_; }

 private:
  enum class Mode : uint8_t { undecided, http, lines, websocket };
  // The frames of a WebSocket. Boost.Beast, which makes them, takes long to compile, so it is in socket_websocket.cpp.
  struct Frames {
    virtual ~Frames() = default;
    // Calls written() at the end.
    virtual void write(Message message) = 0;
    // Closes the WebSocket, then the session.
    virtual void end() = 0;
  };
  class WebSocket;

  void read();
  void received(size_t bytes);
  void decide();
  void begin_lines();
  void handle_http();
  void handle_lines();
  void handle(std::string_view line);
  void begin_websocket(const std::string& head);
  void send(Message message);
  void fail(const std::string& reason);
  void write();
  void written(boost::system::error_code error);
  void flush();
  void set_deadline(std::chrono::milliseconds time, std::function<void()> action);
  void line_deadline();

  Server* server_;
  tcp::socket socket_;
  std::unique_ptr<Frames> websocket_;  // over socket_
  boost::asio::steady_timer timer_;
  uint64_t timer_generation_ = 0;
  const std::string refused_;
  bool heard_ = false;  // its first bytes have come
  Mode mode_ = Mode::undecided;
  std::array<char, kReadBytes> chunk_;
  std::string received_;  // bytes that are not handled yet
  bool line_timer_on_ = false;
  std::deque<Message> queue_;  // the first is being written
  size_t queued_bytes_ = 0;
  bool closing_ = false;  // nothing more is handled or queued
  std::atomic<bool> closed_ = false;
  bool answering_ = false;  // another thread works on the answer; meanwhile what comes is not read on
  bool linger_ = true;
  bool sent_all_ = false;  // closing, and our side is shut down
  std::string topic_;      // subscribed to; empty = whole snapshots
  TokenBucket requests_{kRequestsAtOnce, kRequestsPerSecond};
};

}  // namespace troupe
