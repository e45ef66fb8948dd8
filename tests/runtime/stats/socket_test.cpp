#include "runtime/stats/socket.h"

#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/base/rng.h"
#include "runtime/stats/protocol.h"
#include "tests/runtime/stats/stats_client.h"
#include "tests/support/run_program.h"
#include "tests/support/test.h"

using namespace troupe;
using nlohmann::json;
using namespace std::chrono_literals;

namespace {

constexpr const char* kSnapshot = R"({"env_steps":7,"lag":{"p95":1}})";

StatsSocketOptions quick_options() {
  StatsSocketOptions options;
  options.run = "demo";
  options.config = R"({"seed":5})";
  return options;
}

// A server whose log goes to memory.
struct Fixture {
  explicit Fixture(StatsSocketOptions options = quick_options()) : server(std::move(options)) {}

  // Sends a ping over a new connection. "pong" if it is answered.
  std::string still_serves() {
    StatsClient client(server);
    client.send("{\"type\":\"ping\"}\n");
    while (true) {
      const json message = client.message();
      if (message.is_null()) return "closed";
      if (message["type"] == "pong") return "pong";
    }
  }
  // Waits until the server has accepted `clients` connections since its start and none is open.
  bool all_gone(uint64_t clients) {
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    const auto gone = [&] { return server.counters().accepted == clients && server.counters().open == 0; };
    while (!gone() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return gone();
  }

  QuietLog quiet;
  StatsSocket server;
};

std::string file_text(const std::string& path) { return posix_disk().read(path); }

// The bodies of the fenced blocks of a page that begin with "```<kind>".
std::vector<std::string> blocks_of(const std::string& page, const std::string& kind) {
  std::vector<std::string> blocks;
  const std::string fence = "\n```" + kind + '\n';
  for (size_t at = page.find(fence); at != std::string::npos; at = page.find(fence, at + 1)) {
    const size_t begin = at + fence.size();
    blocks.push_back(page.substr(begin, page.find("```\n", begin) - begin));
  }
  return blocks;
}

}  // namespace

TEST_CASE_FIXTURE(Fixture,
                  "stats_socket: with port 0 it listens on a free port of the loopback interface and reports it") {
  CHECK(server.port() > 0);
  CHECK(server.address() == "127.0.0.1:" + std::to_string(server.port()));
}

TEST_CASE_FIXTURE(Fixture, "stats_socket: the error about a port in use has the address and the reason") {
  StatsSocketOptions options;
  options.port = server.port();
  const std::string expected =
      server.address() +
      ": cannot listen: another program listens on this port; choose another one, or 0 for any free one";
  CHECK_THROWS_WITH_AS(StatsSocket{options}, expected.c_str(), IoError);
  options.host = "no.such.host.invalid";
  const std::string unknown =
      "no.such.host.invalid:" + std::to_string(server.port()) + ": cannot listen: the host name cannot be resolved";
  CHECK_THROWS_WITH_AS(StatsSocket{options}, unknown.c_str(), IoError);
}

TEST_CASE_FIXTURE(Fixture, "stats_socket: a client that sends an empty line gets hello, then each snapshot") {
  StatsClient client(server);
  CHECK(client.greeting() ==
        json::parse(
            R"({"type":"hello","protocol":2,"program":"troupe","run":"demo","config":{"seed":5},"defaults":{}})"));
  for (int i = 1; i <= 3; ++i) {
    server.publish(kSnapshot);
    const json stats = client.message();
    CHECK(stats["sequence"] == i);
    CHECK(stats["stats"]["env_steps"] == 7);
  }
}

TEST_CASE_FIXTURE(Fixture, "stats_socket: a client that connects later gets the newest snapshot immediately") {
  server.publish(kSnapshot);
  CHECK(still_serves() == "pong");
  StatsClient client(server);
  CHECK(client.greeting()["type"] == "hello");
  CHECK(client.message()["sequence"] == 1);
}

TEST_CASE_FIXTURE(Fixture, "stats_socket: requests are answered in order, also with CRLF and byte by byte") {
  server.publish(kSnapshot);
  StatsClient client(server);
  for (const char c : std::string("{\"type\":\"ping\"}\r\n")) client.send({&c, 1});
  client.send(
      "{\"type\":\"history\",\"topic\":\"lag.p95\",\"last\":5}\n{\"type\":\"subscribe\",\"topic\":\"env_steps\"}\n");
  CHECK(client.message()["type"] == "hello");
  CHECK(client.message()["type"] == "stats");
  CHECK(client.message()["type"] == "pong");
  CHECK(client.message()["points"].dump() == "[[1,1]]");
  CHECK(client.message() == json::parse(R"({"type":"subscribed","topic":"env_steps"})"));
  server.publish(R"({"env_steps":8})");
  CHECK(client.message() == json::parse(R"({"type":"topic","topic":"env_steps","sequence":2,"value":8})"));
  server.publish(R"({"other":8})");
  CHECK(client.message()["value"].is_null());
}

TEST_CASE_FIXTURE(Fixture, "stats_socket: a client that has closed its sending side gets what it has asked for") {
  server.publish(kSnapshot);
  CHECK(still_serves() == "pong");
  StatsClient silent(server), client(server), http(server);
  silent.end_sending();
  CHECK(silent.rest() == "");
  client.send("\r\n");
  client.end_sending();
  CHECK(client.message()["type"] == "hello");
  CHECK(client.message()["type"] == "stats");
  CHECK(client.message().is_null());
  http.send("GET /health HTTP/1.1\r\n\r\n");
  http.end_sending();
  CHECK(http.rest().ends_with("\r\n\r\nok\n"));
}

TEST_CASE_FIXTURE(Fixture, "stats_socket: empty lines between requests are not answered") {
  StatsClient client(server);
  client.send("\n\n{\"type\":\"ping\"}\n\r\n{\"type\":\"ping\"}\n");
  for (const char* type : {"hello", "pong", "pong"}) CHECK(client.message()["type"] == type);
}

TEST_CASE_FIXTURE(Fixture, "stats_socket: an invalid request ends the connection with one error") {
  server.publish(kSnapshot);
  const std::pair<std::string, std::string> cases[] = {
      {"garbage\n", "request:1:1: not valid JSON"},
      {" \n", "request: is empty"},
      {std::string("\x16\x03\x01\x02\x00\x01\x00\n", 8), "request:1:5: not valid JSON"},  // the start of TLS
      {std::string("\0\0\0\0\n", 5), "request:1:1: not valid JSON"},
      {"GET\n", "request:1:1: not valid JSON"},  // nearly HTTP
      {"SSH-2.0-OpenSSH_9.2\r\n", "request:1:1: not valid JSON"},
      {"{\"type\":\"subscribe\",\"topic\":\"\xff\"}\n", "request:1:30: not valid JSON"},
      {"{\"type\":\"history\",\"last\":-1}\n", "last is not a whole number"},
      {"{\"type\":\"stop\"}\n", "unknown type \"stop\""},
      {"{\"type\":\"ping\"}{\"type\":\"ping\"}\n", "request:1:16: not valid JSON"},
      {"{\"type\":\"subscribe\",\"topic\":\"laag\"}\n", "no topic \"laag\" in the newest snapshot"},
      {std::string(60'000, '[') + '\n', "request: nested deeper than 32 levels"},
      {std::string(1 << 20, 'x'), "line longer than 65536 bytes"},
      {std::string(1 << 20, 'G'), "line longer than 65536 bytes"},
      {'{' + std::string(70'000, ' ') + "}\n", "line longer than 65536 bytes"},
  };
  for (const auto& [bytes, reason] : cases) {
    StatsClient client(server);
    client.send(bytes);
    const std::string error = client.closing_error();
    CHECK_MESSAGE(error.starts_with(reason), error);
  }
  CHECK(server.counters().errors == std::size(cases));
  CHECK(still_serves() == "pong");
}

TEST_CASE_FIXTURE(Fixture, "stats_socket: clients that disconnect at any moment leave no connection and no timer") {
  server.publish(kSnapshot);
  for (const char* bytes : {"", "{\"type\":", "{\"type\":\"ping\"}\n", "GET / HT", "GET / HTTP/1.1\r\n", "garbage\n"}) {
    StatsClient resets(server), closes(server);
    resets.send(bytes);
    closes.send(bytes);
    resets.reset();
    closes.close();
  }
  CHECK(all_gone(12));
  server.publish(kSnapshot);
  CHECK(still_serves() == "pong");
  const auto start = std::chrono::steady_clock::now();
  server.stop();  // waits for no timer of these clients
  CHECK(std::chrono::steady_clock::now() - start < 900ms);
}

TEST_CASE_FIXTURE(Fixture, "stats_socket: a line is answered when it is complete, not before") {
  StatsClient half(server), method(server);
  half.send("{\"ty");
  method.send("GET /hea");
  for (int n = 1; n <= 3; ++n) {
    server.publish(kSnapshot);
    CHECK(still_serves() == "pong");  // by then the server has read the halves
  }
  half.send("pe\":\"ping\"}\n");
  method.send("lth HTTP/1.1\r\n\r\n");
  CHECK(half.message()["type"] == "hello");
  CHECK(half.message()["sequence"] == 3);  // the newest snapshot alone: the ones before were not for this client
  CHECK(half.message()["type"] == "pong");
  CHECK(method.rest().ends_with("\r\n\r\nok\n"));
}

TEST_CASE("stats_socket: an incomplete line or request head is closed in time, a client that only listens is not") {
  StatsSocketOptions options = quick_options();
  options.line_timeout = 50ms;
  Fixture f(options);
  StatsClient line(f.server), method(f.server), head(f.server);
  line.send("{\"type\":");
  method.send("GE");
  head.send("GET / HTTP/1.1\r\nHost: x\r\n");
  const json only = line.message();
  CHECK(only["reason"] == "the rest of a line did not come in time");
  CHECK(line.message().is_null());
  CHECK(method.closing_error() == "the rest of a line did not come in time");
  CHECK(head.rest().starts_with("HTTP/1.1 408 "));
  StatsClient listens(f.server);
  CHECK(listens.greeting()["type"] == "hello");
  f.server.publish(kSnapshot);
  CHECK(listens.message()["type"] == "stats");
}

TEST_CASE("stats_socket: the machine's name is accepted as Host only on a port that other machines can reach") {
  char name[256] = {};
  REQUIRE(gethostname(name, sizeof name - 1) == 0);
  const bool own_is_localhost = std::string_view(name) == "localhost";
  for (const auto& [host, status] :
       {std::pair{"0.0.0.0", "200"}, std::pair{"127.0.0.1", own_is_localhost ? "200" : "421"}}) {
    StatsSocketOptions options = quick_options();
    options.host = host;
    Fixture f(options);
    StatsClient client(f.server);
    client.send("GET / HTTP/1.1\r\nHost: " + std::string(name) + ":1\r\n\r\n");
    CHECK(client.rest().substr(9, 3) == status);
  }
}

TEST_CASE_FIXTURE(Fixture, "stats_socket: HTTP clients get the page, the newest snapshot, or a status") {
  server.publish(kSnapshot);
  CHECK(still_serves() == "pong");
  const std::pair<std::string, std::string> cases[] = {
      {"GET / HTTP/1.1\r\nHost: localhost:8080\r\n\r\n", "HTTP/1.1 200 OK"},
      {"GET / HTTP/1.1\r\nHost: attacker.example\r\n\r\n", "HTTP/1.1 421 "},
      {"GET /stats HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK"},
      {"GET / HTTP/1.1\n\n", "HTTP/1.1 200 OK"},
      {"HEAD / HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK"},
      {"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK"},
      {"POST /stats HTTP/1.1\r\nContent-Length: 15\r\n\r\n{\"type\":\"ping\"}", "HTTP/1.1 405 "},
      {"GET /../../etc/passwd HTTP/1.1\r\n\r\n", "HTTP/1.1 404 "},
      {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 505 "},
      {"GET / HTTP/1.1\r\nX: " + std::string(100'000, 'y'), "HTTP/1.1 431 "},
  };
  for (const auto& [request, status] : cases) {
    StatsClient client(server);
    client.send(request);
    const std::string answer = client.rest();
    CHECK_MESSAGE(answer.starts_with(status), answer.substr(0, 60));
    CHECK(answer.find("HTTP/1.1", 8) == std::string::npos);
  }
  StatsClient client(server);
  client.send("GET /stats HTTP/1.1\r\n\r\n");
  const std::string answer = client.rest();
  CHECK(json::parse(answer.substr(answer.find("\r\n\r\n")))["stats"]["env_steps"] == 7);
}

TEST_CASE("stats_socket: a request that comes late is answered with HTTP, as browsers connect before they ask") {
  Fixture f({.run = "demo", .silence_timeout = 1h});
  StatsClient page(f.server), stats(f.server), lines(f.server);
  // Until then the server has had every occasion to send them something.
  f.server.publish(kSnapshot);
  CHECK(f.still_serves() == "pong");
  page.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK(page.line() == "HTTP/1.1 200 OK\r");
  stats.send("GET /stats HTTP/1.1\r\nHost: localhost\r\n\r\n");
  CHECK(stats.line() == "HTTP/1.1 200 OK\r");
  lines.send("{\"type\":\"ping\"}\n");
  CHECK(lines.message()["type"] == "hello");
}

TEST_CASE("stats_socket: a client that says nothing is told nothing, and closed when its time has passed, not before") {
  constexpr auto kTime = 100ms;
  Fixture f({.run = "demo", .silence_timeout = kTime});
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

namespace {

// A snapshot with `figures` figures a0, a1, ... of typical length.
std::string wide_snapshot(int n, int figures) {
  json snapshot{{"n", n}};
  for (int i = 0; i < figures; ++i) snapshot["a" + std::to_string(i)] = 1.0 / (n + i + 1);
  return snapshot.dump();
}

}  // namespace

TEST_CASE("stats_socket: a page that is opened after 22 hours gets the whole curve within a second") {
  Fixture f({.run = "demo"});
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

TEST_CASE_FIXTURE(Fixture, "stats_socket: only the history that is sent is charged, and too much of it is refused") {
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

TEST_CASE_FIXTURE(Fixture, "stats_socket: a flood of requests ends that connection only") {
  StatsClient client(server);
  std::string flood;
  for (int i = 0; i < 1000; ++i) flood += "{\"type\":\"ping\"}\n";
  client.send(flood);
  CHECK(client.closing_error() == "too many requests");
  CHECK(still_serves() == "pong");
}

TEST_CASE_FIXTURE(Fixture,
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

namespace {

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

TEST_CASE_FIXTURE(Fixture, "stats_socket: clients that say nothing keep no other client out, however many there are") {
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

TEST_CASE_FIXTURE(Fixture, "stats_socket: a client that has sent something is never closed for another one") {
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

TEST_CASE_FIXTURE(Fixture, "stats_socket: requests that come just before a flood of silent clients are answered") {
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
  Fixture f({.run = "demo", .silence_timeout = 1h});
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
  Fixture f(options);
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

TEST_CASE_FIXTURE(Fixture, "stats_socket: random bytes never stop it") {
  Rng rng(11);
  const std::string alphabet = "{}[]\":,typeping historyGET / HTTP/1.1\r\n\n\n0\xff" + std::string(1, '\0');
  for (int i = 0; i < 300; ++i) {
    StatsClient client(server);
    std::string bytes;
    for (uint64_t n = rng.below(200); n > 0; --n) bytes += alphabet[rng.below(alphabet.size())];
    client.send(bytes);
    if (rng.below(2) == 0) client.reset();
  }
  CHECK(still_serves() == "pong");
  CHECK(all_gone(301));
}

TEST_CASE_FIXTURE(Fixture, "stats_socket: many threads publish, each snapshot is sent or counted as skipped") {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) server.publish(kSnapshot);
    });
  for (std::thread& thread : threads) thread.join();
  server.publish("no object");
  server.stop();
  const StatsSocket::Counters counters = server.counters();
  CHECK(counters.published + counters.skipped == 2001);
  CHECK(counters.skipped >= 1);
}

TEST_CASE_FIXTURE(Fixture,
                  "stats_socket: stop sends queued messages, then ends all connections; a second stop does nothing") {
  StatsClient reader(server), silent(server);
  CHECK(reader.greeting()["type"] == "hello");
  server.publish(kSnapshot);
  server.stop();
  server.stop();
  CHECK(reader.message()["type"] == "stats");
  CHECK(reader.message().is_null());
  CHECK(silent.rest() == "");
  CHECK_FALSE(StatsClient(server).connected());
  server.publish(kSnapshot);
}

TEST_CASE("stats_socket: stop does not wait for a client that never reads") {
  const auto start = std::chrono::steady_clock::now();
  {
    Fixture f;
    StatsClient never_reads(f.server, 4096);
    CHECK(never_reads.greeting()["type"] == "hello");
    for (int i = 0; i < 9; ++i) f.server.publish("{\"x\":\"" + std::string(100'000, 'x') + "\"}");
    f.server.stop();
  }
  CHECK(std::chrono::steady_clock::now() - start < 5s);
}

TEST_CASE_FIXTURE(Fixture, "stats_socket: the Python client of the protocol page follows a topic") {
  FILE* client =
      ::popen((test::test_python() + " examples/stats_client.py " + server.address() + " lag.p95 2>&1").c_str(), "r");
  REQUIRE(client != nullptr);
  const auto line = [&] {
    char text[256] = {};
    return std::string(::fgets(text, sizeof text, client) != nullptr ? text : "end");
  };
  CHECK(line() == "run demo seed 5\n");
  CHECK(line() == "watching lag.p95\n");
  server.publish(kSnapshot);
  CHECK(line() == "1 1\n");
  server.stop();
  CHECK(line() == "the run has ended\n");
  CHECK(line() == "end");
  CHECK(::pclose(client) == 0);
}

TEST_CASE("stats_socket: the Python client reports a mistake with one line") {
  const auto answer = [](const std::string& arguments) {
    return test::run_program(test::test_python() + " examples/stats_client.py " + arguments + " 2>&1");
  };
  const std::pair<std::string, std::string> mistakes[] = {
      {"", "usage: stats_client.py HOST:PORT [TOPIC]\n"},
      {"localhost", "localhost: not HOST:PORT, as `troupe train` prints it behind \"statistics\"\n"},
      {"127.0.0.1:1", "127.0.0.1:1: cannot connect: "},
      {"127.0.0.1:99999", "127.0.0.1:99999: cannot connect: "},
  };
  for (const auto& [arguments, expected] : mistakes) {
    const test::ProgramResult result = answer(arguments);
    CHECK(result.exit_code == (arguments.empty() ? 2 : 1));
    CHECK_MESSAGE(result.output.starts_with(expected), result.output);
    CHECK(std::ranges::count(result.output, '\n') == 1);
  }
}

TEST_CASE("protocol page: its Python client is the example, its requests are accepted, and its messages have a type") {
  const std::string page = file_text("docs/protocol.md");
  REQUIRE(blocks_of(page, "python").size() == 1);
  CHECK(blocks_of(page, "python")[0] == file_text("examples/stats_client.py"));
  const auto requests = blocks_of(page, "json request");
  CHECK(requests.size() >= 4);
  for (const std::string& request : requests) CHECK_NOTHROW(parse_stats_request(request));
  for (const std::string& message : blocks_of(page, "json")) CHECK(json::parse(message).contains("type"));
}
