// Ranks are threads of the test. Compares what they get with the sums of one RankRounds, for every backend.

#include "models/shards/gradient_group.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "models/shards/parameter_slices.h"
#include "tests/runtime/weights/group_ranks.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;
using Clock = std::chrono::steady_clock;
using Kind = TransferError::Kind;
using std::chrono::milliseconds;

namespace {

constexpr size_t kElements = 1000, kEach = 300;

GradientDivision division_of(const std::vector<size_t>& counts, bool slices = false) {
  GradientDivision division{{}, kElements, kEach, slices};
  size_t first = 0;
  for (const size_t count : counts) {
    division.shards.push_back({first, count});
    first += count;
  }
  return division;
}

// The gradients of a shard in a round, of very different sizes.
std::vector<float> gradients_of(const GradientPiece& round, size_t shard) {
  std::mt19937 random(static_cast<uint32_t>(1000 * round.update + 100 * round.at.round + shard));
  std::normal_distribution<float> normal;
  std::vector<float> result(kElements);
  for (float& value : result) value = normal(random) * std::exp2(10 * normal(random));
  return result;
}

// What a rank says of a piece.
RankPart part_of(const GradientPiece& piece, ShardRange shards, size_t all) {
  const ElementRange range = GradientPieces(kElements, kEach).range(piece.at.piece);
  RankPart part{shards, {}, {}};
  for (const ShardRange& branch : branches_of(shards, all)) {
    RankRound sum(branch.count);
    for (size_t i = 0; i < branch.count; ++i) {
      const std::vector<float> gradients = gradients_of(piece, branch.first + i);
      const std::vector<float> values(gradients.begin() + static_cast<std::ptrdiff_t>(range.begin),
                                      gradients.begin() + static_cast<std::ptrdiff_t>(range.end));
      sum.add({{i, 1}, {}, {{{i, 1}, Array::of(values)}}});
    }
    part.branches.push_back({branch, sum.result().gradients});
  }
  return part;
}

// What a rank has to get of it.
Array wanted_by(size_t rank, const GradientPiece& piece, const GradientDivision& division) {
  RankRounds rounds(division.shards.back().end());
  std::optional<RoundResult> all;
  for (const ShardRange& shards : division.shards)
    all = rounds.say({0, piece.at.piece}, part_of(piece, shards, division.shards.back().end()));
  if (division.slices)
    all = of_slice(*all, GradientPieces(kElements, kEach).range(piece.at.piece),
                   ParameterSlices(kElements, division.shards.size()).slice(rank));
  return all->gradients;
}

// A rank of a group, and what it was told.
class Member {
 public:
  Member(GroupBackend& backend, const Rendezvous& rendezvous, const GradientDivision& division,
         milliseconds timeout = kPatience)
      : shards_(division.shards.at(static_cast<size_t>(rendezvous.rank))),
        all_(division.shards.back().end()),
        group_(std::make_unique<GradientGroup>(
            std::shared_ptr<GroupBackend>(std::shared_ptr<void>(), &backend), rendezvous, division,
            GradientGroup::Timeouts{kPatience, timeout},
            [this](const GradientPiece& piece, RoundResult result) {
              const std::lock_guard lock(mutex_);
              got_.emplace_back(piece, std::move(result));
              changed_.notify_all();
            },
            [this](const TransferError& error) {
              const std::lock_guard lock(mutex_);
              error_ = error;
              changed_.notify_all();
            })) {}

  void say(const GradientPiece& piece) { group_->say(piece, part_of(piece, shards_, all_).branches); }
  // All pieces of a round, in this order.
  void say_all(uint64_t update, uint64_t round, const std::vector<size_t>& order) {
    for (const size_t piece : order) say({update, {round, piece}});
  }
  // So many results, in the order of their pieces; fewer after an error.
  std::vector<std::pair<GradientPiece, RoundResult>> results(size_t count) {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, kPatience, [&] { return got_.size() >= count || error_; }));
    auto result = std::exchange(got_, {});
    std::ranges::sort(result, {}, [](const auto& each) { return each.first.at.piece; });
    return result;
  }
  // The error that ends it.
  TransferError error() {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, kPatience, [&] { return error_.has_value(); }));
    return *error_;
  }
  bool has_failed() {
    const std::lock_guard lock(mutex_);
    return error_.has_value();
  }
  void leave() { group_.reset(); }

 private:
  const ShardRange shards_;
  const size_t all_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::pair<GradientPiece, RoundResult>> got_;
  std::optional<TransferError> error_;
  std::unique_ptr<GradientGroup> group_;  // last: it uses the members above
};

std::vector<std::unique_ptr<Member>> members_of(GroupBackend& backend, const GradientDivision& division,
                                                milliseconds timeout = kPatience) {
  static uint64_t generation = 0;
  Rendezvous rendezvous = backend.host();
  rendezvous.generation = ++generation;
  rendezvous.size = static_cast<int>(division.shards.size());
  std::vector<std::unique_ptr<Member>> members;
  for (; rendezvous.rank < rendezvous.size; ++rendezvous.rank)
    members.push_back(std::make_unique<Member>(backend, rendezvous, division, timeout));
  return members;
}

}  // namespace

TEST_CASE("gradient_group: all ranks get the bytes that one exchange of all would give, in any order of the pieces") {
  for_each_backend([](GroupBackend& backend) {
    std::mt19937 random(1);
    for (const std::vector<size_t>& counts :
         {std::vector<size_t>{7}, {4, 3}, {1, 6}, {1, 5, 1}, {2, 2, 2, 1}, {1, 1, 1, 1, 1, 1, 1}}) {
      CAPTURE(counts.size());
      for (const bool slices : {false, true}) {
        CAPTURE(slices);
        const GradientDivision division = division_of(counts, slices);
        const auto members = members_of(backend, division);
        std::vector<size_t> order{0, 1, 2, 3};
        for (uint64_t round = 0; round < 4; ++round) {  // two updates of two micro-batches
          const uint64_t update = 5 + round / 2;
          for (const auto& member : members) {
            std::ranges::shuffle(order, random);
            member->say_all(update, round % 2, order);
          }
          for (size_t rank = 0; rank < counts.size(); ++rank) {
            const auto results = members[rank]->results(order.size());
            REQUIRE(results.size() == order.size());
            for (size_t piece = 0; piece < results.size(); ++piece) {
              CHECK((results[piece].first == GradientPiece{update, {round % 2, piece}}));
              CHECK((results[piece].second.gradients == wanted_by(rank, results[piece].first, division)));
            }
          }
        }
      }
    }
  });
}

TEST_CASE("gradient_group: every element of a piece is the part of one rank, and of that of its slice") {
  for (const size_t ranks : {1, 2, 3, 8}) {
    for (const bool slices : {false, true}) {
      const GradientDivision division = division_of(std::vector<size_t>(ranks, 1), slices);
      const GradientPieces pieces(kElements, kEach);
      for (size_t piece = 0; piece < pieces.count(); ++piece) {
        size_t at = pieces.range(piece).begin;
        for (size_t rank = 0; rank < ranks; ++rank) {
          const ElementRange part = division.part(piece, rank);
          if (slices) CHECK(part.common(ParameterSlices(kElements, ranks).slice(rank)).size() == part.size());
          if (part.size() == 0) continue;
          CHECK(part.begin == at);
          at = part.end;
        }
        CHECK(at == pieces.range(piece).end);
      }
    }
  }
}

TEST_CASE("gradient_group: a rank that leaves ends the others with an error long before the deadline") {
  for_each_backend([](GroupBackend& backend) {
    for (const bool slices : {false, true}) {
      const auto start = Clock::now();
      const auto members = members_of(backend, division_of({1, 1, 1, 1}, slices));
      for (const auto& member : members) member->say_all(1, 0, {3, 2, 1, 0});
      for (const auto& member : members) CHECK(member->results(4).size() == 4);
      for (const size_t rank : {0, 1, 3}) members[rank]->say_all(1, 1, {3, 2, 1, 0});
      members[2]->say({1, {1, 3}});
      members[2]->leave();
      for (const size_t rank : {0, 1, 3}) CHECK(members[rank]->error().kind() == Kind::peer_lost);
      members[0]->say({1, {2, 0}});  // is ignored
      CHECK(Clock::now() - start < kPatience / 2);
    }
  });
}

TEST_CASE("gradient_group: a rank that says nothing ends the others after the time for a transfer") {
  for_each_backend([](GroupBackend& backend) {
    const auto start = Clock::now();
    const auto members = members_of(backend, division_of({1, 1, 1}), kShort);
    for (const size_t rank : {0, 2}) members[rank]->say_all(1, 0, {3, 2, 1, 0});
    const auto first = [&] {
      const TransferError zero = members[0]->error(), two = members[2]->error();
      return zero.kind() == Kind::timeout ? zero : two;
    }();
    CHECK(first.kind() == Kind::timeout);  // the other one may see first that this one has left
    CHECK(std::ranges::find(first.ranks(), 1) != first.ranks().end());
    CHECK_FALSE(members[1]->has_failed());
    CHECK(Clock::now() - start < kPatience / 2);
  });
}

TEST_CASE("gradient_group: it ends at once while it waits for a rank that never says anything") {
  for_each_backend([](GroupBackend& backend) {
    const auto start = Clock::now();
    const auto members = members_of(backend, division_of({1, 1}), kForever);
    members[0]->say_all(1, 0, {0, 1, 2, 3});
    members[0]->leave();
    CHECK_FALSE(members[0]->has_failed());
    members[1]->leave();
    CHECK_FALSE(members[1]->has_failed());
    CHECK(Clock::now() - start < kPatience / 2);
  });
}

TEST_CASE("gradient_group: ranks that say different rounds are an error") {
  for_each_backend([](GroupBackend& backend) {
    const auto members = members_of(backend, division_of({1, 1}));
    members[0]->say_all(1, 0, {0, 1, 2, 3});
    members[1]->say_all(1, 1, {0, 1, 2, 3});
    const TransferError zero = members[0]->error(), one = members[1]->error();
    const TransferError& first = zero.kind() == Kind::protocol ? zero : one;
    CHECK(first.kind() == Kind::protocol);
    CHECK(std::string(first.what()).find("piece 3 of round ") != std::string::npos);
  });
}

TEST_CASE("gradient_group: branches that are not those of the rank, and a piece that was said, are refused") {
  const auto backend = make_in_process_backend();
  const auto division = division_of({2, 1});
  GradientGroup group(
      backend, {.generation = 1, .rank = 0, .size = 2}, division, {kPatience, kPatience},
      [](const GradientPiece&, const RoundResult&) {}, [](const TransferError&) {});
  const auto branches = [](const GradientPiece& piece) { return part_of(piece, {0, 2}, 3).branches; };
  CHECK_THROWS_AS(group.say({1, {0, 4}}, branches({1, {0, 0}})), InvariantError);
  CHECK_THROWS_AS(group.say({1, {0, 0}}, {}), InvariantError);
  CHECK_THROWS_AS(group.say({1, {0, 0}}, part_of({1, {0, 0}}, {2, 1}, 3).branches), InvariantError);
  CHECK_THROWS_AS(group.say({1, {0, 3}}, branches({1, {0, 0}})), InvariantError);  // the last piece is shorter
  group.say({1, {0, 0}}, branches({1, {0, 0}}));
  CHECK_THROWS_AS(group.say({1, {0, 0}}, branches({1, {0, 0}})), InvariantError);
}

TEST_CASE("gradient_group: where a rank never joins, the others end after the time for connections") {
  for_each_backend([](GroupBackend& backend) {
    Rendezvous rendezvous = backend.host();
    rendezvous.generation = 1'000'000;
    rendezvous.size = 2;
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<TransferError> error;
    const GradientDivision division = division_of({1, 1});
    GradientGroup group(
        std::shared_ptr<GroupBackend>(std::shared_ptr<void>(), &backend), rendezvous, division, {kShort, kShort},
        [](const GradientPiece&, const RoundResult&) {},
        [&](const TransferError& each) {
          const std::lock_guard lock(mutex);
          error = each;
          changed.notify_all();
        });
    for (const size_t piece : {3, 2, 1, 0}) group.say({1, {0, piece}}, part_of({1, {0, piece}}, {0, 1}, 2).branches);
    std::unique_lock lock(mutex);
    REQUIRE(changed.wait_for(lock, kPatience, [&] { return error.has_value(); }));
    CHECK(error->kind() == Kind::timeout);
    CHECK(error->ranks() == std::vector<int>{1});
  });
}
