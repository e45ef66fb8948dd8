#include "actors/placement.h"

#include "tests/support/test.h"

using namespace troupe;
using Moves = std::vector<Placement::Move>;

TEST_CASE("placement: workers are spread evenly over the inference actors") {
  Placement placement;
  placement.add_inference(7);
  placement.add_inference(9);
  CHECK(placement.add_worker(0) == 7);
  CHECK(placement.add_worker(1) == 9);
  CHECK(placement.add_worker(2) == 7);
  placement.remove_worker(2);
  placement.remove_worker(0);
  CHECK(placement.add_worker(3) == 7);
  CHECK(placement.inference_of(1) == 9);
}

TEST_CASE("placement: workers wait while there is no inference actor") {
  Placement placement;
  CHECK_FALSE(placement.add_worker(0));
  CHECK_FALSE(placement.add_worker(1));
  CHECK_FALSE(placement.add_worker(2));
  placement.remove_worker(1);
  CHECK(placement.add_inference(4) == Moves{{0, 4}, {2, 4}});
  CHECK(placement.remove_inference(4) == Moves{{0, std::nullopt}, {2, std::nullopt}});
  CHECK_FALSE(placement.inference_of(0));
  CHECK(placement.add_inference(5) == Moves{{0, 5}, {2, 5}});
}

TEST_CASE("placement: a new inference actor gets its share of the workers and no more") {
  Placement placement;
  placement.add_inference(0);
  CHECK(placement.add_inference(1).empty());
  for (uint64_t worker = 0; worker < 6; ++worker) placement.add_worker(worker);
  CHECK(placement.add_inference(2) == Moves{{4, 2}, {5, 2}});
  Placement single;
  single.add_inference(0);
  single.add_worker(0);
  CHECK(single.add_inference(1).empty());
}

TEST_CASE("placement: workers of a lost inference actor are spread over the others") {
  Placement placement;
  for (InferenceIndex inference_index : {0, 1, 2}) placement.add_inference(inference_index);
  for (uint64_t worker = 0; worker < 6; ++worker) placement.add_worker(worker);
  CHECK(placement.remove_inference(0) == Moves{{0, 1}, {3, 2}});
  CHECK(placement.inference_of(3) == 2);
  CHECK(placement.remove_inference(0).empty());
}
