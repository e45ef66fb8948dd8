#include "tests/process/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>

#include "tests/support/run_command.h"

namespace troupe::test {

namespace {

// In the child, between fork and exec.
[[noreturn]] void become(char* const* arguments, int out, int err, const std::optional<rlim_t>& limit_file_size) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // so that no process outlives a test that is killed
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  if (limit_file_size) {
    const rlimit limit{*limit_file_size, *limit_file_size};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  execv(arguments[0], arguments);
  _exit(127);
}

}  // namespace

Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds deadline,
                std::chrono::microseconds pause) {
  const auto end = std::chrono::steady_clock::now() + deadline;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(pause);
  }
  return true;
}

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();  // a stream buffer's iterators would throw where reading fails
  return text.str();
}

Process::Process(Words command, std::optional<rlim_t> limit_file_size) {
  if (command[0].find('/') == std::string::npos) command[0] = test::built_program(command[0]);
  std::vector<char*> arguments;
  for (std::string& word : command) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC;
  const int out = open((files_ / "out").c_str(), flags, 0600), err = open((files_ / "err").c_str(), flags, 0600);
  id_ = fork();
  if (id_ == 0) become(arguments.data(), out, err, limit_file_size);
  close(out);
  close(err);
  if (id_ < 0) throw std::runtime_error("cannot start " + command[0]);
}

Process::~Process() {
  if (exit_code()) return;
  signal(SIGKILL);
  waitpid(id_, nullptr, 0);
}

void Process::signal(int number) const {
  if (!exit_code_) kill(id_, number);
}

std::optional<int> Process::exit_code() {
  int status = 0;
  if (!exit_code_ && waitpid(id_, &status, WNOHANG) == id_)
    exit_code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return exit_code_;
}

std::optional<int> Process::wait(std::chrono::milliseconds deadline) {
  eventually([&] { return exit_code().has_value(); }, deadline);
  return exit_code_;
}

uint64_t Process::status_bytes(const std::string& key) const {
  std::ifstream file("/proc/" + std::to_string(id_) + "/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(key)) return std::stoull(line.substr(key.size())) * 1024;
  return 0;
}

uint64_t Process::resident_bytes() const { return status_bytes("VmRSS:"); }
uint64_t Process::peak_resident_bytes() const { return status_bytes("VmHWM:"); }

CommandLine::CommandLine(const Words& words) {
  Process process(words);
  exit_code = process.wait().value_or(-1);
  out = process.out();
  err = process.err();
}

}  // namespace troupe::test
