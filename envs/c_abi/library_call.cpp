#include "envs/c_abi/library_call.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <string_view>

namespace troupe {

namespace {

std::atomic<volatile LibraryNotes*> shared_place = nullptr;

// What this thread runs. Plain values, because a signal handler reads them.
thread_local volatile uint32_t running = 0;
thread_local const char* volatile running_library = "";

void note(const char* library, LibraryFunction function) {
  running_library = library;
  running = static_cast<uint32_t>(function);
  volatile LibraryNotes* place = shared_place.load(std::memory_order_relaxed);
  if (place == nullptr) return;
  place->running = static_cast<uint32_t>(function);
  if (function != LibraryFunction::none) place->last = static_cast<uint32_t>(function);
}

std::atomic<bool> announcing = false;

// Memory on which a signal handler of this thread runs, because its own stack may be full. One that is there already,
// of a sanitizer, is kept.
class HandlerStack {
 public:
  HandlerStack() {
    stack_t present{};
    if (sigaltstack(nullptr, &present) != 0 || (present.ss_flags & SS_DISABLE) == 0) return;
    memory_ = std::make_unique<std::byte[]>(kSize);
    stack_t own{};
    own.ss_sp = memory_.get();
    own.ss_size = kSize;
    sigaltstack(&own, nullptr);
  }
  ~HandlerStack() {
    if (!memory_) return;
    stack_t none{};
    none.ss_flags = SS_DISABLE;
    sigaltstack(&none, nullptr);
  }
  HandlerStack(const HandlerStack&) = delete;
  HandlerStack& operator=(const HandlerStack&) = delete;

 private:
  static constexpr size_t kSize = 1 << 16;
  std::unique_ptr<std::byte[]> memory_;
};

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS};
struct sigaction former_actions[std::size(kSignals)];

// A line about the end of this process. System calls only: a signal handler calls it.
void write_line(const char* how, const char* detail) {
  for (const char* part : {"\ntroupe: lib:", running_library, ": ", name_of(running), how, detail,
                           "; set env.isolate to true to let the run go on\n"})
    if (::write(STDERR_FILENO, part, std::strlen(part)) < 0) return;
}

void on_signal(int signal) {
  if (running != 0) {
    const char* name = sigdescr_np(signal);
    write_line(" ended this process by a signal: ", name == nullptr ? "unknown" : name);
  }
  for (size_t i = 0; i < std::size(kSignals); ++i)
    if (kSignals[i] == signal) sigaction(signal, &former_actions[i], nullptr);
  raise(signal);  // it is blocked until this handler returns
}

// exit() inside a library must not look like the success of this process.
void on_exit() {
  constexpr int kFailure = 1;
  if (running == 0) return;
  write_line(" called exit()", "");
  _exit(kFailure);
}

}  // namespace

const char* name_of(LibraryFunction function) {
  constexpr const char* kNames[] = {
      "none of its functions", "its loading",      "troupe_env_version", "troupe_env_describe", "troupe_env_create",
      "troupe_env_destroy",    "troupe_env_reset", "troupe_env_step",    "troupe_env_observe",  "troupe_env_mask",
      "troupe_env_error",      "troupe_env_save",  "troupe_env_load",    "troupe_env_render"};
  const auto index = static_cast<size_t>(function);
  return kNames[index < std::size(kNames) ? index : 0];
}

void note_calls_at(volatile LibraryNotes* place) { shared_place = place; }

void announce_crashes() {
  static const bool done = [] {
    struct sigaction action{};
    action.sa_handler = on_signal;
    action.sa_flags = SA_ONSTACK;
    for (size_t i = 0; i < std::size(kSignals); ++i) sigaction(kSignals[i], &action, &former_actions[i]);
    announcing = true;
    return std::atexit(on_exit) == 0;
  }();
  static_cast<void>(done);
}

NotedCall::NotedCall(const std::string& path, LibraryFunction function) {
  if (announcing.load(std::memory_order_relaxed)) thread_local const HandlerStack handler_stack;
  note(path.c_str(), function);
}

NotedCall::~NotedCall() { note("", LibraryFunction::none); }

void end_with_thread() {
  constexpr std::string_view kWhy = "the function called pthread_exit()\n";
  if (::write(STDERR_FILENO, kWhy.data(), kWhy.size()) < 0) std::abort();
  std::abort();
}

}  // namespace troupe
