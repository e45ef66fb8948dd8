#pragma once
// SliceRounds: what the ranks of an update say of the slices of the parameters that they train: the squares of their
// gradients, and the parameters after a step. Owned by a learner; one thread.

#include <cstddef>
#include <functional>
#include <vector>

#include "models/learning/objective.h"
#include "models/shards/gradient_pieces.h"
#include "models/shards/parameter_slices.h"

namespace troupe {

class SliceRounds {
 public:
  // At first this rank trains all parameters. `piece`: so many are said at a time. `objective` must outlive this.
  SliceRounds(Objective& objective, size_t piece);

  void hold(size_t rank, size_t ranks);
  bool divided() const { return slices_.ranks() > 1; }
  const GradientPieces& pieces() const { return pieces_; }
  // The sum of a piece of gradients, or the part of it that is in this rank's slice.
  void set_gradients(size_t piece, const Array& sum) const;

  // In all functions that say something, the result is how many pieces the other ranks say.
  using Say = std::function<void(size_t piece, Array own)>;
  // Of the gradients of this rank's slice, block by block; says them if there are other slices.
  size_t say_squares(const Say& say);
  // Those of another rank. Throws InvariantError when they are of other blocks than its own.
  void take_squares(size_t rank, const Array& squares);
  // Of all gradients, when those of all ranks are there.
  GradientSquares squares() const;
  // The parameters of this rank's slice.
  size_t say_parameters(const Say& say) const;
  void take_parameters(size_t piece, const Array& values) const;

 private:
  Objective& objective_;
  GradientPieces pieces_;
  ParameterSlices slices_;
  size_t rank_ = 0;
  std::vector<ParameterSlices::Piece> parameters_;  // the pieces in which they are said
  std::vector<GradientSquares> squares_;            // by block
};

}  // namespace troupe
