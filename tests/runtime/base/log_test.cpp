#include "runtime/base/log.h"

#include <algorithm>
#include <sstream>

#include "runtime/base/limited_log.h"
#include "runtime/base/memory_disk.h"
#include "runtime/base/output_log.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace std::chrono_literals;

namespace {

constexpr LogOptions kFileOnly{LogLevel::info, LogLevel::error, false};

// While it exists, the log is written to a file in memory.
struct LogToMemory {
  explicit LogToMemory(LogOptions options = kFileOnly) { open_log(disk.open_append("log.txt"), options); }
  ~LogToMemory() { close_log(); }
  std::string text() const { return disk.read("log.txt"); }
  MemoryDisk disk;
};

size_t lines_in(const std::string& text) { return static_cast<size_t>(std::count(text.begin(), text.end(), '\n')); }

}  // namespace

TEST_CASE("log: a line has time, level, component and text; debug lines are not written") {
  LogToMemory log;
  log_debug("trainer", "hidden");
  log_warn("trainer", "step 3 was not finite");
  CHECK(lines_in(log.text()) == 1);
  CHECK(log.text().find(" warning trainer: step 3 was not finite\n") != std::string::npos);
  CHECK(log.text().substr(0, 2) == "20");
}

TEST_CASE("log: a text with line breaks and control bytes stays one line") {
  LogToMemory log;
  log_info("socket", "a\nb\x01{}%s");
  CHECK(lines_in(log.text()) == 1);
  CHECK(log.text().find("socket: a\\x0ab\\x01{}%s") != std::string::npos);
}

TEST_CASE("log: identical lines are written once, and counted when the log closes") {
  LogToMemory log;
  for (int i = 0; i < 100; ++i) log_info("env", "failed");
  for (int i = 0; i < 2; ++i) log_info("env", "other");
  CHECK(lines_in(log.text()) == 2);
  close_log();
  CHECK(lines_in(log.text()) == 4);
  CHECK(log.text().find("env: other (and 1 time more)") != std::string::npos);
  CHECK(log.text().find("env: failed (and 99 times more)") != std::string::npos);
}

TEST_CASE("log: a block is held back as a whole, and lines that other blocks have too are kept") {
  const std::vector<std::string> first{"Traceback:", "  in step", "ValueError: 1"},
      second{"Traceback:", "  in step", "ValueError: 2"};
  LogToMemory log;
  for (int i = 0; i < 3; ++i) log_block(LogLevel::info, "env", first);
  log_block(LogLevel::info, "env", second);
  log_info("env", "  in step");
  CHECK(lines_in(log.text()) == 7);
  close_log();
  CHECK(lines_in(log.text()) == 10);
  CHECK(log.text().find("env: Traceback: (and 2 times more)\n") != std::string::npos);
  CHECK(log.text().ends_with("env: ValueError: 1\n"));
}

TEST_CASE("output_log: the tracebacks that a child prints are written whole, also those that share lines") {
  LogToMemory log;
  const auto traceback = [](const std::string& error) {
    return std::vector<std::string>{"Traceback (most recent call last):", "  File \"env.py\", line 3, in step",
                                    "    raise error", "    ^^^^^^^^^^^", error};
  };
  {
    OutputLog output("py:env");
    for (const std::string error : {"ValueError: 1", "KeyError: 2", "ValueError: 1"}) {
      output.add("a line");
      for (const std::string& line : traceback(error)) output.add(line);
    }
    output.add("Traceback (most recent call last):");  // and the child ends
    output.add("  File \"env.py\", line 3, in step");
  }
  std::string all;
  std::istringstream lines(log.text());
  for (std::string line; std::getline(lines, line);) all += line.substr(line.find("py:env: ") + 8) + '\n';
  std::string expected = "a line\n";
  for (const std::string error : {"ValueError: 1", "KeyError: 2"})
    for (const std::string& line : traceback(error)) expected += line + '\n';
  CHECK(all == expected + "Traceback (most recent call last):\n  File \"env.py\", line 3, in step\n");
}

TEST_CASE("log: the same text at another level is another line") {
  LogToMemory log;
  log_info("env", "failed");
  log_error("env", "failed");
  CHECK(lines_in(log.text()) == 2);
}

TEST_CASE("limited_log: so many lines at once, then one per second, and the next line says how many were left out") {
  LogToMemory log;
  const auto start = LimitedLog::Clock::now();
  {
    LimitedLog limited("supervisor", 256);
    for (int i = 0; i < 300; ++i) limited.info("worker " + std::to_string(i) + " joined", start);
    CHECK(lines_in(log.text()) == 256);
    CHECK(log.text().ends_with(" info    supervisor: worker 255 joined\n"));
    limited.warn("worker 7 ended", start + 1s);
    CHECK(log.text().ends_with(" warning supervisor: worker 7 ended (left out before it: 44 lines)\n"));
    limited.warn("worker 8 ended", start + 1500ms);
    limited.info("worker 300 joined", start + 1900ms);
    CHECK(lines_in(log.text()) == 257);
  }
  CHECK(log.text().ends_with(" info    supervisor: left out after that: 2 lines of this kind\n"));
}

TEST_CASE("log: lines that cannot be written are counted, and later ones are written") {
  LogToMemory log;
  log.disk.set_fault({DiskFault::Kind::refuse, log.disk.operations(), 2});
  for (const char* text : {"one", "two", "three"}) log_info("x", text);
  CHECK(log_lines_lost() == 2);
  CHECK(lines_in(log.text()) == 2);
  CHECK(log.text().find(" warning log: 2 lines before this one are lost: log.txt: cannot write: No space left on") !=
        std::string::npos);
  CHECK(log.text().ends_with(" info    x: three\n"));
}

TEST_CASE("log: a file that refused the last line is tried again with a line about those that are lost, once") {
  LogToMemory log;
  CHECK(log_refusal() == "");
  log.disk.set_fault({DiskFault::Kind::refuse, log.disk.operations(), 2});
  log_info("x", "one");
  CHECK(log_refusal().starts_with("log.txt: cannot write: No space left on device"));
  CHECK(log_refusal() == "");
  CHECK(log_refusal() == "");
  CHECK(log_lines_lost() == 1);
  CHECK(lines_in(log.text()) == 1);
  CHECK(log.text().find("log: 1 line before this one is lost: log.txt: ") != std::string::npos);
}

TEST_CASE("log: only lines that go to stderr count as lines there") {
  const uint64_t before = stderr_lines();
  {
    LogToMemory log;
    log_error("x", "to the file alone");
    CHECK(stderr_lines() == before);
  }
  LogToMemory log({.stderr_level = LogLevel::error});
  log_warn("x", "below the level");
  CHECK(stderr_lines() == before);
  log_error("x", "to both");
  CHECK(stderr_lines() == before + 1);
  log.disk.set_fault({DiskFault::Kind::refuse, log.disk.operations(), 2});
  for (const char* text : {"lost", "lost too"}) log_info("x", text);
  CHECK(stderr_lines() == before + 2);  // the first one is reported
}

TEST_CASE("repeat_filter: a line passes again after the window, with the number held back") {
  RepeatFilter filter(10s);
  const RepeatFilter::Clock::time_point start;
  uint64_t repeats = 99;
  CHECK(filter.pass("a", start, repeats));
  CHECK(repeats == 0);
  CHECK_FALSE(filter.pass("a", start + 9s, repeats));
  CHECK(filter.pass("b", start + 9s, repeats));
  CHECK(filter.pass("a", start + 10s, repeats));
  CHECK(repeats == 1);
}

TEST_CASE("repeat_filter: many different lines all pass, and old ones are removed") {
  RepeatFilter filter(10s);
  const RepeatFilter::Clock::time_point start;
  uint64_t repeats = 0;
  int passed = 0;
  for (int i = 0; i < 100'000; ++i) passed += filter.pass(std::to_string(i), start, repeats);
  CHECK(passed == 100'000);
  CHECK(filter.pass("new", start + 20s, repeats));  // the old ones were removed, so this one is kept
  CHECK_FALSE(filter.pass("new", start + 21s, repeats));
}
