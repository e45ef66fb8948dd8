// Token balancing: partitions, micro-batches, restoring order.

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include "algorithms/balance/micro_batches.h"
#include "algorithms/balance/partition.h"
#include "python/src/bind.h"

namespace troupe::python {

namespace {

namespace py = pybind11;
using Indices = std::vector<int64_t>;

Partition differencing(const View& lengths, int64_t k, bool equal_size) {
  return karmarkar_karp(lengths.in<int64_t>(), k, equal_size);
}

Partition balanced(const View& lengths, int64_t k, bool equal_size) {
  return balanced_partitions(lengths.in<int64_t>(), k, equal_size);
}

Partition greedy(const View& lengths, int64_t k, bool equal_size) {
  return greedy_partition(lengths.in<int64_t>(), k, equal_size);
}

Partition fit(const View& lengths, int64_t cap) { return first_fit(lengths.in<int64_t>(), cap); }

Partition ranks(const View& lengths, int64_t k, bool by_workload, bool light_ends, int64_t minibatch) {
  return balance_ranks(lengths.in<int64_t>(), k, {by_workload, light_ends, minibatch});
}

Partition by_group(const View& lengths, const View& groups, int64_t k) {
  return group_balanced_partitions(lengths.in<int64_t>(), groups.in<int64_t>(), k);
}

// `maximum_over_ranks` acquires the interpreter's lock itself when it is called.
Partition batches(const View& lengths, int64_t max_tokens, int64_t min_count, int64_t divided_by, bool by_workload,
                  bool sort, bool interleave, bool verl_compat, std::function<int64_t(int64_t)> maximum_over_ranks) {
  MicroBatchOptions options;
  options.max_tokens = max_tokens;
  options.min_count = min_count;
  options.divided_by = divided_by;
  options.by_workload = by_workload;
  options.sort = sort;
  options.interleave = interleave;
  options.verl_compat = verl_compat;
  options.maximum_over_ranks = std::move(maximum_over_ranks);
  return micro_batches(lengths.in<int64_t>(), options);
}

py::dict stats(const View& lengths, const Partition& partition) {
  const BalanceStats s = balance_stats(lengths.in<int64_t>(), partition);
  return py::dict(py::arg("min") = s.min, py::arg("max") = s.max, py::arg("minmax_diff") = s.max - s.min,
                  py::arg("balanced_min") = s.balanced_min, py::arg("balanced_max") = s.balanced_max,
                  py::arg("mean") = s.mean, py::arg("lower_bound") = s.lower_bound, py::arg("imbalance") = s.imbalance);
}

Indices positions(const Partition& partition) { return restore_order(partition); }

Indices work(const View& lengths) { return workloads(lengths.in<int64_t>()); }

}  // namespace

void bind_balance(py::module_& module) {
  module.def("karmarkar_karp", &differencing, NoGil());
  module.def("balanced_partitions", &balanced, NoGil());
  module.def("greedy_partition", &greedy, NoGil());
  module.def("first_fit", &fit, NoGil());
  module.def("balance_ranks", &ranks, NoGil());
  module.def("group_balanced_partitions", &by_group, NoGil());
  module.def("micro_batches", &batches, NoGil());
  module.def("balance_stats", &stats);
  module.def("restore_order", &positions, NoGil());
  module.def("workloads", &work, NoGil());
}

}  // namespace troupe::python
