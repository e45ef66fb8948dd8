#include "tools/cli/stop_signals.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "runtime/base/mutex.h"
#include "runtime/base/output.h"
#include "tools/cli/launch.h"

namespace troupe {
namespace {

using Clock = std::chrono::steady_clock;

// XCPU comes at the soft limit of `ulimit -t`, and every second after it until the hard limit ends the process.
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU};

sigset_t stop_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kSignals) sigaddset(&set, signal);
  struct sigaction action{};
  if (sigaction(SIGHUP, nullptr, &action) != 0 || action.sa_handler != SIG_IGN) sigaddset(&set, SIGHUP);
  return set;
}

int checked(int descriptor) {
  if (descriptor < 0) throw std::system_error(errno, std::generic_category(), "cannot watch for signals");
  return descriptor;
}

}  // namespace

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : std::string("SIG") + name;
}

void hold_stop_signals() {
  // Shells start background jobs with INT ignored. It must still be able to stop this process.
  for (const int signal : kSignals) std::signal(signal, SIG_DFL);
  const sigset_t set = stop_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

struct StopSignals::State {
  State(const sigset_t& set, std::string stopped_line)
      : stopped("troupe: " + std::move(stopped_line)),
        signals(checked(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK))),
        closing(checked(eventfd(0, EFD_CLOEXEC))) {}
  ~State() {
    close(signals);
    close(closing);
  }

  void watch();
  void take(int signal);
  [[noreturn]] void quit() const TROUPE_REQUIRES(mutex);

  const std::string stopped;   // the line before begin()
  const int signals, closing;  // descriptors
  Mutex mutex;
  std::condition_variable_any changed;
  bool begun TROUPE_GUARDED_BY(mutex) = false, ended TROUPE_GUARDED_BY(mutex) = false;
  int first TROUPE_GUARDED_BY(mutex) = 0;  // signal that asked to stop
  std::function<std::string(int signal)> message TROUPE_GUARDED_BY(mutex);
  std::function<std::string()> at_quit TROUPE_GUARDED_BY(mutex);
  std::optional<Clock::time_point> interrupted_at TROUPE_GUARDED_BY(mutex);  // by the first INT
};

void StopSignals::State::watch() {
  for (pollfd ready[2] = {{signals, POLLIN, 0}, {closing, POLLIN, 0}};;) {
    if (poll(ready, 2, -1) < 0) continue;
    signalfd_siginfo news{};
    while (read(signals, &news, sizeof news) == sizeof news) take(static_cast<int>(news.ssi_signo));
    if (ready[1].revents != 0) return;
  }
}

void StopSignals::State::quit() const {
  // The user may press Ctrl-C again because the disk does not respond, so the time for `tidy` is limited.
  try {
    std::thread([] {
      std::this_thread::sleep_for(kTidyTime);
      _exit(kExitInterrupted);
    }).detach();
  } catch (const std::system_error&) {
    _exit(kExitInterrupted);  // without the thread, nothing would limit the time
  }
  if (at_quit) print_error(at_quit());
  _exit(kExitInterrupted);
}

void StopSignals::State::take(int signal) {
  const MutexLock lock(mutex);
  if (!begun) {
    print_error(stopped);
    _exit(kExitInterrupted);
  }
  const Clock::time_point now = Clock::now();
  if (signal == SIGINT) {
    if (interrupted_at && now - *interrupted_at >= kSecondInterrupt) quit();
    if (!interrupted_at) interrupted_at = now;
  }
  if (ended) return;  // nothing is left to stop
  const bool is_first = std::exchange(first, first == 0 ? signal : first) == 0;
  changed.notify_all();
  if (is_first && message) write_error(message(signal));
}

StopSignals::StopSignals(std::string stopped) {
  hold_stop_signals();
  state_ = std::make_unique<State>(stop_signals(), std::move(stopped));
  thread_ = std::thread([this] { state_->watch(); });
}

StopSignals::~StopSignals() {
  const uint64_t one = 1;
  while (write(state_->closing, &one, sizeof one) < 0) {
  }
  thread_.join();
}

void StopSignals::begin(const std::function<std::string(int signal)>& message) {
  const MutexLock lock(state_->mutex);
  state_->message = message;
  state_->begun = true;
}

StopSignals::AtQuit::AtQuit(StopSignals& signals, std::function<std::string()> tidy) : signals_(signals) {
  const MutexLock lock(signals_.state_->mutex);
  signals_.state_->at_quit = std::move(tidy);
}

StopSignals::AtQuit::~AtQuit() {
  const MutexLock lock(signals_.state_->mutex);
  signals_.state_->at_quit = nullptr;
}

bool StopSignals::asked() const {
  const MutexLock lock(state_->mutex);
  return state_->first != 0;
}

int StopSignals::first() const {
  const MutexLock lock(state_->mutex);
  return state_->first;
}

bool StopSignals::wait() const {
  const MutexLock lock(state_->mutex);
  state_->changed.wait(state_->mutex,
                       [this]() TROUPE_REQUIRES(state_->mutex) { return state_->first != 0 || state_->ended; });
  return !state_->ended;
}

void StopSignals::wait_for_end() const {
  const MutexLock lock(state_->mutex);
  state_->changed.wait(state_->mutex, [this]() TROUPE_REQUIRES(state_->mutex) { return state_->ended; });
}

void StopSignals::wait_for_end(std::chrono::milliseconds limit) const {
  const MutexLock lock(state_->mutex);
  state_->changed.wait_for(state_->mutex, limit, [this]() TROUPE_REQUIRES(state_->mutex) { return state_->ended; });
}

void StopSignals::end() {
  const MutexLock lock(state_->mutex);
  state_->ended = true;
  state_->changed.notify_all();
}

}  // namespace troupe
