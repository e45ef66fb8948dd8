#include "tools/top/signal_pipe.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "runtime/base/file.h"

namespace troupe {

namespace {

volatile std::sig_atomic_t came = 0;
int event = -1;

void note(int) {
  const int error = errno;
  came = 1;
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(event, &one, sizeof one);
  errno = error;
}

}  // namespace

SignalPipe::SignalPipe() {
  event = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (event < 0) throw IoError("signals", "no event descriptor", errno);
  struct sigaction action{};
  action.sa_handler = note;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &action, &before_[i]);
}

SignalPipe::~SignalPipe() {
  for (size_t i = 0; i < kSignals.size(); ++i) ::sigaction(kSignals[i], &before_[i], nullptr);
  ::close(event);
}

int SignalPipe::descriptor() const { return event; }

bool SignalPipe::asked() { return came != 0; }

}  // namespace troupe
