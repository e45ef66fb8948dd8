// The thread on which the port of `troupe dash` works on requests for data.

#include <atomic>
#include <chrono>
#include <future>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "tests/runtime/stats/stats_socket.h"

using namespace troupe;
using namespace troupe::test;

namespace {

std::string get(const std::string& path) { return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n\r\n"; }

// A port whose page /data/slow is answered once let_end() has been called, and tells when it is worked on.
struct SlowData {
  std::promise<void> begun, ended;
  std::shared_future<void> end = ended.get_future().share();
  std::atomic<int> asked{0};
  bool may_end = false;
  OpenSocket socket;

  explicit SlowData(size_t max_clients = 64) : socket(options(max_clients)) {}
  ~SlowData() { let_end(); }
  StatsSocketOptions options(size_t max_clients) {
    StatsSocketOptions options = quick_options();
    options.max_clients = max_clients;
    options.data = [this](std::string_view target) -> HttpData {
      ++asked;
      if (target == "/data/broken") throw std::runtime_error("out of order");
      if (target == "/data/slow") {
        begun.set_value();
        end.wait();
      }
      return {.body = "\"" + std::string(target) + "\""};
    };
    return options;
  }
  void let_end() {
    if (!std::exchange(may_end, true)) ended.set_value();
  }
  // Asks another page over a new connection. What has come before on other connections has been read at its answer.
  bool serves() {
    StatsClient health(socket.server);
    health.send(get("/health"));
    return health.line() == "HTTP/1.1 200 OK\r";
  }
  // Waits until so many connections are open, of so many that were accepted.
  bool has_open(uint64_t open, uint64_t accepted) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    const auto are_open = [&] {
      const StatsSocket::Counters now = socket.server.counters();
      return now.accepted == accepted && now.open == open;
    };
    while (!are_open() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return are_open();
  }
};

}  // namespace

TEST_CASE("stats socket: a request for data that takes long keeps no other page waiting") {
  SlowData data;
  StatsClient slow(data.socket.server);
  slow.send(get("/data/slow"));
  data.begun.get_future().wait();
  CHECK(data.serves());
  data.let_end();
  CHECK(slow.line() == "HTTP/1.1 200 OK\r");
}

TEST_CASE("stats socket: requests for data are answered one after the other") {
  SlowData data;
  StatsClient slow(data.socket.server), next(data.socket.server);
  slow.send(get("/data/slow"));
  data.begun.get_future().wait();
  next.send(get("/data/next"));
  CHECK(data.serves());
  CHECK(data.asked == 1);
  data.let_end();
  CHECK(next.line() == "HTTP/1.1 200 OK\r");
}

TEST_CASE("stats socket: a client that has ended its side still gets the data, once") {
  SlowData data;
  StatsClient client(data.socket.server);
  client.send(get("/data/slow") + get("/data/slow"));  // what comes after a request is left out
  client.end_sending();
  data.begun.get_future().wait();
  CHECK(data.serves());  // the end of the other side has been seen before this answer
  data.let_end();
  CHECK(client.line() == "HTTP/1.1 200 OK\r");
  CHECK(data.asked == 1);
}

TEST_CASE("stats socket: nothing is read for a client that was reset while it waited") {
  SlowData data;
  StatsClient slow(data.socket.server), gone(data.socket.server);
  slow.send(get("/data/slow"));
  data.begun.get_future().wait();
  gone.send(get("/data/gone"));
  CHECK(data.serves());
  gone.reset();
  StatsClient last(data.socket.server);
  last.send(get("/data/last"));
  REQUIRE(data.has_open(2, 4));
  data.let_end();
  CHECK(last.line() == "HTTP/1.1 200 OK\r");
  CHECK(data.asked == 2);
}

TEST_CASE("stats socket: requests that wait are limited, also those of clients that are gone") {
  SlowData data(3);
  StatsClient slow(data.socket.server);
  slow.send(get("/data/slow"));
  data.begun.get_future().wait();
  for (const uint64_t accepted : {3, 5}) {
    StatsClient gone(data.socket.server);
    gone.send(get("/data/gone"));
    CHECK(data.serves());
    gone.reset();
    REQUIRE(data.has_open(1, accepted));
  }
  StatsClient beyond(data.socket.server);
  beyond.send(get("/data/beyond"));
  const std::string refused = beyond.rest();
  CHECK(refused.starts_with("HTTP/1.1 503 Service Unavailable\r"));
  CHECK(refused.find("too many requests are waiting for an answer") != std::string::npos);
  data.let_end();
  CHECK(slow.line() == "HTTP/1.1 200 OK\r");
  StatsClient next(data.socket.server);
  next.send(get("/data/next"));
  CHECK(next.line() == "HTTP/1.1 200 OK\r");
  CHECK(data.asked == 2);
}

TEST_CASE("stats socket: an error of a page is an answer, and the port goes on") {
  SlowData data;
  StatsClient broken(data.socket.server);
  broken.send(get("/data/broken"));
  CHECK(broken.line() == "HTTP/1.1 500 Internal Server Error\r");
  StatsClient next(data.socket.server);
  next.send(get("/data/next"));
  CHECK(next.rest().starts_with("HTTP/1.1 200 OK\r"));
}

TEST_CASE("stats socket: it stops while a request for data waits for another one") {
  SlowData data;
  StatsClient slow(data.socket.server), next(data.socket.server);
  slow.send(get("/data/slow"));
  data.begun.get_future().wait();
  next.send(get("/data/next"));
  CHECK(data.serves());
  std::thread ending([&] { data.socket.server.stop(); });
  CHECK(next.line().empty());  // closed, while the other one is worked on
  data.let_end();
  ending.join();
  CHECK(data.asked == 1);
}
