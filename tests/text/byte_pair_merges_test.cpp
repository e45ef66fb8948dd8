#include "text/byte_pair_merges.h"

#include <algorithm>
#include <map>

#include "runtime/base/rng.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

using Pairs = std::map<std::pair<int32_t, int32_t>, std::pair<int, int32_t>>;  // to rank and merged id

// The definition: merge the first pair of the lowest rank, until there is none.
std::vector<int32_t> merged_slowly(std::vector<int32_t> ids, const Pairs& pairs) {
  for (;;) {
    size_t best = ids.size();
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = pairs.find({ids[i], ids[i + 1]});
      if (found != pairs.end() &&
          (best == ids.size() || found->second.first < pairs.at({ids[best], ids[best + 1]}).first))
        best = i;
    }
    if (best == ids.size()) return ids;
    ids[best] = pairs.at({ids[best], ids[best + 1]}).second;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

}  // namespace

TEST_CASE("byte_pair_merges: the result is that of the definition") {
  Rng rng(7);
  for (int round = 0; round < 300; ++round) {
    BytePairMerges merges;
    Pairs pairs;
    int32_t next = 3;
    for (int rank = 0; rank < 12; ++rank) {
      const auto left = static_cast<int32_t>(rng.below(static_cast<uint64_t>(next)));
      const auto right = static_cast<int32_t>(rng.below(static_cast<uint64_t>(next)));
      if (pairs.contains({left, right})) continue;
      pairs[{left, right}] = {rank, next};
      merges.add(left, right, next++);
    }
    std::vector<int32_t> ids(rng.below(40));
    for (int32_t& id : ids) id = static_cast<int32_t>(rng.below(3));
    const std::vector<int32_t> expected = merged_slowly(ids, pairs);
    merges.apply(ids);
    REQUIRE(ids == expected);
  }
}

TEST_CASE("byte_pair_merges: a word of a million equal bytes takes well under quadratic time") {
  BytePairMerges merges;
  for (int32_t id = 0; id < 10; ++id) merges.add(id, id, id + 1);
  std::vector<int32_t> ids(1 << 20, 0);
  merges.apply(ids);
  CHECK(ids == std::vector<int32_t>(1 << 10, 10));
}
