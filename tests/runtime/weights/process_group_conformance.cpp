// The test suite that every process group backend passes: operations of all ranks. Ranks are threads.

#include <array>
#include <atomic>
#include <numeric>
#include <thread>

#include "tests/runtime/weights/group_ranks.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;
using Kind = TransferError::Kind;

namespace {

void check_broadcast(GroupBackend& backend, int ranks, int root, size_t bytes) {
  const std::vector<uint8_t> wanted = pattern(bytes);
  std::vector<std::vector<uint8_t>> got(static_cast<size_t>(ranks), std::vector<uint8_t>(bytes));
  got[root] = wanted;
  const Action action = [&](ProcessGroup& group) {
    group.broadcast({got[group.rank()].data(), bytes}, root, kPatience);
    group.barrier(kPatience);
  };
  require_clean(run_ranks(backend, bytes * 8 + root, leaving_together(std::vector<Action>(ranks, action))));
  for (const auto& each : got) CHECK((each == wanted));
}

}  // namespace

TEST_CASE("process_group: a broadcast gives every rank the root's bytes, for any number of bytes and any root") {
  for_each_backend([](GroupBackend& backend) {
    for (const size_t bytes : {0, 1, 13, 65537})
      for (const int root : {0, 2}) check_broadcast(backend, 3, root, bytes);
    check_broadcast(backend, 2, 1, 100'000'000);
  });
}

TEST_CASE("process_group: broadcasts started together arrive in order, each in its own buffer") {
  for_each_backend([](GroupBackend& backend) {
    std::array<std::array<int, 5>, 3> seen{};
    const Action action = [&](ProcessGroup& group) {
      auto& mine = seen[group.rank()];
      if (group.rank() == 0) std::iota(mine.begin(), mine.end(), 1);
      std::vector<std::unique_ptr<Transfer>> transfers;
      for (int& value : mine) transfers.push_back(group.start_broadcast({&value, sizeof value}, 0));
      for (auto& transfer : transfers) transfer->wait(kPatience);
      group.barrier(kPatience);
    };
    require_clean(run_ranks(backend, 1, leaving_together({action, action, action})));
    for (const auto& each : seen) CHECK(each == std::array<int, 5>{1, 2, 3, 4, 5});
  });
}

TEST_CASE("process_group: gather gives the root every rank's bytes in rank order") {
  for_each_backend([](GroupBackend& backend) {
    std::array<int, 3> all{};
    const Action action = [&](ProcessGroup& group) {
      const int mine = 10 * group.rank();
      group.gather(&mine, group.rank() == 1 ? all.data() : nullptr, sizeof mine, 1, kPatience);
      group.barrier(kPatience);
    };
    require_clean(run_ranks(backend, 1, leaving_together({action, action, action})));
    CHECK(all == std::array<int, 3>{0, 10, 20});
  });
}

TEST_CASE("process_group: a group of one member works") {
  for_each_backend([](GroupBackend& backend) {
    require_clean(run_ranks(backend, 1, {[](ProcessGroup& group) {
                              int value = 7;
                              group.broadcast({&value, sizeof value}, 0, kPatience);
                              group.barrier(kPatience);
                              CHECK(value == 7);
                            }}));
  });
}

TEST_CASE("process_group: the error about members that never join has their ranks") {
  for_each_backend([](GroupBackend& backend) {
    const auto outcomes = run_ranks(backend, 1,
                                    {[](ProcessGroup& group) { group.barrier(kShort); },
                                     [](ProcessGroup& group) { group.barrier(kShort); }, nullptr, nullptr},
                                    kShort);
    REQUIRE(outcomes[0].error);
    CHECK(outcomes[0].error->kind() == Kind::timeout);
    CHECK(outcomes[0].error->ranks() == std::vector<int>{2, 3});
    CHECK(outcomes[1].error);
  });
}

TEST_CASE("process_group: a silent member is a timeout at the root and an error at the others") {
  for_each_backend([](GroupBackend& backend) {
    std::stop_source over;  // the silent rank stays until the other two have timed out
    std::atomic<int> waiting = 2;
    const auto give_up = [&](ProcessGroup&) {
      if (--waiting == 0) over.request_stop();
    };
    const auto outcomes = run_ranks(backend, 1,
                                    {[&](ProcessGroup& group) {
                                       const Outcome seen = outcome_of([&] {
                                         int mine = 0;
                                         std::array<int, 3> all{};
                                         group.gather(&mine, all.data(), sizeof mine, 0, kShort);
                                       });
                                       give_up(group);
                                       if (seen.error) throw *seen.error;
                                     },
                                     [&](ProcessGroup& group) {
                                       int mine = 1;
                                       group.gather(&mine, nullptr, sizeof mine, 0, kPatience);
                                       const Outcome seen =
                                           outcome_of([&] { group.broadcast({&mine, sizeof mine}, 2, kShort); });
                                       give_up(group);
                                       if (seen.error) throw *seen.error;
                                     },
                                     [&](ProcessGroup&) {
                                       while (!over.stop_requested()) std::this_thread::yield();
                                     }});
    REQUIRE(outcomes[0].error);
    CHECK(outcomes[0].error->kind() == Kind::timeout);
    CHECK(outcomes[0].error->ranks() == std::vector<int>{2});
    REQUIRE(outcomes[1].error);
    CHECK(outcomes[1].error->ranks() == std::vector<int>{2});
  });
}

TEST_CASE("process_group: a member that leaves is reported as a lost peer long before the deadline") {
  for_each_backend([](GroupBackend& backend) {
    const auto start = std::chrono::steady_clock::now();
    const auto outcomes =
        run_ranks(backend, 1, {[](ProcessGroup& group) { group.barrier(kPatience); }, [](ProcessGroup&) {}});
    REQUIRE(outcomes[0].error);
    CHECK(outcomes[0].error->kind() == Kind::peer_lost);
    CHECK(outcomes[0].error->ranks() == std::vector<int>{1});
    CHECK(std::chrono::steady_clock::now() - start < kPatience / 2);
  });
}

TEST_CASE(
    "process_group: if a member leaves in the middle of a large broadcast, the others do not wait for the deadline") {
  for_each_backend([](GroupBackend& backend) {
    constexpr size_t kBytes = 50'000'000;
    std::array<std::vector<uint8_t>, 2> memory{std::vector<uint8_t>(kBytes), std::vector<uint8_t>(kBytes)};
    const Action stays = [&](ProcessGroup& group) {
      group.broadcast({memory[group.rank()].data(), kBytes}, 0, kPatience);
    };
    const Action leaves = [&](ProcessGroup& group) { group.start_broadcast({memory[group.rank()].data(), kBytes}, 0); };
    for (const int leaver : {0, 1}) {
      for (uint64_t generation = 1; generation <= 5; ++generation) {
        const auto start = std::chrono::steady_clock::now();
        const auto outcomes = run_ranks(backend, static_cast<uint64_t>(10 * leaver) + generation,
                                        leaver == 0 ? std::vector{leaves, stays} : std::vector{stays, leaves});
        CHECK(std::chrono::steady_clock::now() - start < kPatience / 2);
        const Outcome& other = outcomes[1 - leaver];
        CHECK(other.unexpected == "");
        if (!other.error) continue;  // a backend may have copied everything before the member left
        CHECK(other.error->kind() == Kind::peer_lost);
        CHECK(other.error->ranks() == std::vector<int>{leaver});
      }
    }
  });
}

TEST_CASE("process_group: a stop ends a wait without a deadline") {
  for_each_backend([](GroupBackend& backend) {
    for (uint64_t generation = 1; generation <= 6; ++generation) {
      std::stop_source stop;
      Rendezvous r = backend.host();
      r.generation = generation;
      r.size = 2;
      std::atomic<bool> waits = false;
      Outcome outcome;
      std::jthread receiver([&] {
        Rendezvous mine = r;
        mine.rank = 1;
        const auto group = backend.join(mine, kPatience, stop.get_token());
        int value = 0;
        waits = true;
        waits.notify_one();
        outcome = outcome_of([&] {
          if (generation % 2 == 0)
            group->broadcast({&value, sizeof value}, 0, kForever);
          else
            group->start_receive({&value, sizeof value}, 0)->wait(kForever);
        });
      });
      const auto root = backend.join(r, kPatience);
      waits.wait(false);
      stop.request_stop();
      receiver.join();
      REQUIRE(outcome.error);
      CHECK(outcome.error->kind() == Kind::stopped);
    }
  });
}

TEST_CASE("process_group: after a failure a new group works in the same process") {
  for_each_backend([](GroupBackend& backend) {
    const auto failed =
        run_ranks(backend, 1, {[](ProcessGroup& group) { group.barrier(kPatience); }, [](ProcessGroup&) {}});
    CHECK(failed[0].error);
    check_broadcast(backend, 2, 0, 1000);
  });
}

TEST_CASE("process_group: a rendezvous whose rank is not in the group is refused") {
  for_each_backend([](GroupBackend& backend) {
    Rendezvous r = backend.host();
    r.size = 2;
    r.rank = 2;
    CHECK_THROWS_AS(backend.join(r, kShort), InvariantError);
    r.rank = -1;
    CHECK_THROWS_AS(backend.join(r, kShort), InvariantError);
  });
}
