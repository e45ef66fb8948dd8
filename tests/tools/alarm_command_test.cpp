#include "tools/cli/alarm_command.h"

#include <fstream>
#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

#include "runtime/base/log.h"
#include "runtime/base/memory_disk.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;

namespace {

const RaisedAlarm kCollapse{"return_collapse", {AlarmLevel::error, 7, "it is \"low\": look\n"}};

std::string text_of_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

// What the log of a run has after these alarms, all of which are waited for.
std::string log_after(const std::string& command, int alarms, std::chrono::milliseconds limit = 60s) {
  MemoryDisk disk;
  open_log(disk.open_append("log"), {.to_stderr = false});
  {
    AlarmCommand commands(command, "runs/a", limit);
    for (int i = 0; i < alarms; ++i) commands.run(kCollapse);
    commands.finish(/*at_once=*/false);
  }
  close_log();
  open_log(nullptr, {.to_stderr = false});
  return disk.exists("log") ? disk.read("log") : "";
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

}  // namespace

TEST_CASE("alarm_command: the command has the alarm in its environment and as a line of JSON on its stdin") {
  const TempFolder folder;
  const std::string out = folder / "out", in = folder / "in";
  log_after("printf '%s|%s|%s|%s' \"$TROUPE_ALARM\" \"$TROUPE_ALARM_LEVEL\" \"$TROUPE_ALARM_TEXT\" \"$TROUPE_RUN\" > " +
                out + "; cat > " + in,
            1);
  CHECK(text_of_file(out) == "return_collapse|error|it is \"low\": look\n|runs/a");
  const std::string line = text_of_file(in);
  CHECK(count_of(line, "\n") == 1);
  CHECK(nlohmann::json::parse(line) == nlohmann::json{{"alarm", "return_collapse"},
                                                      {"level", "error"},
                                                      {"text", "it is \"low\": look\n"},
                                                      {"update", 7},
                                                      {"run", "runs/a"}});
}

TEST_CASE("alarm_command: what it prints is in the log, and success is no warning") {
  const std::string log = log_after("echo told; echo somebody >&2", 1);
  CHECK(count_of(log, "told") == 1);
  CHECK(count_of(log, "somebody") == 1);
  CHECK(count_of(log, "warning") == 0);
}

TEST_CASE("alarm_command: a command that fails is one warning with its exit code") {
  const std::string log = log_after("exit 3", 1);
  CHECK(count_of(log, "warning") == 1);
  CHECK(count_of(log, "alarm return_collapse: the command ended with exit code 3") == 1);
}

TEST_CASE("alarm_command: commands run one after the other, once for each alarm") {
  const TempFolder folder;
  const std::string lock = folder / "lock", out = folder / "out";
  // mkdir fails where another command has the folder.
  const std::string log = log_after("mkdir " + lock + " && echo once >> " + out + " && rmdir " + lock, 5);
  CHECK(count_of(log, "warning") == 0);
  CHECK(count_of(text_of_file(out), "once") == 5);
}

TEST_CASE("alarm_command: a command that does not end in time is killed with what it has started") {
  const TempFolder folder;
  const std::string log = log_after("sleep 600 & sleep 600", 1, 2s);
  CHECK(count_of(log, "was killed, because it did not end in time") == 1);
}

TEST_CASE("alarm_command: a stop kills the command that runs, and those that wait are not run") {
  const TempFolder folder;
  AlarmCommand commands("echo begun >> " + (folder / "out") + "; sleep 600", "runs/a");
  for (int i = 0; i < 3; ++i) commands.run(kCollapse);
  const auto begun = std::chrono::steady_clock::now();
  commands.finish(/*at_once=*/true);
  CHECK(std::chrono::steady_clock::now() - begun < 60s);
  CHECK(count_of(text_of_file(folder / "out"), "begun") <= 1);
  commands.run(kCollapse);  // is not run, and does nothing
}

TEST_CASE("alarm_command: a zero byte in a name does not cut the rest of the command") {
  const TempFolder folder;
  MemoryDisk disk;
  open_log(disk.open_append("log"), {.to_stderr = false});
  {
    AlarmCommand commands("printf '%s' \"$TROUPE_ALARM_TEXT\" > " + (folder / "out"), "runs/a");
    commands.run({"kl_high", {AlarmLevel::warning, 1, std::string("a\0b", 3)}});
    commands.finish(/*at_once=*/false);
  }
  open_log(nullptr, {.to_stderr = false});
  CHECK(text_of_file(folder / "out") == "ab");
}
