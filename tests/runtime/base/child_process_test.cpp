#include "runtime/base/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/file.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

constexpr std::chrono::milliseconds kLong{20'000};

std::vector<std::string> shell(const std::string& script) { return {"/bin/sh", "-c", script}; }

std::string refusal(const std::vector<std::string>& arguments) {
  try {
    ChildProcess child(arguments, {});
  } catch (const IoError& error) {
    return error.what();
  }
  return "started";
}

// A pair of connected sockets that no other program inherits.
std::array<Descriptor, 2> sockets() {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

// Whether the descriptor is readable or closed at the other end within `limit`.
bool readable(int descriptor, std::chrono::milliseconds limit) {
  pollfd watched{descriptor, POLLIN, 0};
  return poll(&watched, 1, static_cast<int>(limit.count())) == 1;
}

}  // namespace

TEST_CASE("child_process: a program that exits is reported with its exit code and its output") {
  ChildProcess child(shell("echo one; echo two >&2; exit 3"), {});
  REQUIRE(child.wait(kLong));
  CHECK(child.exit_code() == 3);
  CHECK(child.state() == "ended with exit code 3");
  CHECK(child.last_lines() == "one\ntwo");
  CHECK(child.last_line() == "two");
}

TEST_CASE("child_process: a program that crashes is reported with its signal") {
  ChildProcess child(shell("kill -SEGV $$"), {});
  REQUIRE(child.wait(kLong));
  CHECK(!child.exit_code());
  CHECK(child.state() == "was killed by signal 11 (Segmentation fault)");
}

TEST_CASE("child_process: a program that hangs is still running after the deadline and can be killed") {
  ChildProcess child({"sleep", "1000"}, {});
  CHECK(!child.wait(std::chrono::milliseconds(20)));
  CHECK(child.state() == "is running");
  child.kill();
  CHECK(child.state() == "was killed by signal 9 (Killed)");
  CHECK(waitpid(child.id(), nullptr, WNOHANG) == -1);  // it has been reaped
}

TEST_CASE("child_process: a child that ends takes along the processes that it has started") {
  auto [ours, theirs] = sockets();
  const int number = theirs.number();
  // Of all descriptors the started process keeps only the socket, as 0.
  ChildProcess child(shell("(exec <&3 3<&- 4<&- >/dev/null 2>&1; exec sleep 1000) & exit 0"), {&number, 1});
  theirs = Descriptor();
  REQUIRE(child.wait(kLong));
  CHECK(child.exit_code() == 0);
  CHECK(readable(ours.number(), kLong));  // closed: the process is gone
}

TEST_CASE("child_process: killing a child kills the processes that it has started") {
  auto [ours, theirs] = sockets();
  const int number = theirs.number();
  ChildProcess child(shell("sleep 1000 & echo x >&3; wait"), {&number, 1});
  theirs = Descriptor();
  char text[8];
  REQUIRE(read(ours.number(), text, sizeof text) == 2);
  child.kill();
  REQUIRE(readable(ours.number(), kLong));  // `sleep` has descriptor 3, too
  CHECK(read(ours.number(), text, sizeof text) == 0);
}

TEST_CASE("child_process: a program that cannot be started is refused with the reason") {
  CHECK(refusal({"no-such-program"}) == "no-such-program: no program of this name in PATH");
  CHECK(refusal({"/no/such/program"}) == "/no/such/program: cannot be started: No such file or directory");
  CHECK(refusal({"/etc/passwd"}) == "/etc/passwd: cannot be started: Permission denied");
}

TEST_CASE("child_process: the child has the given descriptors from 3 on and no others") {
  const Descriptor leaked(open("/dev/null", O_RDONLY));  // without O_CLOEXEC
  auto [ours, theirs] = sockets();
  const std::array<int, 2> given{leaked.number(), theirs.number()};
  ChildProcess child(shell("echo hello >&4; cd /proc/self/fd; for n in *; do [ -e $n ] && echo $n; done"), given);
  REQUIRE(child.wait(kLong));
  char text[16];
  REQUIRE(read(ours.number(), text, sizeof text) == 6);
  CHECK(std::string(text, 5) == "hello");
  CHECK(child.last_lines() == "0\n1\n2\n3\n4\n5");  // 5 is the pipe that tells of the parent's end
}

TEST_CASE("child_process: descriptors may be given in any order") {
  auto [first, first_theirs] = sockets();
  auto [second, second_theirs] = sockets();
  const std::array<int, 2> given{second_theirs.number(), first_theirs.number()};
  ChildProcess child(shell("echo a >&3; echo b >&4"), given);
  REQUIRE(child.wait(kLong));
  char letter = 0;
  REQUIRE(read(first.number(), &letter, 1) == 1);
  CHECK(letter == 'b');
  REQUIRE(read(second.number(), &letter, 1) == 1);
  CHECK(letter == 'a');
}

TEST_CASE("child_process: a child that writes much does not stop, and the last lines are kept") {
  ChildProcess child(shell("i=0; while [ $i -lt 20000 ]; do echo line number $i; i=$((i+1)); done"), {});
  REQUIRE(child.wait(kLong));
  while (child.has_output()) child.read_output();
  CHECK(child.last_line() == "line number 19999");
  CHECK(child.last_lines().starts_with("line number 19960\n"));
}

TEST_CASE("child_process: whoever waits for one child reads the output of all, however large the writes are") {
  for (const std::string size : {"60", "1500", "2100", "3000", "65536"}) {
    CAPTURE(size);
    auto [first, second] = sockets();
    const int of_waiting = first.number(), of_printing = second.number();
    // 600 KB; the pipe of a child holds at most 64 KiB.
    const std::string print = "dd if=/dev/zero bs=" + size + " count=$((600000 / " + size + ")) 2>/dev/null";
    ChildProcess waiting(shell("read line <&3"), {&of_waiting, 1});
    ChildProcess printing(shell(print + "; echo printed >&3"), {&of_printing, 1});
    first = Descriptor(), second = Descriptor();
    CHECK(waiting.wait(kLong));
    CHECK(waiting.exit_code() == 0);
  }
}

TEST_CASE("child_process: the output of a child is read while another thread waits for another child") {
  auto [first, second] = sockets();
  const int of_waiting = first.number(), of_printing = second.number();
  ChildProcess printing(shell("dd if=/dev/zero bs=3000 count=200 2>/dev/null; echo printed >&3"), {&of_printing, 1});
  ChildProcess waiting(shell("read line <&3"), {&of_waiting, 1});
  first = Descriptor(), second = Descriptor();
  std::thread([&] { CHECK(waiting.wait(kLong)); }).join();
  CHECK(printing.wait(kLong));
  CHECK(printing.last_line().size() <= ChildProcess::kLongestLine);
}

TEST_CASE("child_process: each line of output is passed on, a long one in pieces") {
  std::vector<std::string> lines;
  ChildProcess child(shell("printf '%02500d\\nend' 0"), {}, [&](std::string_view line) { lines.emplace_back(line); });
  REQUIRE(child.wait(kLong));
  CHECK(lines == std::vector<std::string>{std::string(2000, '0'), std::string(500, '0'), "end"});
}

namespace {

// An owner of a child that takes its lines slowly: it is inside the first one until release().
class SlowOwner {
 public:
  void take(std::string_view line) {
    lines.emplace_back(line);
    if (lines.size() > 1) return;
    inside_.set_value();
    in_time = released_.wait_for(kLong) == std::future_status::ready;
  }
  void wait_until_inside() { CHECK(inside_.get_future().wait_for(kLong) == std::future_status::ready); }
  void release() { release_.set_value(); }

  std::vector<std::string> lines;
  bool in_time = false;

 private:
  std::promise<void> inside_, release_;
  std::future<void> released_ = release_.get_future();
};

// Reads the output of all children until it is destroyed.
class Reader {
 public:
  Reader()
      : other_(shell("exec sleep 1000"), {}), thread_([this] {
          while (!ended_) other_.wait_for({}, Deadline(std::chrono::milliseconds(100)));
        }) {}
  ~Reader() {
    ended_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> ended_ = false;
  ChildProcess other_;
  std::thread thread_;
};

}  // namespace

TEST_CASE("child_process: while a line of one child is handed on, other threads wait for other children") {
  SlowOwner owner;
  ChildProcess slow(shell("echo one"), {}, [&](std::string_view line) { owner.take(line); });
  const Reader reader;
  owner.wait_until_inside();
  ChildProcess quick(shell("exit 3"), {});
  CHECK(quick.wait(kLong));
  CHECK(slow.last_line() == "one");
  owner.release();
  CHECK(slow.wait(kLong));
  CHECK(owner.in_time);
}

TEST_CASE("child_process: lines that come while one is handed on follow it, and the child exists until all are") {
  SlowOwner owner;
  auto [ours, theirs] = sockets();
  const int number = theirs.number();
  auto slow = std::make_unique<ChildProcess>(shell("echo one; read line <&3; echo two; echo three; echo x >&3"),
                                             std::span(&number, 1), [&](std::string_view line) { owner.take(line); });
  const Reader reader;
  owner.wait_until_inside();
  REQUIRE(write(ours.number(), "\n", 1) == 1);
  REQUIRE(readable(ours.number(), kLong));
  ChildProcess other(shell("exec sleep 1000"), {});
  while (slow->last_line() != "three") other.wait_for({}, Deadline(std::chrono::milliseconds(100)));
  CHECK(owner.lines == std::vector<std::string>{"one"});
  std::thread end([&] { slow.reset(); });
  owner.release();
  end.join();
  CHECK(owner.lines == std::vector<std::string>{"one", "two", "three"});
  CHECK(owner.in_time);
}

TEST_CASE("child_process: the child is killed when its parent is killed") {
  auto [ours, theirs] = sockets();
  const pid_t parent = fork();
  if (parent == 0) {
    const int number = theirs.number();
    ChildProcess child(shell("trap '' HUP TERM; echo x >&3; while :; do :; done"), {&number, 1});
    close(number);
    pause();
    _exit(0);
  }
  theirs = Descriptor();
  char text[8];
  REQUIRE(read(ours.number(), text, sizeof text) == 2);
  kill(parent, SIGKILL);
  REQUIRE(waitpid(parent, nullptr, 0) == parent);
  REQUIRE(readable(ours.number(), kLong));
  CHECK(read(ours.number(), text, sizeof text) == 0);  // the child's end of the pair is closed
}
