#include "models/torch/compute.h"

#include <thread>

#include <ATen/Parallel.h>
#include <ATen/ops/zeros.h>

#include "tests/support/test.h"

using namespace troupe;

TEST_CASE("compute: a thread keeps its number of threads when another sets its own") {
  int threads = 0;
  std::thread([&threads] {
    set_compute_threads(3);
    std::thread([] { set_compute_threads(1); }).join();
    const at::Tensor sum = at::zeros({100'000}).add(1);  // its first operation
    threads = at::get_num_threads();
    CHECK(sum.numel() == 100'000);
  }).join();
  CHECK(threads == 3);
}
