#include "runtime/stats/socket.h"

#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/base/rng.h"
#include "runtime/stats/protocol.h"
#include "tests/runtime/stats/stats_client.h"
#include "tests/runtime/stats/stats_socket.h"
#include "tests/support/run_program.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

TEST_CASE_FIXTURE(OpenSocket,
                  "stats_socket: with port 0 it listens on a free port of the loopback interface and reports it") {
  CHECK(server.port() > 0);
  CHECK(server.address() == "127.0.0.1:" + std::to_string(server.port()));
}

TEST_CASE_FIXTURE(OpenSocket, "stats_socket: the error about a port in use has the address and the reason") {
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

TEST_CASE_FIXTURE(OpenSocket, "stats_socket: a client that sends an empty line gets hello, then each snapshot") {
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

TEST_CASE_FIXTURE(OpenSocket, "stats_socket: a client that connects later gets the newest snapshot immediately") {
  server.publish(kSnapshot);
  CHECK(still_serves() == "pong");
  StatsClient client(server);
  CHECK(client.greeting()["type"] == "hello");
  CHECK(client.message()["sequence"] == 1);
}

TEST_CASE_FIXTURE(OpenSocket, "stats_socket: requests are answered in order, also with CRLF and byte by byte") {
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

TEST_CASE_FIXTURE(OpenSocket, "stats_socket: a client that has closed its sending side gets what it has asked for") {
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

TEST_CASE_FIXTURE(OpenSocket, "stats_socket: empty lines between requests are not answered") {
  StatsClient client(server);
  client.send("\n\n{\"type\":\"ping\"}\n\r\n{\"type\":\"ping\"}\n");
  for (const char* type : {"hello", "pong", "pong"}) CHECK(client.message()["type"] == type);
}

TEST_CASE_FIXTURE(OpenSocket, "stats_socket: an invalid request ends the connection with one error") {
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

TEST_CASE_FIXTURE(OpenSocket, "stats_socket: clients that disconnect at any moment leave no connection and no timer") {
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

TEST_CASE_FIXTURE(OpenSocket, "stats_socket: a line is answered when it is complete, not before") {
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
  OpenSocket f(options);
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
    OpenSocket f(options);
    StatsClient client(f.server);
    client.send("GET / HTTP/1.1\r\nHost: " + std::string(name) + ":1\r\n\r\n");
    CHECK(client.rest().substr(9, 3) == status);
  }
}

TEST_CASE_FIXTURE(OpenSocket, "stats_socket: a flood of requests ends that connection only") {
  StatsClient client(server);
  std::string flood;
  for (int i = 0; i < 1000; ++i) flood += "{\"type\":\"ping\"}\n";
  client.send(flood);
  CHECK(client.closing_error() == "too many requests");
  CHECK(still_serves() == "pong");
}

TEST_CASE_FIXTURE(OpenSocket, "stats_socket: random bytes never stop it") {
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

TEST_CASE_FIXTURE(OpenSocket, "stats_socket: many threads publish, each snapshot is sent or counted as skipped") {
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

TEST_CASE_FIXTURE(OpenSocket,
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
    OpenSocket f;
    StatsClient never_reads(f.server, 4096);
    CHECK(never_reads.greeting()["type"] == "hello");
    for (int i = 0; i < 9; ++i) f.server.publish("{\"x\":\"" + std::string(100'000, 'x') + "\"}");
    f.server.stop();
  }
  CHECK(std::chrono::steady_clock::now() - start < 5s);
}
