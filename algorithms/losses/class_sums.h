#pragma once
// ClassSums: the sums of a surrogate over some of its tokens, such as those with one policy lag, and the figures that
// follow from them. Plain values and pure functions; any thread.

namespace troupe {

// Sums over the unmasked tokens of a class; the members are those of SurrogateSums. Add those of micro-batches.
struct ClassSums {
  double count = 0, k3 = 0, clipped = 0, dead = 0, ratio = 0, ratio_squared = 0;

  void merge(const ClassSums& other);
};

// Means over the tokens of a class, of the same name in SurrogateDiagnostics; all 0 without tokens.
struct ClassDiagnostics {
  double count = 0;
  double kl = 0;  // k3
  double clip_fraction = 0;
  double dead_gradient_fraction = 0;
  double ess = 0;

  // Adds the tokens of another step: means over both, by the numbers of their tokens.
  void add_step(const ClassSums& step);
};
ClassDiagnostics diagnostics_of(const ClassSums& sums);

}  // namespace troupe
