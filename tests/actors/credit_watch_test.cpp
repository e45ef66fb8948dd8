#include "actors/credit_watch.h"

#include "tests/support/test.h"

using namespace troupe;
using namespace std::chrono_literals;

namespace {

using Workers = std::vector<uint64_t>;

struct Watched {
  // Looks at the workers every second for this long. Returns those that became overdue.
  Workers pass(std::chrono::seconds time) {
    Workers all;
    for (int i = 0; i < time.count(); ++i) {
      now += 1s;
      for (const uint64_t worker : watch.overdue(now, [&](uint64_t) { return holding; })) all.push_back(worker);
    }
    return all;
  }

  CreditWatch watch{10s};
  CreditWatch::Clock::time_point now{1h};
  bool holding = true;
};

}  // namespace

TEST_CASE("credit_watch: a worker is overdue once when it has delivered nothing for the time, and again after that") {
  Watched w;
  w.watch.granted(1, w.now);
  w.watch.granted(2, w.now);
  CHECK(!w.watch.delivered(2, w.now));
  CHECK(w.pass(9s).empty());
  w.watch.delivered(2, w.now);
  CHECK(w.pass(60s) == Workers{1, 2});
  CHECK(w.watch.silence(1, w.now) == 69s);
  CHECK(w.watch.delivered(1, w.now));
  CHECK(w.pass(60s) == Workers{1});
  CHECK(w.watch.delivered(1, w.now));
}

TEST_CASE("credit_watch: steps count as delivered, and the same report of steps again does not") {
  Watched w;
  w.watch.granted(1, w.now);
  w.watch.stepped(1, 5, w.now);
  w.pass(2s);
  w.watch.stepped(1, 6, w.now);
  CHECK(w.pass(9s).empty());
  w.watch.stepped(1, 6, w.now);
  CHECK(w.pass(2s) == Workers{1});
  w.watch.left(1);
  CHECK(w.pass(60s).empty());
}

TEST_CASE("credit_watch: where deliveries take long, the time is four times the longest") {
  Watched w;
  w.watch.granted(1, w.now);
  CHECK(w.pass(99s).empty());  // nobody has delivered yet: ten times as long
  w.watch.delivered(1, w.now);
  CHECK(w.pass(395s).empty());
  CHECK(w.pass(2s) == Workers{1});
}

TEST_CASE("credit_watch: the time does not run without a credit, nor while this process is stopped") {
  Watched w;
  w.watch.granted(1, w.now);
  w.watch.delivered(1, w.now);
  w.holding = false;
  CHECK(w.pass(60s).empty());
  w.holding = true;
  w.now += 1h;
  CHECK(w.pass(9s).empty());
  CHECK(w.pass(2s) == Workers{1});
}

TEST_CASE("credit_watch: without a time nobody is ever overdue") {
  Watched w;
  w.watch = CreditWatch(0s);
  w.watch.granted(1, w.now);
  CHECK(w.pass(1000s).empty());
}
