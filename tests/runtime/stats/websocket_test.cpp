#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

#include "runtime/base/rng.h"
#include "runtime/stats/socket.h"
#include "tests/runtime/stats/stats_client.h"
#include "tests/support/test.h"

using namespace troupe;
using nlohmann::json;
using namespace std::chrono_literals;

namespace {

// The key and its answer are the example of RFC 6455, 1.3.
const std::string kUpgrade =
    "GET /stream HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
constexpr const char* kAnswer = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r";
constexpr int kText = 1, kClose = 8, kPing = 9, kPong = 10;

struct Frame {
  int opcode = -1;  // -1: the connection has ended
  std::string payload;
  json message() const { return json::parse(payload); }
};

struct WebSocketFixture {
  explicit WebSocketFixture(StatsSocketOptions options = {.run = "demo", .line_timeout = 700ms})
      : server(std::move(options)) {}

  // Asks for a WebSocket, and reads the answer's headers.
  bool upgrade(StatsClient& client) {
    client.send(kUpgrade);
    bool accepted = false;
    for (std::string line = client.line(); line.size() > 1; line = client.line()) accepted |= line == kAnswer;
    return accepted;
  }
  static Frame read(StatsClient& client) {
    const std::string head = client.bytes(2);
    if (head.size() < 2) return {};
    size_t size = static_cast<unsigned char>(head[1]);
    const size_t extra = size == 126 ? 2 : size == 127 ? 8 : 0;
    if (extra > 0) size = 0;
    for (const char c : client.bytes(extra)) size = size << 8 | static_cast<unsigned char>(c);
    Frame result{.opcode = head[0] & 15, .payload = client.bytes(size)};
    if (result.opcode != kPing) return result;
    client.send(frame(kPong, ""));
    return read(client);
  }
  // One frame with a mask of zeros, which is allowed.
  static std::string frame(int opcode, const std::string& payload) {
    return std::string{static_cast<char>(0x80 | opcode), static_cast<char>(0x80 | payload.size()), 0, 0, 0, 0} +
           payload;
  }
  // Publishes more than the buffers of a connection hold, so that a client that does not read blocks its session. The
  // client sends `repeated` meanwhile.
  void fill_socket(StatsClient& client, const std::string& repeated) {
    const std::string snapshot = R"({"text":")" + std::string(500'000, 'x') + R"("})";
    for (uint64_t i = 1; i <= 14; ++i) {
      server.publish(snapshot);
      client.send(repeated);
      while (server.counters().published < i) std::this_thread::yield();
    }
  }
  bool all_gone() {
    const auto deadline = std::chrono::steady_clock::now() + 10s;
    while (server.counters().open > 0 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    return server.counters().open == 0;
  }

  QuietLog quiet;
  StatsSocket server;
};

}  // namespace

TEST_CASE_FIXTURE(WebSocketFixture, "websocket: it carries the messages of the port, one in each frame") {
  StatsClient client(server);
  REQUIRE(upgrade(client));
  CHECK(read(client).message()["type"] == "hello");
  server.publish(R"({"env_steps":7})");
  const Frame snapshot = read(client);
  CHECK(snapshot.opcode == kText);
  CHECK(snapshot.message()["stats"]["env_steps"] == 7);
  client.send(frame(kText, R"({"type":"subscribe","topic":"env_steps"})"));
  CHECK(read(client).message() == json::parse(R"({"type":"subscribed","topic":"env_steps"})"));
  server.publish(R"({"env_steps":8})");
  CHECK(read(client).message()["value"] == 8);
  client.send(frame(kClose, ""));
  CHECK(read(client).opcode == kClose);
  CHECK(read(client).opcode == -1);
  CHECK(all_gone());
}

TEST_CASE_FIXTURE(WebSocketFixture, "websocket: an invalid request is answered with an error, then it is closed") {
  for (const std::string bad : {R"({"type":"pnig"})", "", "{", "\xff"}) {
    CAPTURE(bad);
    StatsClient client(server);
    REQUIRE(upgrade(client));
    CHECK(read(client).message()["type"] == "hello");
    client.send(frame(kText, bad));
    Frame last = read(client);
    // Text that is not UTF-8 ends the connection at the level of frames.
    if (last.opcode == kText) {
      CHECK(last.message()["type"] == "error");
      last = read(client);
    }
    CHECK(last.opcode == kClose);
    CHECK(read(client).opcode == -1);
  }
  CHECK(all_gone());
}

TEST_CASE_FIXTURE(WebSocketFixture, "websocket: a request without its headers is refused") {
  for (const std::string absent : {"Connection: Upgrade\r\n", "Sec-WebSocket-Version: 13\r\n",
                                   "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"}) {
    std::string request = kUpgrade;
    request.erase(request.find(absent), std::string(absent).size());
    StatsClient client(server);
    client.send(request);
    CHECK(client.line().starts_with("HTTP/1.1 4"));
  }
}

TEST_CASE_FIXTURE(WebSocketFixture, "websocket: random bytes end that connection only") {
  Rng random(derive_key(3, "websocket"));
  for (int round = 0; round < 200; ++round) {
    StatsClient client(server);
    REQUIRE(upgrade(client));
    std::string bytes;
    for (uint64_t i = random.below(60); i > 0; --i) bytes += static_cast<char>(random.below(256));
    client.send(bytes);
    if (random.below(2) == 0) client.reset();
  }
  StatsClient client(server);
  REQUIRE(upgrade(client));
  CHECK(read(client).message()["type"] == "hello");
  client.close();
  CHECK(all_gone());
}

TEST_CASE("websocket: stop closes it with a frame, and does not wait for a client that never reads") {
  WebSocketFixture fixture;
  StatsClient client(fixture.server), silent(fixture.server);
  REQUIRE(fixture.upgrade(client));
  REQUIRE(fixture.upgrade(silent));
  CHECK(WebSocketFixture::read(client).opcode == kText);
  const auto begin = std::chrono::steady_clock::now();
  fixture.server.stop();
  CHECK(std::chrono::steady_clock::now() - begin < 5s);
  CHECK(WebSocketFixture::read(client).opcode == kClose);
}

TEST_CASE("websocket: a client that does not read is closed") {
  WebSocketFixture fixture({.run = "demo", .max_queued_bytes = 4096, .linger_timeout = 50ms});
  StatsClient client(fixture.server, 4096);
  REQUIRE(fixture.upgrade(client));
  const std::string snapshot = R"({"text":")" + std::string(100'000, 'x') + R"("})";
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  while (fixture.server.counters().slow == 0 && std::chrono::steady_clock::now() < deadline)
    fixture.server.publish(snapshot);
  CHECK(fixture.server.counters().slow == 1);
  CHECK(fixture.all_gone());
}

TEST_CASE("websocket: a client that does not read is closed, although it sends pongs") {
  // The run may queue all: the client is to be closed because of its silence, not because of its queue.
  WebSocketFixture fixture({.run = "demo", .max_queued_bytes = 64 << 20, .line_timeout = 100ms});
  StatsClient client(fixture.server, 4096);
  REQUIRE(fixture.upgrade(client));
  fixture.fill_socket(client, WebSocketFixture::frame(kPong, ""));
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  while (fixture.server.counters().open > 0 && std::chrono::steady_clock::now() < deadline) {
    client.send(WebSocketFixture::frame(kPong, ""));
    std::this_thread::sleep_for(10ms);  // as a client that answers now and then
  }
  CHECK(fixture.server.counters().open == 0);
  CHECK(fixture.server.counters().slow == 1);
}

TEST_CASE("stats_socket: stop ends in time whatever its clients do") {
  struct Client {
    const char* what;
    std::string first;     // sent before the snapshots,
    std::string repeated;  // and again and again after them
  };
  const std::string pong = WebSocketFixture::frame(kPong, ""), ping = WebSocketFixture::frame(kPing, "x");
  const std::vector<Client> clients{
      {"sends nothing", "", ""},
      {"listens to lines", "{\"type\":\"subscribe\"}\n", ""},
      {"half a line", "{\"type\"", ""},
      {"half an HTTP request", "GET / HTTP/1.1\r\nHost: x\r\n", ""},
      {"an HTTP request", "GET /stats HTTP/1.1\r\n\r\n", ""},
      {"asks again and again in lines", "{\"type\":\"ping\"}\n", "{\"type\":\"ping\"}\n"},
      {"half a request for a WebSocket", kUpgrade.substr(0, kUpgrade.size() - 2), ""},
      {"a WebSocket that is silent", kUpgrade, ""},
      {"a WebSocket that sends pongs", kUpgrade, pong},
      {"a WebSocket that sends pings", kUpgrade, ping},
      {"a WebSocket with half a frame", kUpgrade + pong.substr(0, 3), ""},
      {"a WebSocket that closes and does not read", kUpgrade + WebSocketFixture::frame(kClose, ""), ""},
      {"a WebSocket that asks again and again", kUpgrade, WebSocketFixture::frame(kText, R"({"type":"ping"})")},
  };
  for (const Client& kind : clients) {
    CAPTURE(kind.what);
    WebSocketFixture fixture({.run = "demo", .max_queued_bytes = 64 << 20, .line_timeout = 50ms});
    StatsClient client(fixture.server, 4096);
    client.send(kind.first);
    fixture.fill_socket(client, kind.repeated);
    // Long enough for several deadlines of a client that is not closed by them.
    const auto until = std::chrono::steady_clock::now() + 250ms;
    while (std::chrono::steady_clock::now() < until) {
      client.send(kind.repeated);
      std::this_thread::sleep_for(5ms);
    }
    const auto begin = std::chrono::steady_clock::now();
    fixture.server.stop();
    CHECK(std::chrono::steady_clock::now() - begin < 2s);
  }
}
