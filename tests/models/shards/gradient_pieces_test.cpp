#include "models/shards/gradient_pieces.h"

#include <vector>

#include "tests/support/test.h"

#include "runtime/base/errors.h"

using namespace troupe;

namespace {

std::vector<size_t> complete(GradientPieces& pieces, ElementRange elements) {
  std::vector<size_t> result;
  pieces.complete(elements, [&](size_t piece) { result.push_back(piece); });
  return result;
}

std::vector<size_t> complete_all(GradientPieces& pieces) {
  std::vector<size_t> result;
  pieces.complete_all([&](size_t piece) { result.push_back(piece); });
  return result;
}

}  // namespace

TEST_CASE("gradient_pieces: the last piece has what is left") {
  const GradientPieces pieces(10, 4);
  REQUIRE(pieces.count() == 3);
  CHECK(pieces.range(0) == ElementRange{0, 4});
  CHECK(pieces.range(2) == ElementRange{8, 10});
  CHECK(GradientPieces(8, 4).count() == 2);
  CHECK(GradientPieces(3, 4).range(0) == ElementRange{0, 3});
}

TEST_CASE("gradient_pieces: a piece is said when its last elements are complete, and once in a micro-batch") {
  GradientPieces pieces(10, 4);
  CHECK(complete(pieces, {5, 10}) == std::vector<size_t>{2});
  CHECK(complete(pieces, {2, 2}).empty());
  CHECK(complete(pieces, {1, 4}).empty());
  CHECK(complete(pieces, {4, 5}) == std::vector<size_t>{1});
  CHECK(complete_all(pieces) == std::vector<size_t>{0});
  CHECK(complete_all(pieces).empty());
  pieces.begin();
  CHECK(complete(pieces, {0, 10}) == std::vector<size_t>{0, 1, 2});
  CHECK_THROWS_AS(complete(pieces, {3, 4}), InvariantError);  // was complete
}
