#include "runtime/base/paged_block.h"

#include <algorithm>
#include <utility>

#include "runtime/base/errors.h"
#include "tests/support/resident.h"
#include "tests/support/test.h"

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr size_t kPages = 64;

size_t resident(const PagedBlock& block) { return resident_bytes(block.floats().data(), block.bytes()); }

}  // namespace

TEST_CASE("paged_block: it is 0 at first and takes memory when it is written") {
  const PagedBlock block(kPages * page_bytes());
  CHECK(resident(block) == 0);
  CHECK(std::ranges::all_of(block.floats(), [](float x) { return x == 0; }));
  std::ranges::fill(block.floats(), 1.0f);
  CHECK(resident(block) == block.bytes());
}

TEST_CASE("paged_block: bytes that are cleared are 0, their whole pages take no memory, and others stay") {
  const size_t page = page_bytes(), of_page = page / sizeof(float);
  PagedBlock block(kPages * page);
  const auto floats = block.floats();
  std::ranges::fill(floats, 1.0f);
  const float* before = floats.data();
  block.clear(page / 2, 10 * page + 8);  // 9 whole pages
  CHECK(block.floats().data() == before);
  CHECK(resident(block) == (kPages - 9) * page);
  for (size_t i = 0; i < floats.size(); ++i)
    REQUIRE(floats[i] == (i < of_page / 2 || i >= 10 * of_page + 2 ? 1.0f : 0.0f));
  floats[5 * of_page] = 2;
  CHECK(floats[5 * of_page] == 2);
  CHECK(floats[5 * of_page + 1] == 0);
  block.clear(0, block.bytes());
  CHECK(resident(block) == 0);
  CHECK(floats[5 * of_page] == 0);
}

TEST_CASE("paged_block: parts smaller than a page, nothing, and an end within a page") {
  const size_t page = page_bytes();
  PagedBlock block(2 * page + 40);
  CHECK(block.floats().size() == (2 * page + 40) / sizeof(float));
  std::ranges::fill(block.floats(), 1.0f);
  block.clear(4, 12);
  CHECK(block.floats()[0] == 1);
  CHECK(block.floats()[1] == 0);
  CHECK(block.floats()[2] == 0);
  CHECK(block.floats()[3] == 1);
  block.clear(16, 16);
  CHECK(block.floats()[4] == 1);
  CHECK(resident(block) == 3 * page);
  block.clear(page + 4, block.bytes());  // the last page has nothing else
  CHECK(resident(block) == 2 * page);
  CHECK(block.floats()[page / sizeof(float)] == 1);
  CHECK(block.floats().back() == 0);
  CHECK_THROWS_AS(block.clear(8, 4), InvariantError);
  CHECK_THROWS_AS(block.clear(0, block.bytes() + 1), InvariantError);
  CHECK_THROWS_AS(PagedBlock(0), InvariantError);
}

TEST_CASE("paged_block: what is moved keeps its memory") {
  PagedBlock block(page_bytes());
  block.floats()[3] = 7;
  PagedBlock other = std::move(block);
  CHECK(other.floats()[3] == 7);
  other = PagedBlock(3 * page_bytes());
  CHECK(other.bytes() == 3 * page_bytes());
  CHECK(other.floats()[3] == 0);
}
