#include "models/shards/parameter_slices.h"

#include <vector>

#include "tests/support/test.h"

using namespace troupe;

TEST_CASE("parameter_slices: the blocks have all parameters once, and depend on their number alone") {
  for (const size_t elements : {size_t{1}, size_t{16}, size_t{17}, size_t{1024}, size_t{1025}, size_t{100000}}) {
    const ParameterSlices slices(elements, 3);
    size_t next = 0;
    for (size_t block = 0; block < slices.blocks(); ++block) {
      CHECK(slices.block(block).begin == next);
      CHECK(slices.block(block).size() > 0);
      CHECK(slices.block(block) == ParameterSlices(elements).block(block));
      next = slices.block(block).end;
    }
    CHECK(next == elements);
    CHECK(slices.blocks() <= 64);
  }
}

TEST_CASE("parameter_slices: each rank has whole blocks, about as many as the others") {
  for (const size_t elements : {size_t{10}, size_t{5000}, size_t{100000}})
    for (const size_t ranks : {1, 2, 3, 7}) {
      const ParameterSlices slices(elements, ranks);
      size_t next = 0;
      for (size_t rank = 0; rank < ranks; ++rank) {
        const ElementRange slice = slices.slice(rank);
        CHECK(slice.begin == (slice.size() > 0 ? next : slice.begin));
        next += slice.size();
        if (elements == 100000) CHECK(slice.size() * ranks <= elements + 2 * ranks * 1600);
        CHECK(slices.first_block(rank + 1) - slices.first_block(rank) <= slices.blocks() / ranks + 1);
      }
      CHECK(next == elements);
    }
}

TEST_CASE("parameter_slices: pieces are those of the slices in order, and none is empty") {
  const ParameterSlices slices(100, 3);  // blocks of 16: 2, 2 and 3 of them
  const std::vector<ParameterSlices::Piece> pieces = slices.pieces(20);
  std::vector<size_t> ranks, sizes;
  for (const ParameterSlices::Piece& piece : pieces) {
    ranks.push_back(piece.rank);
    sizes.push_back(piece.elements.size());
  }
  CHECK(ranks == std::vector<size_t>{0, 0, 1, 1, 2, 2});
  CHECK(sizes == std::vector<size_t>{20, 12, 20, 12, 20, 16});
  CHECK(ParameterSlices(10, 4).pieces(20).size() == 1);  // a single block
}
