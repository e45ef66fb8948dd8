#include "tools/cli/alarm_command.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include <nlohmann/json.hpp>

#include "runtime/base/child_process.h"
#include "runtime/base/descriptor.h"
#include "runtime/base/file.h"
#include "runtime/base/log.h"
#include "runtime/base/output_log.h"

namespace troupe {

namespace {

constexpr const char* kOnAlarm = "on-alarm";
// Between two looks whether the run is stopped while a command runs.
constexpr std::chrono::milliseconds kStopLook{200};

// A word of a command line ends at a zero byte.
std::string without_zeros(std::string text) {
  std::erase(text, '\0');
  return text;
}

std::string alarm_json(const RaisedAlarm& raised, const std::string& run) {
  const nlohmann::ordered_json line{{"alarm", raised.name},
                                    {"level", std::string(text_of(raised.alarm.level))},
                                    {"text", raised.alarm.text},
                                    {"update", raised.alarm.since_update},
                                    {"run", run}};
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + '\n';
}

// The end of a pipe from which a child reads that line, which is shorter than what a pipe holds.
Descriptor pipe_with(const std::string& line) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) throw IoError("--on-alarm", "no pipe for its stdin", errno);
  Descriptor read(ends[0]), write(ends[1]);
  fcntl(read.number(), F_SETFL, 0);  // the child blocks as usual
  if (::write(write.number(), line.data(), line.size()) < 0) throw IoError("--on-alarm", "its stdin", errno);
  return read;
}

}  // namespace

AlarmCommand::AlarmCommand(std::string command, std::string run, std::chrono::milliseconds limit)
    : command_(std::move(command)), run_(std::move(run)), limit_(limit), thread_([this] { work(); }) {}

AlarmCommand::~AlarmCommand() { finish(/*at_once=*/true); }

void AlarmCommand::run(const RaisedAlarm& raised) {
  const MutexLock lock(mutex_);
  if (closing_) return;
  if (waiting_.size() >= kMostWaiting)
    return log_warn(kOnAlarm, "alarm " + raised.name + ": the command is not run, because " +
                                  std::to_string(kMostWaiting) + " alarms wait for it");
  waiting_.push_back(raised);
  changed_.notify_all();
}

void AlarmCommand::finish(bool at_once) {
  {
    const MutexLock lock(mutex_);
    if (!std::exchange(closing_, true)) end_ = std::chrono::steady_clock::now() + limit_;
    stopped_ |= at_once;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void AlarmCommand::work() {
  for (;;) {
    RaisedAlarm next;
    {
      const MutexLock lock(mutex_);
      while (waiting_.empty() && !closing_) changed_.wait(mutex_);
      if (waiting_.empty() || stopped_) return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
    }
    try {
      run_one(next);
    } catch (const IoError& error) {
      log_warn(kOnAlarm, "alarm " + next.name + ": " + error.what());
    }
  }
}

void AlarmCommand::run_one(const RaisedAlarm& raised) {
  const std::chrono::milliseconds allowed = left();
  if (allowed.count() <= 0)
    return log_warn(kOnAlarm, "alarm " + raised.name + ": the command is not run, because the run has ended");
  const Descriptor line = pipe_with(alarm_json(raised, run_));
  OutputLog output(kOnAlarm);
  const int descriptor = line.number();
  ChildProcess child(words_for(raised), {&descriptor, 1}, [&output](std::string_view text) { output.add(text); });
  const Deadline deadline(allowed);
  while (!child.wait(std::min(deadline.left(), kStopLook)) && !deadline.passed() && !is_stopped()) continue;
  const bool ended = child.exit_code().has_value();
  if (ended && child.exit_code() == 0) return;
  const std::string state = child.state();
  child.kill();
  const bool killed = state == "is running";
  log_warn(kOnAlarm, "alarm " + raised.name + ": the command " +
                         (!killed        ? state
                          : is_stopped() ? "was killed, because the run was stopped"
                                         : "was killed, because it did not end in time"));
}

// `env` sets the variables of the shell. The shell reads the line that is descriptor 3.
std::vector<std::string> AlarmCommand::words_for(const RaisedAlarm& raised) const {
  std::vector<std::string> words = {"env",
                                    "TROUPE_ALARM=" + raised.name,
                                    "TROUPE_ALARM_LEVEL=" + std::string(text_of(raised.alarm.level)),
                                    "TROUPE_ALARM_TEXT=" + raised.alarm.text,
                                    "TROUPE_RUN=" + run_,
                                    "/bin/sh",
                                    "-c",
                                    "exec <&3 3<&-\n" + command_};
  for (std::string& word : words) word = without_zeros(std::move(word));
  return words;
}

bool AlarmCommand::is_stopped() {
  const MutexLock lock(mutex_);
  return stopped_;
}

// The time that a command may take now.
std::chrono::milliseconds AlarmCommand::left() {
  const MutexLock lock(mutex_);
  if (!closing_) return limit_;
  return std::min(limit_,
                  std::chrono::duration_cast<std::chrono::milliseconds>(end_ - std::chrono::steady_clock::now()));
}

}  // namespace troupe
