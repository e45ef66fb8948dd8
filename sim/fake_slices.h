#pragma once
// FakeSlices: the trained parameters of a FakeLearner and their moments, of which a rank may have a slice. All values
// are known functions of the number of updates and of the element. One thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "models/shards/adam_moments.h"
#include "models/shards/parameter_slices.h"
#include "runtime/base/array.h"

namespace troupe::sim {

// What these elements have after so many updates.
AdamMoments moments_after(uint64_t updates, ElementRange elements);
Array parameters_after(uint64_t updates, ElementRange elements);  // [elements] float32
// Whether the moments are those.
bool are_after(const AdamMoments& moments, uint64_t updates);
bool same_values(const Array& a, const Array& b);  // [n] float32 each

class FakeSlices {
 public:
  // As a new learner has them, which trains all. `each`: so many parameters are said at a time.
  FakeSlices(size_t elements, size_t each);

  size_t elements() const { return static_cast<size_t>(parameters_.size()); }
  bool divided() const { return slices_.ranks() > 1; }
  ElementRange all() const { return {0, elements()}; }
  ElementRange own() const { return slices_.slice(rank_); }
  // From now on this rank trains that slice; load() must follow.
  void hold(size_t rank, size_t ranks);
  void load(const Array& parameters, const AdamMoments& moments);
  const AdamMoments& moments() const { return moments_; }
  const Array& parameters() const { return parameters_; }

  // The optimizer step of the update with this index, in this rank's slice.
  void step(uint64_t update);
  // Both say what this rank has, and return how many pieces the others say.
  using Say = std::function<void(size_t piece, Array own)>;
  size_t say_squares(uint64_t update, const Say& say) const;
  size_t say_parameters(const Say& say) const;
  // What another rank says; the result is empty, or how it is wrong.
  std::string take_squares(uint64_t update, size_t rank, const Array& squares) const;
  std::string take_parameters(uint64_t update, size_t piece, const Array& values);

 private:
  Array squares_of(uint64_t update, size_t rank) const;

  size_t each_;
  ParameterSlices slices_;
  size_t rank_ = 0;
  Array parameters_;  // [elements] float32
  AdamMoments moments_;
};

}  // namespace troupe::sim
