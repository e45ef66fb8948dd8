#include "models/learning/slice_rounds.h"

#include <utility>

#include "models/shards/shard_values.h"
#include "runtime/base/errors.h"

namespace troupe {

SliceRounds::SliceRounds(Objective& objective, size_t piece)
    : objective_(objective),
      pieces_(objective.weights().trained().size(), piece),
      slices_(objective.weights().trained().size()) {}

void SliceRounds::hold(size_t rank, size_t ranks) {
  TROUPE_CHECK(rank < ranks, rank, ranks);
  slices_ = ParameterSlices(objective_.weights().trained().size(), ranks);
  parameters_ = slices_.pieces(pieces_.each());
  rank_ = rank;
  objective_.hold_slice(slices_.slice(rank));
}

void SliceRounds::set_gradients(size_t piece, const Array& sum) const {
  objective_.set_gradients(pieces_.range(piece).common(slices_.slice(rank_)), sum);
}

size_t SliceRounds::say_squares(const Say& say) {
  squares_.assign(slices_.blocks(), {});
  ShardNumbers own;
  for (size_t block = slices_.first_block(rank_); block < slices_.first_block(rank_ + 1); ++block) {
    squares_[block] = objective_.squares(slices_.block(block));
    put(own, squares_[block]);
  }
  if (!divided()) return 0;
  say(rank_, Array::of(own));
  return slices_.ranks() - 1;
}

void SliceRounds::take_squares(size_t rank, const Array& squares) {
  TROUPE_CHECK(rank < slices_.ranks(), rank, slices_.ranks());
  const auto numbers = squares.view<double>();
  NumberReader reader(numbers);
  for (size_t block = slices_.first_block(rank); block < slices_.first_block(rank + 1); ++block)
    squares_.at(block) = reader.take<GradientSquares>();
  reader.end();
}

GradientSquares SliceRounds::squares() const {
  GradientSquares result;
  for (const GradientSquares& block : squares_) result += block;
  return result;
}

size_t SliceRounds::say_parameters(const Say& say) const {
  size_t others = 0;
  for (size_t piece = 0; piece < parameters_.size(); ++piece) {
    if (parameters_[piece].rank != rank_)
      ++others;
    else
      say(piece, objective_.parameters(parameters_[piece].elements));
  }
  return others;
}

void SliceRounds::take_parameters(size_t piece, const Array& values) const {
  objective_.set_parameters(parameters_.at(piece).elements, values);
}

}  // namespace troupe
