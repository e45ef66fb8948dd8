#include "models/shards/kept_moments.h"

#include <vector>

#include "runtime/base/errors.h"
#include "tests/support/test.h"

using namespace troupe;

namespace {

// Element i has the moments base + i and base - i.
AdamMoments moments(ElementRange elements, float base) {
  std::vector<float> first, second;
  for (size_t i = elements.begin; i < elements.end; ++i) {
    first.push_back(base + static_cast<float>(i));
    second.push_back(base - static_cast<float>(i));
  }
  const auto array = [](const std::vector<float>& values) {
    return Array::of<float>({static_cast<int64_t>(values.size())}, values);
  };
  return {elements, array(first), array(second)};
}

bool equal(const AdamMoments& a, const AdamMoments& b) {
  return a.elements == b.elements && a.first == b.first && a.second == b.second;
}

void check(const std::vector<AdamMoments>& slices, const std::vector<AdamMoments>& wanted) {
  REQUIRE(slices.size() == wanted.size());
  for (size_t i = 0; i < slices.size(); ++i) CHECK(equal(slices[i], wanted[i]));
}

void copy(KeptMoments& kept, const AdamMoments& next) {
  in_pieces(next, 2, [&](const AdamMoments& piece) { kept.add(piece); });
}

constexpr ElementRange kOwn{0, 3}, kNext{3, 8};

}  // namespace

TEST_CASE("moments of some elements: from slices that have them, once or more often") {
  const std::vector<AdamMoments> slices = {moments({5, 9}, 1), moments({0, 3}, 1), moments({2, 6}, 1)};
  CHECK(equal(moments_of(slices, {1, 8}), moments({1, 8}, 1)));
  CHECK(equal(moments_of(slices, {0, 9}), moments({0, 9}, 1)));
  CHECK(moments_of(slices, {2, 6}).first.is_shared());  // as it is
  CHECK(moments_of(slices, {4, 4}).first.empty());
  CHECK_FALSE(have_moments_of(slices, {0, 10}));
  CHECK_FALSE(have_moments_of(std::vector<AdamMoments>{slices[0], slices[1]}, {0, 9}));
  CHECK_THROWS_AS(moments_of(slices, {0, 10}), InvariantError);
  AdamMoments wrong = moments({0, 9}, 1);
  wrong.elements.end = 12;
  CHECK_THROWS_AS(moments_of(std::vector<AdamMoments>{wrong}, {0, 4}), InvariantError);
}

TEST_CASE("kept moments: an update that is taken back has those from before it, of this rank and the next") {
  KeptMoments kept;
  kept.divide(moments(kNext, 10));
  check(kept.after(moments(kOwn, 10)), {moments(kOwn, 10), moments(kNext, 10)});  // no update has begun
  kept.begin(moments(kOwn, 10));
  CHECK_FALSE(kept.has_copy());
  copy(kept, moments(kNext, 11));
  CHECK(kept.has_copy());
  check(kept.before(), {moments(kOwn, 10), moments(kNext, 10)});
  check(kept.after(moments(kOwn, 11)), {moments(kOwn, 11), moments(kNext, 11)});
  // The next one.
  kept.begin(moments(kOwn, 11));
  check(kept.before(), {moments(kOwn, 11), moments(kNext, 11)});
  CHECK_THROWS_AS(kept.begin(moments(kOwn, 12)), InvariantError);  // the copy of that one has not come
  // Divided anew, in the middle of it.
  kept.divide(moments({4, 8}, 11));
  kept.begin(moments({0, 4}, 11));
  check(kept.before(), {moments({0, 4}, 11), moments({4, 8}, 11)});
}

TEST_CASE("kept moments: a copy that is not complete is none") {
  KeptMoments kept;
  kept.divide(moments(kNext, 10));
  kept.begin(moments(kOwn, 10));
  kept.add(moments({3, 5}, 11));
  CHECK_FALSE(kept.has_copy());
  check(kept.after(moments(kOwn, 11)), {moments(kOwn, 11)});
  CHECK_THROWS_AS(kept.add(moments({3, 5}, 11)), InvariantError);
  CHECK_THROWS_AS(kept.add(moments({5, 9}, 11)), InvariantError);
  AdamMoments wrong = moments({5, 8}, 11);
  wrong.second = Array(DType::f32, {2});
  CHECK_THROWS_AS(kept.add(wrong), InvariantError);
}

TEST_CASE("kept moments: the last rank keeps its own alone") {
  KeptMoments kept;
  kept.divide({});
  kept.begin(moments(kNext, 10));
  CHECK(kept.has_copy());
  check(kept.before(), {moments(kNext, 10)});
  check(kept.after(moments(kNext, 11)), {moments(kNext, 11)});
  CHECK_THROWS_AS(kept.add(moments(kNext, 10)), InvariantError);
}
