#include "tools/cli/stop_limit.h"

#include <sys/wait.h>
#include <unistd.h>

#include <condition_variable>
#include <future>

#include "runtime/base/mutex.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace std::chrono_literals;

namespace {

// A signal that the test sends, and environments of which it says what they do. Each look at them is one more of their
// calls.
class Fakes {
 public:
  enum class Environments : uint8_t { unused, step, fail, hang };

  StopLimit::Sources sources() {
    return {.wait = [this] { return wait(); },
            .end = [this] { set(ended_); },
            .calls = [this] { return look(); },
            .patience = [] { return 1ms; }};
  }
  void signal() { set(asked_); }
  void set(Environments now) {
    const MutexLock lock(mutex_);
    environments_ = now;
  }
  // Waits until the calls of the environments were looked at so often from now on.
  void wait_for_looks(int count) {
    const MutexLock lock(mutex_);
    changed_.wait(mutex_, [&, until = looks_ + count] { return looks_ >= until; });
  }

 private:
  bool wait() {
    const MutexLock lock(mutex_);
    changed_.wait(mutex_, [this] { return asked_ || ended_; });
    return !ended_;
  }
  void set(bool& flag) {
    const MutexLock lock(mutex_);
    flag = true;
    changed_.notify_all();
  }
  EnvironmentCalls look() {
    const MutexLock lock(mutex_);
    ++looks_;
    changed_.notify_all();
    if (environments_ == Environments::unused) return calls_;
    ++calls_.begun;
    calls_.returned = calls_.begun - (environments_ == Environments::hang ? 1 : 0);
    if (environments_ == Environments::step) ++calls_.made;
    return calls_;
  }

  Mutex mutex_;
  std::condition_variable_any changed_;
  bool asked_ = false, ended_ = false;
  Environments environments_ = Environments::unused;
  EnvironmentCalls calls_;
  int looks_ = 0;
};

using Environments = Fakes::Environments;

// A run that is not expected to be given up.
struct Run {
  explicit Run(Environments environments) {
    fakes.set(environments);
    limit = std::make_unique<StopLimit>(fakes.sources(), [] { FAIL_CHECK("given up"); });
  }

  Fakes fakes;
  std::unique_ptr<StopLimit> limit;
};

}  // namespace

TEST_CASE("stop_limit: without a signal a run goes on, whatever its environments do, and the end waits for nothing") {
  for (const Environments environments : {Environments::unused, Environments::fail, Environments::hang}) {
    Run run(environments);
    run.limit->next();
  }
}

TEST_CASE("stop_limit: after a signal, environments that make steps or are not called are waited for") {
  for (const Environments environments : {Environments::step, Environments::unused}) {
    Run run(environments);
    run.fakes.signal();
    for (int message = 0; message < 5; ++message) {
      run.fakes.wait_for_looks(2);
      run.limit->next();
    }
  }
}

TEST_CASE("stop_limit: after a signal, a run inside an environment that hangs is given up") {
  Fakes fakes;
  fakes.set(Environments::hang);
  std::promise<void> given_up;
  StopLimit limit(fakes.sources(), [&] { given_up.set_value(); });
  fakes.signal();
  CHECK(given_up.get_future().wait_for(60s) == std::future_status::ready);
}

TEST_CASE("stop_limit: after a signal, a run whose environments fail stops at its next message and is given up") {
  const pid_t child = fork();
  if (child == 0) {
    Fakes fakes;
    fakes.set(Environments::fail);
    StopLimit limit(fakes.sources(), [] { _exit(7); });
    fakes.signal();
    for (;;) limit.next();  // does not return for ever
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 7);
}

TEST_CASE("stop_limit: a run that ends after its last message, while it is about to be given up, ends normally") {
  Run run(Environments::fail);
  run.fakes.signal();
  run.fakes.wait_for_looks(4);  // two before it is to be given up; then it is only looked at
  run.limit.reset();
}

TEST_CASE("stop_limit: a run that obeys while it is about to be given up goes on") {
  Run run(Environments::fail);
  run.fakes.signal();
  run.fakes.wait_for_looks(4);
  run.limit->stopping();
  for (int message = 0; message < 5; ++message) run.limit->next();
}
