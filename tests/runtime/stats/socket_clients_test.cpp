#include "runtime/stats/socket.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/base/rng.h"
#include "runtime/stats/protocol.h"
#include "tests/runtime/stats/stats_client.h"
#include "tests/runtime/stats/stats_socket.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

namespace {

// A snapshot with `figures` figures a0, a1, ... of typical length.
std::string wide_snapshot(int n, int figures) {
  json snapshot{{"n", n}};
  for (int i = 0; i < figures; ++i) snapshot["a" + std::to_string(i)] = 1.0 / (n + i + 1);
  return snapshot.dump();
}

bool answers_health(const StatsSocket& server) {
  StatsClient client(server);
  client.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  return client.rest().ends_with("\r\n\r\nok\n");
}

std::vector<std::unique_ptr<StatsClient>> connect(const StatsSocket& server, size_t count) {
  std::vector<std::unique_ptr<StatsClient>> clients;
  for (size_t i = 0; i < count; ++i) clients.push_back(std::make_unique<StatsClient>(server));
  return clients;
}

}  // namespace

TEST_CASE("stats_socket: a client that says nothing is told nothing, and closed when its time has passed, not before") {
  constexpr auto kTime = 100ms;
  OpenSocket f({.run = "demo", .silence_timeout = kTime});
  const auto begin = std::chrono::steady_clock::now();
  StatsClient silent(f.server);
  f.server.publish(kSnapshot);
  CHECK(silent.rest() == "");
  CHECK(std::chrono::steady_clock::now() - begin >= kTime);
  CHECK(f.server.counters().errors == 0);
  StatsClient listens(f.server);
  CHECK(listens.greeting()["type"] == "hello");
  CHECK(listens.message()["type"] == "stats");
  CHECK(StatsClient(f.server).rest() == "");  // by then the one that listens would be closed, too
  f.server.publish(kSnapshot);
  CHECK(listens.message()["sequence"] == 2);
}

TEST_CASE("stats_socket: a page that is opened after 22 hours gets the whole curve within a second") {
  OpenSocket f({.run = "demo"});
  constexpr int kFigures = 45, kSnapshots = 40'000;  // one every 2 s
  for (int n = 1; n <= kSnapshots; ++n) {
    const bool kept = n % 16 == 0 || n > kSnapshots - 2000;  // the others do not need all figures
    f.server.publish(wide_snapshot(n, kept ? kFigures : 1));
    while (f.server.counters().published < static_cast<uint64_t>(n)) std::this_thread::yield();
  }
  json topics{"n"};
  for (int i = 0; i < kFigures; ++i) topics.push_back("a" + std::to_string(i));
  const auto begin = std::chrono::steady_clock::now();
  StatsClient client(f.server);
  client.send("{\"type\":\"metrics\"}\n");
  for (const char* type : {"hello", "stats", "metrics"}) REQUIRE(client.message()["type"] == type);
  std::vector<int> points;
  for (size_t available = 1; points.size() < available;) {
    json request{{"type", "history"}, {"topics", topics}, {"last", 100'000}};
    if (!points.empty()) request["before"] = points.front();
    client.send(request.dump() + '\n');
    const json reply = client.message();
    REQUIRE_MESSAGE(reply["type"] == "history", reply.dump().substr(0, 200));
    REQUIRE(!reply["points"].empty());
    available = reply["available"];
    std::vector<int> older;
    for (const json& point : reply["points"]) older.push_back(point[1][0]);
    points.insert(points.begin(), older.begin(), older.end());
  }
  CHECK(std::chrono::steady_clock::now() - begin < 1s);
  CHECK(points.front() <= 256);
  CHECK(points.back() == kSnapshots);
  CHECK(points.size() > 4000);
  CHECK(std::is_sorted(points.begin(), points.end()));
}

TEST_CASE_FIXTURE(OpenSocket, "stats_socket: only the history that is sent is charged, and too much of it is refused") {
  for (int n = 1; n <= 2000; ++n) {
    server.publish(kSnapshot);
    while (server.counters().published < static_cast<uint64_t>(n)) std::this_thread::yield();
  }
  const auto last_of = [&](int last) {
    StatsClient client(server);
    for (int i = 0; i < 15; ++i)
      client.send(R"({"type":"history","topic":"env_steps","last":)" + std::to_string(last) + "}\n");
    client.send("{\"type\":\"ping\"}\n");
    json message = client.message();
    while (message["type"] != "pong" && message["type"] != "error") message = client.message();
    return message;
  };
  CHECK(last_of(1)["type"] == "pong");
  CHECK(last_of(2000)["reason"] == "too many requests");
}

TEST_CASE_FIXTURE(OpenSocket,
                  "stats_socket: of 500 clients 64 are served, the others get an error, until served ones leave") {
  {
    std::vector<std::unique_ptr<StatsClient>> clients;
    for (int i = 0; i < 500; ++i) {
      clients.push_back(std::make_unique<StatsClient>(server));
      REQUIRE(clients.back()->connected());
      if (i < 64) CHECK(clients.back()->greeting()["type"] == "hello");
      if (i % 2 == 1) clients.back()->send("{\"type\":\"ping\"}\n");
    }
    while (server.counters().accepted < 500) std::this_thread::yield();
    const std::string reason = "too many clients, at most 64";
    for (size_t i = 64; i < 64 + 256; ++i) {
      if (i % 2 == 0) clients[i]->send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
      if (i % 2 == 1) CHECK(clients[i]->closing_error() == reason);
      if (i % 2 == 0) CHECK(clients[i]->rest().ends_with("\r\n\r\n503 Service Unavailable: " + reason + '\n'));
    }
    // More are not waited for: they get the error if their request was there when they were accepted.
    for (size_t i = 64 + 256; i < clients.size(); ++i) {
      const std::string end = clients[i]->rest();
      CHECK((end.empty() || (i % 2 == 1 && json::parse(end)["reason"] == reason)));
    }
    CHECK(server.counters().refused == 500 - 64);
    server.publish(kSnapshot);
    for (size_t i = 0; i < 64; i += 2) CHECK(clients[i]->message()["type"] == "stats");
  }
  CHECK(all_gone(500));
  CHECK(still_serves() == "pong");
}

TEST_CASE_FIXTURE(OpenSocket,
                  "stats_socket: clients that say nothing keep no other client out, however many there are") {
  StatsClient listens(server);
  REQUIRE(listens.greeting()["type"] == "hello");
  for (const size_t silent : {64, 400}) {
    const auto clients = connect(server, silent);
    for (int i = 0; i < 3; ++i) CHECK(answers_health(server));
    CHECK(still_serves() == "pong");
    CHECK(clients.front()->rest() == "");           // the oldest silent one is closed, without a message
    clients.back()->send("{\"type\":\"ping\"}\n");  // the newest one is not
    CHECK(clients.back()->message()["type"] == "hello");
  }
  CHECK(server.counters().refused == 0);
  CHECK(server.counters().open <= 64);
  server.publish(kSnapshot);
  CHECK(listens.message()["type"] == "stats");
}

TEST_CASE_FIXTURE(OpenSocket, "stats_socket: a client that has sent something is never closed for another one") {
  auto clients = connect(server, 64);
  for (size_t i = 0; i < 64; ++i) clients[i]->send(i % 2 == 0 ? "{\"ty" : "\n");
  // Each of them is accepted, and its bytes are there, before the next client comes.
  for (size_t i = 1; i < 64; i += 2) REQUIRE(clients[i]->message()["type"] == "hello");
  const auto silent = connect(server, 400);
  CHECK_FALSE(answers_health(server));
  for (size_t i = 0; i < 64; i += 2) {
    clients[i]->send("pe\":\"ping\"}\n");
    CHECK(clients[i]->message()["type"] == "hello");
    CHECK(clients[i]->message()["type"] == "pong");
  }
  CHECK(server.counters().displaced == 0);
  // The place of one that leaves is free at once, although refused clients still linger.
  const uint64_t open = server.counters().open;
  clients.front()->reset();
  while (server.counters().open == open) std::this_thread::yield();
  CHECK(answers_health(server));
}

TEST_CASE_FIXTURE(OpenSocket, "stats_socket: requests that come just before a flood of silent clients are answered") {
  for (int round = 0; round < 10; ++round) {
    auto asks = connect(server, 0);
    std::vector<std::vector<std::unique_ptr<StatsClient>>> floods;
    for (int i = 0; i < 3; ++i) {
      asks.push_back(std::make_unique<StatsClient>(server));
      asks.back()->send("GET /health HTTP/1.1\r\n\r\n");
      floods.push_back(connect(server, 130));
      for (const auto& client : floods.back()) client->end_sending();
    }
    for (const auto& client : asks) CHECK(client->rest().ends_with("\r\n\r\nok\n"));
  }
}

TEST_CASE("stats_socket: stop ends in time while silent clients take each other's places") {
  OpenSocket f({.run = "demo", .silence_timeout = 1h});
  std::atomic<bool> stop = false;
  std::thread flood([&] {
    while (!stop) connect(f.server, 100);
  });
  while (f.server.counters().displaced < 400) std::this_thread::yield();
  const auto begin = std::chrono::steady_clock::now();
  f.server.stop();
  CHECK(std::chrono::steady_clock::now() - begin < 900ms);
  CHECK(f.server.counters().open == 0);
  stop = true;
  flood.join();
}

TEST_CASE("stats_socket: a client that does not read is disconnected with an error, the others get every snapshot") {
  StatsSocketOptions options = quick_options();
  options.max_queued_bytes = 256 << 10;
  options.linger_timeout = 60s;  // so that a busy machine leaves the client enough time to read the error
  OpenSocket f(options);
  StatsClient slow(f.server, 4096), reader(f.server);
  CHECK(slow.greeting()["type"] == "hello");
  CHECK(reader.greeting()["type"] == "hello");
  const std::string snapshot = "{\"x\":\"" + std::string(100'000, 'x') + "\"}";
  int64_t published = 0;
  while (f.server.counters().slow == 0 && published < 1000) {
    f.server.publish(snapshot);
    REQUIRE(reader.message()["sequence"] == ++published);
  }
  CHECK(f.server.counters().slow == 1);
  CHECK(published < 1000);
  CHECK(slow.closing_error().starts_with("too slow: "));
}
