#pragma once
// The signals that ask a command to stop: INT, TERM, USR1, USR2, XCPU, and HUP unless the process was started with HUP
// ignored, as nohup does. Launchers send several of them for one stop, so further signals have no effect. The exception
// is a second INT at least kSecondInterrupt after the first: it ends the process at once. Used by the commands that run
// until they are told to stop.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

namespace troupe {

constexpr std::chrono::seconds kSecondInterrupt{1};
constexpr std::chrono::seconds kTidyTime{1};

// Keeps these signals pending, also across exec, until a StopSignals handles them. Call it before the first thread
// starts.
void hold_stop_signals();

// "SIGTERM".
std::string signal_name(int signal);

class StopSignals {
 public:
  // Blocks the signals and handles them on a separate thread, until it is destroyed. Call it before any other thread
  // starts. A signal before begin() ends the process with the line "troupe: `stopped`".
  explicit StopSignals(std::string stopped = "stopped before the run began; nothing was written");
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // Until this is called, a signal ends the process with kExitInterrupted, because there is nothing to lose. From now
  // on a signal asks to stop. If there is a `message`, its text for the first signal is printed on stderr.
  void begin(const std::function<std::string(int signal)>& message);
  // While it exists, a second INT calls `tidy`, prints the line that it returns on stderr, and ends the process. `tidy`
  // runs on the thread of the signals for at most kTidyTime, and must not wait for the thread of the command.
  class AtQuit {
   public:
    AtQuit(StopSignals& signals, std::function<std::string()> tidy);
    ~AtQuit();
    AtQuit(const AtQuit&) = delete;
    AtQuit& operator=(const AtQuit&) = delete;

   private:
    StopSignals& signals_;
  };

  // Whether a signal asked to stop. Usable from any thread.
  bool asked() const;
  // The first signal that asked; 0 while none has.
  int first() const;
  // Blocks until a signal asks to stop (true) or end() was called (false).
  bool wait() const;
  // Blocks until end() was called; with a limit, for at most that time.
  void wait_for_end() const;
  void wait_for_end(std::chrono::milliseconds limit) const;
  // The command has ended: later signals have no effect and print nothing, except a second INT. Usable from any
  // thread.
  void end();

 private:
  struct State;
  std::unique_ptr<State> state_;
  std::thread thread_;
};

}  // namespace troupe
