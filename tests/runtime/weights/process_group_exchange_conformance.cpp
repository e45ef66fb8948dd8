// The test suite that every process group backend passes: sends and receives. Ranks are threads.

#include <algorithm>
#include <array>
#include <functional>
#include <latch>
#include <numeric>
#include <thread>

#include "tests/runtime/weights/group_ranks.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using Direction = PeerBuffer::Direction;
using Kind = TransferError::Kind;

namespace {

// What rank `from` sends to rank `to` in exchange number `turn`.
std::vector<uint8_t> parcel(int from, int to, size_t bytes, int turn = 0) {
  std::vector<uint8_t> result = pattern(bytes);
  for (uint8_t& byte : result) byte = static_cast<uint8_t>(byte + 64 * from + 16 * to + turn);
  return result;
}

// The memory of one exchange with all other ranks: so many bytes go from rank to rank.
class AllToAll {
 public:
  AllToAll(const ProcessGroup& group, const std::function<size_t(int from, int to)>& bytes, int turn = 0)
      : rank_(group.rank()), turn_(turn), memory_(2 * static_cast<size_t>(group.size())) {
    for (int other = 0; other < group.size(); ++other) {
      if (other == rank_) continue;
      std::vector<uint8_t>& out = memory_[2 * static_cast<size_t>(other)];
      std::vector<uint8_t>& in = memory_[2 * static_cast<size_t>(other) + 1];
      out = parcel(rank_, other, bytes(rank_, other), turn);
      in.resize(bytes(other, rank_));
      parts_.push_back({Direction::send, other, {out.data(), out.size()}});
      parts_.push_back({Direction::receive, other, {in.data(), in.size()}});
    }
  }
  const std::vector<PeerBuffer>& parts() const { return parts_; }
  // Whether all has come.
  bool complete() const {
    return std::ranges::all_of(parts_, [&](const PeerBuffer& part) {
      if (part.direction == Direction::send) return true;
      const std::vector<uint8_t> wanted = parcel(part.peer, rank_, part.buffer.bytes, turn_);
      return memory_[2 * static_cast<size_t>(part.peer) + 1] == wanted;
    });
  }

 private:
  int rank_, turn_;
  std::vector<std::vector<uint8_t>> memory_;  // by other rank: what goes to it, and what comes from it
  std::vector<PeerBuffer> parts_;
};

}  // namespace

TEST_CASE("process_group: a send reaches the rank it is for, and no other") {
  for_each_backend([](GroupBackend& backend) {
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{5000}, size_t{10'000'000}}) {
      std::vector<uint8_t> got(bytes);
      const auto outcomes = run_ranks(backend, bytes,
                                      leaving_together({[&](ProcessGroup& group) {
                                                          std::vector<uint8_t> memory = parcel(0, 2, bytes);
                                                          group.start_send({memory.data(), bytes}, 2)->wait(kPatience);
                                                        },
                                                        [](ProcessGroup&) {},
                                                        [&](ProcessGroup& group) {
                                                          group.start_receive({got.data(), bytes}, 0)->wait(kPatience);
                                                        }}));
      require_clean(outcomes);
      CHECK((got == parcel(0, 2, bytes)));
    }
  });
}

TEST_CASE("process_group: in an exchange all ranks send to each other at once, each as much as it has") {
  for_each_backend([](GroupBackend& backend) {
    const auto bytes = [](int from, int to) { return static_cast<size_t>(from * 2'500'000 + to * 700); };
    for (const int ranks : {2, 4}) {
      std::vector<char> complete(static_cast<size_t>(ranks));
      const Action action = [&](ProcessGroup& group) {
        const AllToAll all(group, bytes);
        group.start_exchange(all.parts())->wait(kPatience);
        complete[static_cast<size_t>(group.rank())] = all.complete();
      };
      require_clean(
          run_ranks(backend, static_cast<uint64_t>(ranks), leaving_together(std::vector<Action>(ranks, action))));
      CHECK(complete == std::vector<char>(static_cast<size_t>(ranks), 1));
    }
  });
}

TEST_CASE("process_group: exchanges and broadcasts that are started together arrive in order") {
  for_each_backend([](GroupBackend& backend) {
    constexpr int kTurns = 20;
    std::array<int, 3> complete{}, broadcasts{};
    const Action action = [&](ProcessGroup& group) {
      std::vector<std::unique_ptr<AllToAll>> exchanges;
      std::array<int, kTurns> values{};
      if (group.rank() == 1) std::iota(values.begin(), values.end(), 1);
      std::vector<std::unique_ptr<Transfer>> transfers;
      for (int turn = 0; turn < kTurns; ++turn) {
        exchanges.push_back(
            std::make_unique<AllToAll>(group, [&](int from, int) { return 1000U + 50'000U * from; }, turn));
        transfers.push_back(group.start_exchange(exchanges.back()->parts()));
        transfers.push_back(group.start_broadcast({&values[static_cast<size_t>(turn)], sizeof(int)}, 1));
      }
      for (const auto& transfer : transfers) transfer->wait(kPatience);
      for (int turn = 0; turn < kTurns; ++turn) {
        complete[static_cast<size_t>(group.rank())] += exchanges[static_cast<size_t>(turn)]->complete();
        broadcasts[static_cast<size_t>(group.rank())] += values[static_cast<size_t>(turn)] == turn + 1;
      }
      group.barrier(kPatience);
    };
    require_clean(run_ranks(backend, 1, leaving_together({action, action, action})));
    for (const int count : complete) CHECK(count == kTurns);
    for (const int count : broadcasts) CHECK(count == kTurns);
  });
}

TEST_CASE("process_group: parts that no exchange has are refused") {
  for_each_backend([](GroupBackend& backend) {
    const Action action = [](ProcessGroup& group) {
      int value = 0;
      const Buffer buffer{&value, sizeof value};
      for (const int peer : {-1, group.rank(), 2}) {
        CHECK_THROWS_AS(group.start_send(buffer, peer), InvariantError);
        CHECK_THROWS_AS(group.start_receive(buffer, peer), InvariantError);
      }
      const PeerBuffer once{Direction::receive, 1 - group.rank(), buffer};
      const std::array<PeerBuffer, 2> twice{once, once};
      CHECK_THROWS_AS(group.start_exchange(twice), InvariantError);
      group.start_exchange({})->wait(kPatience);
      group.barrier(kPatience);
    };
    require_clean(run_ranks(backend, 1, leaving_together({action, action})));
  });
}

TEST_CASE("process_group: a receive that nobody sends is a timeout that has the sender's rank") {
  for_each_backend([](GroupBackend& backend) {
    std::latch over(2);
    const auto outcomes =
        run_ranks(backend, 1,
                  {[&](ProcessGroup&) { over.arrive_and_wait(); },
                   [&](ProcessGroup& group) {
                     std::vector<uint8_t> memory(10'000);
                     const Outcome seen =
                         outcome_of([&] { group.start_receive({memory.data(), memory.size()}, 0)->wait(kShort); });
                     over.arrive_and_wait();
                     if (seen.error) throw *seen.error;
                   }});
    REQUIRE(outcomes[1].error);
    CHECK(outcomes[1].error->kind() == Kind::timeout);
    CHECK(outcomes[1].error->ranks() == std::vector<int>{0});
  });
}

TEST_CASE(
    "process_group: a member that leaves before its part of an exchange is a lost peer to those that wait for it") {
  for_each_backend([](GroupBackend& backend) {
    const auto start = std::chrono::steady_clock::now();
    const Action stays = [](ProcessGroup& group) {
      for (int turn = 0; turn < 3; ++turn) {
        const AllToAll all(group, [](int, int) { return size_t{3'000'000}; }, turn);
        group.start_exchange(all.parts())->wait(kPatience);
      }
    };
    const auto outcomes =
        run_ranks(backend, 1, {stays, stays, [](ProcessGroup& group) {
                                 const AllToAll all(group, [](int, int) { return size_t{3'000'000}; });
                                 group.start_exchange(all.parts())->wait(kPatience);
                               }});
    CHECK(std::chrono::steady_clock::now() - start < kPatience / 2);
    for (const int rank : {0, 1}) {
      CAPTURE(rank);
      REQUIRE(outcomes[rank].error);
      CHECK(outcomes[rank].error->kind() == Kind::peer_lost);
    }
    // The other may see first that this one has left.
    CHECK((outcomes[0].error->ranks() == std::vector<int>{2} || outcomes[1].error->ranks() == std::vector<int>{2}));
  });
}

TEST_CASE("process_group: a member that has left does not end what the others exchange") {
  for_each_backend([](GroupBackend& backend) {
    std::latch all_joined(3), third_left(3), complete_at_both(2);
    bool complete = false;
    std::vector<Outcome> outcomes(3);
    Rendezvous r = backend.host();
    r.generation = 1;
    r.size = 3;
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 3; ++rank) {
      r.rank = rank;
      threads.emplace_back([&, r] {
        outcomes[static_cast<size_t>(r.rank)] = outcome_of([&] {
          auto group = backend.join(r, kPatience);
          all_joined.arrive_and_wait();
          if (r.rank == 2) group.reset();
          third_left.arrive_and_wait();
          if (r.rank == 2) return;
          std::vector<uint8_t> memory = r.rank == 0 ? parcel(0, 1, 3'000'000) : std::vector<uint8_t>(3'000'000);
          const Buffer buffer{memory.data(), memory.size()};
          const std::shared_ptr<void> at_end(nullptr, [&](void*) { complete_at_both.arrive_and_wait(); });
          (r.rank == 0 ? group->start_send(buffer, 1) : group->start_receive(buffer, 0))->wait(kPatience);
          if (r.rank == 1) complete = memory == parcel(0, 1, 3'000'000);
        });
      });
    }
    threads.clear();
    require_clean(outcomes);
    CHECK(complete);
  });
}
