#include "runtime/stats/socket.h"

#include <stdio.h>

#include <algorithm>
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

namespace {

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

TEST_CASE_FIXTURE(OpenSocket, "stats_socket: HTTP clients get the page, the newest snapshot, or a status") {
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
  OpenSocket f({.run = "demo", .silence_timeout = 1h});
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

TEST_CASE_FIXTURE(OpenSocket, "stats_socket: the Python client of the protocol page follows a topic") {
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
