#pragma once
// For tests: a process that uses processor time when it is told to.

#include <sys/wait.h>
#include <unistd.h>

#include "tests/runtime/base/computed_time.h"
#include "tests/support/test.h"

namespace troupe::test {

// A process that computes whenever it is told to. With `orphan` it does not descend from this one: the process between
// the two has ended.
class Computing {
 public:
  explicit Computing(bool orphan) {
    REQUIRE(pipe(told_) == 0);
    REQUIRE(pipe(done_) == 0);
    const pid_t child = fork();
    if (child == 0) {
      if (orphan && fork() != 0) _exit(0);
      close(told_[1]);
      id_ = getpid();
      if (write(done_[1], &id_, sizeof id_) != sizeof id_) _exit(1);
      for (char order = 0; read(told_[0], &order, 1) == 1;) {
        test::compute();
        if (write(done_[1], &id_, sizeof id_) != sizeof id_) _exit(1);
      }
      _exit(0);
    }
    REQUIRE(child > 0);
    if (orphan) REQUIRE(waitpid(child, nullptr, 0) == child);
    child_ = orphan ? 0 : child;
    await();
  }
  ~Computing() {
    end();
    for (const int end : {told_[0], done_[0], done_[1]}) close(end);
  }
  Computing(const Computing&) = delete;
  Computing& operator=(const Computing&) = delete;

  pid_t id() const { return id_; }
  void compute() {
    REQUIRE(write(told_[1], "x", 1) == 1);
    await();
  }
  void end() {
    if (ended_) return;
    ended_ = true;
    close(told_[1]);
    close(done_[1]);
    char rest = 0;
    CHECK(read(done_[0], &rest, 1) == 0);  // it has no open descriptors any more
    done_[1] = -1;
    if (child_ > 0) CHECK(waitpid(child_, nullptr, 0) == child_);
  }

 private:
  void await() { REQUIRE(read(done_[0], &id_, sizeof id_) == sizeof id_); }

  int told_[2], done_[2];
  pid_t id_ = 0, child_ = 0;
  bool ended_ = false;
};

}  // namespace troupe::test
