// Weight transfer between processes, and behaviour of the gloo backend that needs several processes or network
// addresses.

#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <thread>
#include <utility>

#include "runtime/weights/process_group_store.h"
#include "runtime/weights/sender.h"
#include "tests/runtime/weights/process_group_conformance.h"
#include "tests/runtime/weights/weight_fixture.h"
#include "tests/support/test.h"
#include "tools/bench/weights.h"

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;
using Did = SenderStep::Did;

TEST_CASE("gloo: plain_reason removes source files, backtraces and guesses from its errors") {
  const auto reason = [](const char* text) { return plain_reason(std::runtime_error(text)); };
  CHECK(
      reason(
          "[/__w/pytorch/gloo/transport/tcp/pair.cc:537] Read error [127.0.0.1]:22668: Connection reset by peer. This "
          "is typically caused by a remote worker hanging. GLHF! \U0001F3D6") ==
      "Read error [127.0.0.1]:22668: Connection reset by peer");
  CHECK(reason("Timed out waiting 10ms for recv operation to complete\nException raised from wait") ==
        "Timed out waiting 10ms for recv operation to complete");
  CHECK(reason("[127.0.0.1]:5 is gone") == "[127.0.0.1]:5 is gone");
  CHECK(reason("") == "");
}

namespace troupe::test {
std::vector<std::shared_ptr<GroupBackend>> backends_under_test() { return {make_group_backend("gloo", {})}; }
}  // namespace troupe::test

namespace {

// A gloo_peer process.
class Peer {
 public:
  explicit Peer(int64_t floats) {
    int in[2], out[2];
    REQUIRE(pipe2(in, O_CLOEXEC) == 0);
    REQUIRE(pipe2(out, O_CLOEXEC) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    std::string program = TROUPE_GLOO_PEER, count = std::to_string(floats);
    char* arguments[] = {program.data(), count.data(), nullptr};
    REQUIRE(posix_spawn(&pid_, program.c_str(), &actions, nullptr, arguments, environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    to_ = in[1];
    from_ = out[0];
  }
  ~Peer() {
    end(SIGKILL);
    close(to_);
    close(from_);
  }

  void send_signal(int number) { kill(pid_, number); }
  // Sends this signal to the process and waits for its end.
  void end(int number) {
    if (pid_ == 0) return;
    kill(pid_, number);
    waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  void invite(const Rendezvous& r) {
    const std::string line = r.host + ' ' + std::to_string(r.port) + ' ' + std::to_string(r.generation) + ' ' +
                             std::to_string(r.rank) + ' ' + std::to_string(r.size) + '\n';
    if (write(to_, line.data(), line.size()) < 0) CHECK(errno == EPIPE);
  }
  // Reads lines until this one; false if the process ends or is silent for 20 s before it.
  bool says(const std::string& wanted) {
    while (true) {
      if (const size_t end = text_.find('\n'); end != std::string::npos) {
        const std::string line = text_.substr(0, end);
        text_.erase(0, end + 1);
        if (line == wanted) return true;
        continue;
      }
      pollfd waiting{from_, POLLIN, 0};
      char buffer[256];
      if (poll(&waiting, 1, 20'000) <= 0) return false;
      const ssize_t got = read(from_, buffer, sizeof buffer);
      if (got <= 0) return false;
      text_.append(buffer, static_cast<size_t>(got));
    }
  }

 private:
  pid_t pid_ = 0;
  int to_ = -1, from_ = -1;
  std::string text_;
};

// A connection to a port of the loopback interface.
class RawConnection {
 public:
  explicit RawConnection(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    REQUIRE(connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  }
  RawConnection(RawConnection&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~RawConnection() {
    if (fd_ >= 0) close(fd_);
  }
  void send(const std::vector<uint8_t>& bytes) {
    CHECK(::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size()));
  }

 private:
  int fd_;
};

// A sender in this process and receivers in other processes.
struct Plane {
  explicit Plane(int64_t count = 1000, ChannelOptions options = {.connect_timeout = 20s, .transfer_timeout = 20s})
      : floats(count),
        signature(signature_of(count)),
        sender(
            make_group_backend("gloo", {}), signature,
            [this](InferenceIndex inference_index, const Rendezvous& r) { peers.at(inference_index)->invite(r); },
            options) {}

  void add(InferenceIndex inference_index) {
    peers[inference_index] = std::make_unique<Peer>(floats);
    REQUIRE_FALSE(sender.admit(inference_index, *signature));
  }
  void publish(uint64_t number) { REQUIRE(sender.publish(weights_of(signature, {0, number}))); }
  // Steps the sender until it has no more work, and returns the failed steps.
  std::vector<SenderStep> settle() {
    std::vector<SenderStep> failures;
    while (sender.wait_for_work(0ms))
      if (SenderStep step = sender.step(); step.did == Did::failed) failures.push_back(step);
    return failures;
  }

  int64_t floats;
  std::shared_ptr<const Signature> signature;
  std::map<InferenceIndex, std::unique_ptr<Peer>> peers;
  WeightSender sender;
};

}  // namespace

TEST_CASE("gloo: a connection that stops in the middle of a message delays neither other clients nor the end") {
  using Bytes = std::vector<uint8_t>;
  const Bytes magic{0x00, 0xCE, 0xF7, 0x85, 0x3C};
  // Nothing; the kind of a message; the beginning of a length; a text of 1 GiB.
  for (const Bytes& rest : {Bytes{}, Bytes{1}, Bytes{1, 200}, Bytes{1, 0, 0, 0, 0x40, 0, 0, 0, 0, 'a'}}) {
    const auto store = GroupStore::listen("127.0.0.1");
    const std::vector<Bytes> beginnings{{0}, magic};
    std::vector<RawConnection> held;
    for (const Bytes& beginning : beginnings)
      for (size_t i = 0; i < 4; ++i) {
        held.emplace_back(store->port());
        held.back().send(beginning);
        held.back().send(rest);
      }
    const auto other = GroupStore::connect("127.0.0.1", store->port(), 20s);
    other->set("key", "value");
    CHECK(store->get("key", 1, Deadline(20s), {}) == "value");
  }
}

TEST_CASE("gloo: weights reach two processes, and a third one that joins later gets the current ones first") {
  Plane plane(3'000'000);
  plane.add(1);
  plane.add(2);
  plane.publish(1);
  CHECK(plane.settle().empty());
  CHECK(plane.peers[1]->says("applied 1"));
  CHECK(plane.peers[2]->says("applied 1"));
  plane.add(3);
  CHECK(plane.settle().empty());
  CHECK(plane.peers[3]->says("applied 1"));
  plane.publish(2);
  CHECK(plane.settle().empty());
  for (auto& [inference_index, peer] : plane.peers) CHECK(peer->says("applied 2"));
  for (const ReceiverReport& report : plane.sender.receivers()) CHECK(report.behind == 0);
}

TEST_CASE("gloo: a receiver killed between transfers is removed, and the others get the weights") {
  Plane plane;
  plane.add(1);
  plane.add(2);
  plane.publish(1);
  plane.settle();
  plane.peers[1]->end(SIGKILL);
  plane.publish(2);
  const auto failures = plane.settle();
  REQUIRE(failures.size() == 1);
  CHECK(failures[0].lost == std::vector<InferenceIndex>{1});
  CHECK(plane.peers[2]->says("applied 2"));
  CHECK(plane.sender.generation() == 2);
}

TEST_CASE("gloo: after a receiver is killed in the middle of a transfer the others get the weights") {
  Plane plane(25'000'000);
  plane.add(1);
  plane.add(2);
  plane.publish(1);
  plane.settle();
  plane.peers[2]->send_signal(SIGSTOP);  // so that the transfer is unfinished when it is killed
  plane.publish(2);
  SenderStep failed;
  {
    std::jthread sending([&] {
      failed = plane.sender.step();
      if (failed.did != Did::failed) failed = plane.sender.step();
    });
    plane.peers[2]->end(SIGKILL);
  }
  CHECK(failed.did == Did::failed);
  CHECK(failed.lost == std::vector<InferenceIndex>{2});
  CHECK(plane.settle().empty());
  CHECK(plane.peers[1]->says("applied 2"));
}

TEST_CASE("gloo: a frozen receiver is removed after one deadline, and gets the newest weights when admitted again") {
  Plane plane(25'000'000, {.connect_timeout = 20s, .transfer_timeout = 1s});
  plane.add(1);
  plane.add(2);
  plane.publish(1);
  CHECK(plane.settle().empty());
  plane.peers[2]->send_signal(SIGSTOP);
  plane.publish(2);
  const auto failures = plane.settle();
  REQUIRE(failures.size() == 1);
  CHECK(failures[0].lost == std::vector<InferenceIndex>{2});
  CHECK(plane.peers[1]->says("applied 2"));
  plane.peers[2]->send_signal(SIGCONT);
  CHECK(plane.peers[2]->says("lost"));
  plane.sender.admit(2, *plane.signature);
  CHECK(plane.settle().empty());
  CHECK(plane.peers[2]->says("applied 2"));
}

TEST_CASE("gloo: the error about a frozen receiver that cannot join has its rank, and the others join without it") {
  Plane plane(1000, {.connect_timeout = 1s, .transfer_timeout = 20s});
  plane.add(1);
  plane.add(2);
  plane.peers[2]->send_signal(SIGSTOP);
  plane.publish(1);
  const auto failures = plane.settle();
  REQUIRE(failures.size() == 1);
  CHECK(failures[0].error == "rank 2: did not join group 1 in time");
  CHECK(plane.peers[1]->says("applied 1"));
}

TEST_CASE("gloo: stop ends a transfer to a frozen receiver at once") {
  Plane plane(25'000'000, {.connect_timeout = 20s, .transfer_timeout = 1h});
  plane.add(1);
  plane.sender.step();
  CHECK(plane.peers[1]->says("joined"));
  plane.peers[1]->send_signal(SIGSTOP);
  plane.publish(1);
  SenderStep last;
  {
    std::jthread sending([&] {
      while (last.did != Did::stopped) last = plane.sender.step();
    });
    plane.sender.stop();
  }
  CHECK(last.did == Did::stopped);
}

TEST_CASE("gloo: a receiver reports that its sender is gone") {
  auto peer = std::make_unique<Peer>(1000);
  {
    const auto signature = signature_of(1000);
    WeightSender sender(make_group_backend("gloo", {}), signature,
                        [&](InferenceIndex, const Rendezvous& r) { peer->invite(r); });
    sender.admit(1, *signature);
    CHECK(sender.step().did == Did::connected);
    CHECK(peer->says("joined"));
  }
  CHECK(peer->says("lost"));
}

TEST_CASE("gloo: an address of another machine, and 0.0.0.0, are refused with one line") {
  CHECK_THROWS_WITH_AS(
      make_group_backend("gloo", {"0.0.0.0"})->host(),
      "cannot listen on 0.0.0.0: it means every interface; give the address of one of this machine's interfaces",
      ConfigError);
  CHECK_THROWS_WITH_AS(
      make_group_backend("gloo", {"192.0.2.1"})->host(),
      "cannot listen on 192.0.2.1: Cannot assign requested address; give the address of one of this machine's "
      "interfaces",
      ConfigError);
}

TEST_CASE("gloo: joining at a port where nothing listens fails with a lost peer") {
  const auto backend = make_group_backend("gloo", {});
  try {
    backend->join({.host = "127.0.0.1", .port = 1, .generation = 1, .rank = 1, .size = 2}, 200ms);
    FAIL("joined");
  } catch (const TransferError& error) {
    CHECK(error.kind() == TransferError::Kind::peer_lost);
    CHECK(std::string(error.what()) == "rank 0: cannot reach 127.0.0.1:1: Connection refused");
  }
}

TEST_CASE("process_group: an unknown backend is refused with the list of backends") {
  CHECK_THROWS_WITH_AS(make_group_backend("gluo", {}),
                       "gluo: no such process group backend; there are in_process, gloo and nccl", ConfigError);
}

TEST_CASE("bench_weights: measures a bare broadcast and the channel with the same bytes") {
  const WeightsBenchmark result = bench_weights({.bytes = 1 << 20, .repeats = 3});
  CHECK(result.bytes == 1 << 20);
  CHECK(result.repeats == 3);
  CHECK(result.bare_broadcast_seconds > 0);
  CHECK(result.channel_seconds > 0);
  CHECK(result.ratio_to_bare_broadcast > 0);
}
