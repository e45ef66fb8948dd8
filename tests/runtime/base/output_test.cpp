#include "runtime/base/output.h"

#include <fcntl.h>
#include <pty.h>
#include <unistd.h>

#include <csignal>

#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

// A pipe or terminal: what is written to `in` comes out of `out`.
struct Channel {
  int out = -1, in = -1;

  static Channel pipe() {
    int ends[2] = {-1, -1};
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    return {ends[0], ends[1]};
  }
  static Channel terminal() {
    Channel channel;
    REQUIRE(openpty(&channel.out, &channel.in, nullptr, nullptr, nullptr) == 0);
    return channel;
  }

  std::string read_all() {
    fcntl(out, F_SETFL, O_NONBLOCK);
    std::string text;
    char block[4096];
    for (ssize_t count = 0; (count = ::read(out, block, sizeof block)) > 0;)
      text.append(block, static_cast<size_t>(count));
    return text;
  }
  void close_all() {
    ::close(out);
    ::close(in);
  }
};

const std::string kLine = std::string(99, 'x') + '\n';

// The number of lines that were written before the first one was dropped.
size_t fill(Output& output) {
  size_t lines = 0;
  while (output.write(kLine)) ++lines;
  return lines;
}

std::string without_returns(std::string text) {
  std::erase(text, '\r');
  return text;
}

}  // namespace

TEST_CASE("output: lines that are not read are dropped and counted, and the number is written when reading continues") {
  for (Channel channel : {Channel::pipe(), Channel::terminal()}) {
    Output output(channel.in);
    const size_t taken = fill(output);
    CHECK(taken > 20);
    CHECK(output.new_trouble() == "is not read");
    CHECK(!output.write(kLine));
    CHECK(output.new_trouble() == "");  // reported already
    std::string text = channel.read_all();
    CHECK(output.write("last\n"));
    text = without_returns(text + channel.read_all());
    const std::string end = "(2 console lines were not shown)\nlast\n";
    CHECK(text.size() >= end.size());
    CHECK(text.ends_with(end));
    // A line that was begun is complete.
    const std::string lines = text.substr(0, text.size() - end.size());
    CHECK(lines.size() % kLine.size() == 0);
    CHECK(lines.find_first_not_of(kLine) == std::string::npos);
    channel.close_all();
  }
}

TEST_CASE("output: pictures that are dropped are not counted") {
  Channel channel = Channel::pipe();
  Output output(channel.in);
  while (output.draw(kLine)) {
  }
  channel.read_all();
  CHECK(output.write("line\n"));
  CHECK(channel.read_all() == "line\n");
  channel.close_all();
}

TEST_CASE("output: a text longer than a pipe holds arrives completely, in parts") {
  Channel channel = Channel::pipe();
  Output output(channel.in);
  const std::string text(200'000, 'y');
  CHECK(output.write(text));
  std::string read = channel.read_all();
  while (read.size() < text.size() && !output.write("\n")) read += channel.read_all();
  read += channel.read_all();
  CHECK(read.substr(0, text.size()) == text);
  CHECK(read.find('y', text.size()) == std::string::npos);
  channel.close_all();
}

TEST_CASE("output: a closed reader, a full device and a descriptor closed for writing are named") {
  Channel channel = Channel::pipe();
  ::close(channel.out);
  std::signal(SIGPIPE, SIG_IGN);
  Output broken(channel.in);
  CHECK(!broken.write(kLine));
  CHECK(broken.new_trouble() == "cannot be written: Broken pipe");
  ::close(channel.in);
  const int full = ::open("/dev/full", O_WRONLY), closed = ::open("/dev/null", O_RDONLY);
  Output no_space(full), no_output(closed);
  CHECK(!no_space.write(kLine));
  CHECK(no_space.new_trouble() == "cannot be written: No space left on device");
  CHECK(!no_output.write(kLine));
  CHECK(no_output.new_trouble() == "cannot be written: Bad file descriptor");
  ::close(full);
  ::close(closed);
}

TEST_CASE("output: the flags of the descriptor stay as they are") {
  for (Channel channel : {Channel::pipe(), Channel::terminal()}) {
    const int before = fcntl(channel.in, F_GETFL);
    Output output(channel.in);
    fill(output);
    CHECK(fcntl(channel.in, F_GETFL) == before);
    channel.close_all();
  }
}

TEST_CASE("output: a line stays one line, also with control characters") {
  const test::TempFolder folder;
  const int file = ::open((folder / "out").c_str(), O_RDWR | O_CREAT, 0600);
  Output output(file);
  print_line("a\nb\x1b[2Jc\r", output);
  char text[100];
  const ssize_t size = ::pread(file, text, sizeof text, 0);
  CHECK(std::string(text, static_cast<size_t>(size)) == "a\\x0ab\\x1b[2Jc\\x0d\n");
  ::close(file);
}
