#include "runtime/run_folder/log_tail.h"

#include "runtime/base/memory_disk.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

std::vector<std::string> tail_of(const std::string& log) {
  MemoryDisk disk;
  disk.write_atomic("run/log.txt", log);
  return log_tail(disk, "run");
}

std::string numbered(size_t from, size_t to) {
  std::string text;
  for (size_t i = from; i < to; ++i) text += "line " + std::to_string(i) + '\n';
  return text;
}

}  // namespace

TEST_CASE("log_tail: the lines of a short log, in their order, the last one also without its line break") {
  CHECK(tail_of("a\n\nb\nc") == std::vector<std::string>{"a", "", "b", "c"});
  CHECK(tail_of("").empty());
  CHECK(log_tail(MemoryDisk(), "run").empty());
}

TEST_CASE("log_tail: of a long log the newest lines") {
  const std::vector<std::string> lines = tail_of(numbered(0, 100000));
  REQUIRE(lines.size() == kLogTailLines);
  CHECK(lines.front() == "line " + std::to_string(100000 - kLogTailLines));
  CHECK(lines.back() == "line 99999");
}

TEST_CASE("log_tail: a line of which only the end was read is left out") {
  const std::string log = std::string(kLogTailBytes, 'x') + "\nlast\n";
  CHECK(tail_of(log) == std::vector<std::string>{"last"});
  CHECK(tail_of(std::string(2 * kLogTailBytes, 'x')).empty());
}

TEST_CASE("log_tail: control characters are escaped") { CHECK(tail_of("a\x1b[31m\n").front() == "a\\x1b[31m"); }
