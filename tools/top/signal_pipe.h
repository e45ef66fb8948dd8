#pragma once
// The signals that end `troupe top`, as something to wait for with poll(). One at a time; one thread.

#include <array>
#include <csignal>

namespace troupe {

class SignalPipe {
 public:
  // From now on INT, TERM, HUP and QUIT do not end the process.
  SignalPipe();
  ~SignalPipe();
  SignalPipe(const SignalPipe&) = delete;
  SignalPipe& operator=(const SignalPipe&) = delete;

  int descriptor() const;  // readable once one of them has come
  static bool asked();     // whether one has

 private:
  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
  std::array<struct sigaction, kSignals.size()> before_{};
};

}  // namespace troupe
