#include "tests/support/run_command.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>

namespace troupe::test {
namespace {

// Files instead of pipes, so that the program never blocks, however much it writes.
using File = std::unique_ptr<FILE, int (*)(FILE*)>;

std::string contents(FILE* file) {
  std::string text;
  char buffer[4096];
  std::rewind(file);
  while (const size_t count = std::fread(buffer, 1, sizeof buffer, file)) text.append(buffer, count);
  return text;
}

}  // namespace

CommandResult run_command(const std::vector<std::string>& command) {
  const File out(std::tmpfile(), std::fclose), err(std::tmpfile(), std::fclose);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fileno(out.get()), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, fileno(err.get()), STDERR_FILENO);
  pid_t child = 0;
  const int failed = posix_spawn(&child, command[0].c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) throw std::runtime_error(command[0] + ": " + std::strerror(failed));
  int status = 0;
  waitpid(child, &status, 0);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return {code, contents(out.get()), contents(err.get())};
}

std::string built_program(const std::string& name) {
  const char* folder = std::getenv("TROUPE_BUILD_DIR");
  if (folder == nullptr) throw std::runtime_error("TROUPE_BUILD_DIR is not set; start this test with ctest");
  return std::string(folder) + '/' + name;
}

}  // namespace troupe::test
