#pragma once
// Updates of learners whose shards are computed by one rank or by several.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/learning/trainer_config.h"
#include "models/policy.h"
#include "models/shards/gradient_pieces.h"
#include "models/shards/parameter_slices.h"
#include "tests/support/test.h"

namespace troupe::test {

inline UpdateReport update_with(Learner& learner, const std::vector<SuperBatch>& shards, double progress = 0.0) {
  std::vector<std::unique_ptr<StagedBatch>> staged;
  std::vector<StagedBatch*> batches;
  for (const SuperBatch& batch : shards) batches.push_back(staged.emplace_back(learner.stager()->stage(batch)).get());
  return learner.update(batches, progress);
}

// Learners of ranks, each with some shards of every update, on one thread.
class Ranks {
 public:
  // `counts`: how many shards each rank has. `piece`: each rank trains a slice of the parameters, and this is
  // piece_elements(); 0: each trains all.
  Ranks(const std::function<std::unique_ptr<Learner>()>& make, const std::vector<size_t>& counts, size_t piece = 0)
      : piece_(piece) {
    said_.resize(counts.size());
    for (size_t rank = 0; rank < counts.size(); ++rank) {
      learners.push_back(make());
      learners[rank]->say_to([this, rank](const RoundPiece& piece, RankPart part) {
        if (on_say) on_say();
        said_[rank].emplace_back(piece, std::move(part));
      });
    }
    divide(counts);
  }

  // From the next update on.
  void divide(const std::vector<size_t>& counts) {
    ranges_.clear();
    shards_ = 0;
    for (size_t rank = 0; rank < counts.size(); ++rank) {
      ranges_.push_back({shards_, counts[rank]});
      shards_ += counts[rank];
      learners[rank]->hold_shards(ranges_.back());
      if (piece_ > 0) learners[rank]->hold_slice(rank, counts.size());
    }
  }

  // Of all ranks together.
  LearnerState save() const { return piece_ == 0 ? learners.front()->save() : learners.front()->save(moments()); }
  std::vector<AdamMoments> moments() const {
    std::vector<AdamMoments> slices;
    for (const auto& learner : learners) slices.push_back(learner->moments());
    return slices;
  }
  // What all slices were, with the model of one.
  void load(const LearnerState& without_moments, const std::vector<AdamMoments>& moments) {
    const size_t elements = learners.front()->trained_elements();
    for (size_t rank = 0; rank < learners.size(); ++rank) {
      const ParameterSlices slices(elements, piece_ == 0 ? 1 : learners.size());
      learners[rank]->load(without_moments, moments_of(moments, slices.slice(piece_ == 0 ? 0 : rank)));
    }
  }

  void begin(const std::vector<SuperBatch>& shards, double progress = 0.0) {
    staged_.clear();
    rounds_.emplace(shards_);
    for (auto& said : said_) said.clear();
    for (size_t rank = 0; rank < learners.size(); ++rank) {
      std::vector<StagedBatch*> own;
      for (size_t shard = ranges_[rank].first; shard < ranges_[rank].end(); ++shard)
        own.push_back(staged_.emplace_back(learners[rank]->stager()->stage(shards[shard])).get());
      learners[rank]->begin(own, progress);
    }
  }

  // Up to where all wait for each other, and on; false when all are done. The pieces come in another order than they
  // were said in.
  bool round() {
    size_t done = 0;
    for (const auto& learner : learners) {
      Advance state = Advance::more;
      while (state == Advance::more) state = learner->advance();
      done += state == Advance::done;
    }
    std::vector<Result> results;
    for (size_t rank = 0; rank < said_.size(); ++rank) {
      for (auto& [piece, part] : said_[rank])
        if (std::optional<RoundResult> all = rounds_->say(piece, std::move(part)))
          results.push_back({rank, piece, *std::move(all)});
      said_[rank].clear();
    }
    pieces += results.size();
    std::ranges::reverse(results);
    for (size_t rank = 0; rank < learners.size(); ++rank)
      for (const Result& result : results)
        if (!result.all.own || result.sender != rank) learners[rank]->deliver(result.piece, told(rank, result));
    REQUIRE((done == 0 || done == learners.size()));
    return done == 0;
  }

  std::vector<UpdateReport> update(const std::vector<SuperBatch>& shards, double progress = 0.0) {
    begin(shards, progress);
    while (round()) ++rounds;
    std::vector<UpdateReport> result;
    for (const auto& learner : learners) result.push_back(learner->finish());
    return result;
  }

  std::vector<std::unique_ptr<Learner>> learners;
  size_t rounds = 0, pieces = 0;
  std::function<void()> on_say;  // called with each piece that a rank says

 private:
  struct Result {
    size_t sender;
    RoundPiece piece;
    RoundResult all;
  };

  RoundResult told(size_t rank, const Result& result) const {
    if (piece_ == 0 || result.all.gradients.empty()) return result.all;
    const size_t elements = learners[rank]->trained_elements();
    return of_slice(result.all, GradientPieces(elements, piece_).range(result.piece.piece),
                    ParameterSlices(elements, learners.size()).slice(rank));
  }

  size_t piece_;
  size_t shards_ = 0;
  std::vector<std::vector<std::pair<RoundPiece, RankPart>>> said_;  // by rank
  std::optional<RankRounds> rounds_;                                // of the update under way
  std::vector<ShardRange> ranges_;
  std::vector<std::unique_ptr<StagedBatch>> staged_;  // of the update under way
};

// How four shards can be divided among ranks.
inline const std::vector<std::vector<size_t>> kDivisions = {{2, 2}, {1, 1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {3, 1}};

inline void check_equal(const LearnerState& ours, const LearnerState& theirs) {
  CHECK((ours.model == theirs.model));
  CHECK((ours.optimizer == theirs.optimizer));
  CHECK((ours.scalars == theirs.scalars));
}

inline void check_equal(const UpdateReport& report, const UpdateReport& wanted) {
  CHECK(report.steps == wanted.steps);
  CHECK(report.skipped == wanted.skipped);
  CHECK(report.epochs == wanted.epochs);
  REQUIRE(report.metrics.size() == wanted.metrics.size());
  for (const auto& [name, value] : wanted.metrics) {
    CAPTURE(name);
    CHECK((report.metrics.at(name) == value || (std::isnan(value) && std::isnan(report.metrics.at(name)))));
  }
}

inline void check_equal(const Ranks& ranks, const LearnerState& wanted) {
  check_equal(ranks.save(), wanted);
  for (const auto& learner : ranks.learners)
    CHECK(learner->snapshot({})->flat == ranks.learners.front()->snapshot({})->flat);
}

// A learner of a run with this trainer.zero on several ranks.
using MakeRank = std::function<std::unique_ptr<Learner>(int64_t zero)>;

// Of a learner with several shards.
inline TrainerConfig with_zero(TrainerConfig config, int64_t zero) {
  config.zero = zero;
  config.ranks = 2;  // or more
  return config;
}

// Trains with each division of the four shards of each update and each trainer.zero: each rank trains all parameters,
// or a slice. Compares all that the ranks have with one learner that computes all. Returns that one's reports.
inline std::vector<UpdateReport> check_ranks(const MakeRank& make, const std::vector<std::vector<SuperBatch>>& updates,
                                             size_t piece) {
  const auto one = make(0);
  std::vector<UpdateReport> wanted;
  for (const std::vector<SuperBatch>& shards : updates) wanted.push_back(update_with(*one, shards, 0.25));
  for (const std::vector<size_t>& counts : kDivisions) {
    CAPTURE(counts.size());
    for (const int64_t zero : {0, 1, 2}) {
      CAPTURE(zero);
      Ranks ranks([&] { return make(zero); }, counts, zero == 0 ? 0 : piece);
      for (size_t update = 0; update < updates.size(); ++update)
        for (const UpdateReport& report : ranks.update(updates[update], 0.25)) check_equal(report, wanted[update]);
      check_equal(ranks, one->save());
    }
  }
  return wanted;
}

// The second update is abandoned after so many rounds and made again, with the shards divided anew, as when a rank is
// lost. Compares the ranks with one learner that makes each of the two updates once.
inline void check_abandoned(const MakeRank& make, const std::vector<std::vector<SuperBatch>>& updates, size_t rounds,
                            int64_t zero, size_t piece) {
  const auto one = make(0);
  for (const std::vector<SuperBatch>& shards : updates) update_with(*one, shards);
  Ranks ranks([&] { return make(zero); }, {2, 2}, zero == 0 ? 0 : piece);
  ranks.update(updates[0]);
  const LearnerState before = ranks.learners.front()->save_without_moments();
  const std::vector<AdamMoments> moments = ranks.moments();
  ranks.begin(updates[1]);
  for (size_t i = 0; i < rounds; ++i) REQUIRE(ranks.round());
  for (const auto& learner : ranks.learners) learner->abandon();
  ranks.divide({1, 3});
  ranks.load(before, moments);
  ranks.update(updates[1]);
  check_equal(ranks, one->save());
}

}  // namespace troupe::test
