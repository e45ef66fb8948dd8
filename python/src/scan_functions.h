#pragma once
// The bound functions of the scan family, instantiated once for the CPU (scan.cpp) and once for the GPU
// (cuda.cpp). Arrays are passed as rows of memory: [B, T] when time_major is false, [T, B] when it is true; packed
// ones are flat, with offsets.

#include "algorithms/advantages/gae.h"
#include "algorithms/advantages/returns.h"
#include "algorithms/advantages/vtrace.h"
#include "algorithms/scan/scan.h"
#include "python/src/bind.h"

namespace troupe::python {

// The distance in elements from one row of memory to the next; arbitrary for a single row.
inline int64_t row_stride(const View& view) { return view.rank() < 2 || view.dim(0) < 2 ? kDense : view.stride(0); }

inline FloatView floats(const View* view) {
  if (view == nullptr) return {};
  const auto size = static_cast<std::size_t>(view->size());
  if (view->dtype() == DType::bf16) return {view->data<uint16_t>(), Element::bfloat16, size, row_stride(*view)};
  return {view->data<float>(), Element::float32, size, row_stride(*view)};
}

inline FlagView flags(const View* view) {
  if (view == nullptr) return {};
  return {view->data<uint8_t>(), static_cast<std::size_t>(view->size()), row_stride(*view)};
}

inline OutputView output(const View& view) {
  return {view.mutable_data<float>(), static_cast<std::size_t>(view.size()), row_stride(view)};
}

// An array with one dimension is one sequence.
template <class Input>
void set_shape(Input& in, const View& rewards, bool time_major) {
  if (rewards.rank() == 1) {
    in.layout = Layout::rows;
    in.steps = rewards.dim(0);
    in.sequences = 1;
    return;
  }
  in.layout = time_major ? Layout::time : Layout::rows;
  in.steps = rewards.dim(time_major ? 0 : 1);
  in.sequences = rewards.dim(time_major ? 1 : 0);
}

template <class Input>
void set_shape(Input& in, const View& rewards, bool time_major, const View* offsets) {
  if (offsets == nullptr) return set_shape(in, rewards, time_major);
  in.layout = Layout::rows;
  in.offsets = offsets->in<int64_t>();
  in.sequences = offsets->size() - 1;
}

// Without `advantages`, computes lambda-returns.
template <auto kRun, class... Extra>
auto gae_returns(const View& rewards, const View& values, const View* next_values, const View* terminated,
                 const View* truncated, const View* mask, const View* gammas, const View* lambdas,
                 const View* bootstrap, const View* offsets, float gamma, float lambda, bool time_major,
                 bool carry_outside, int threads, const View* advantages, const View& returns, Extra... extra) {
  GaeInput in;
  set_shape(in, rewards, time_major, offsets);
  in.rewards = floats(&rewards);
  in.values = floats(&values);
  in.next_values = floats(next_values);
  in.terminated = flags(terminated);
  in.truncated = flags(truncated);
  in.mask = flags(mask);
  in.gammas = floats(gammas);
  in.lambdas = floats(lambdas);
  in.bootstrap = in_or_empty<float>(bootstrap);
  in.gamma = gamma;
  in.lambda = lambda;
  in.outside = carry_outside ? Outside::carry : Outside::zero;
  in.threads = threads;
  ScanTask task = scan_task(in);
  if (advantages != nullptr) task.first = output(*advantages);
  task.second = output(returns);
  return kRun(advantages != nullptr ? ScanRule::gae : ScanRule::lambda_return, task, extra...);
}

// A bound of 0 means no bound.
template <auto kRun, class... Extra>
auto vtrace_targets(const View& log_rho, const View& discounts, const View& rewards, const View& values,
                    const View& bootstrap, float lambda, float rho_bar, float c_bar, float pg_rho_bar, bool rlax,
                    bool time_major, int threads, const View& vs, const View& pg_advantages, Extra... extra) {
  VtraceInput in;
  set_shape(in, rewards, time_major);
  in.log_rho = floats(&log_rho);
  in.discounts = floats(&discounts);
  in.rewards = floats(&rewards);
  in.values = floats(&values);
  in.bootstrap = bootstrap.in<float>();
  in.lambda = lambda;
  in.rho_bar = rho_bar;
  in.c_bar = c_bar;
  in.pg_rho_bar = pg_rho_bar;
  in.multiply_pg_rho = true;
  in.q_mix = rlax ? QMix::rlax : QMix::impala;
  in.threads = threads;
  ScanTask task = scan_task(in);
  task.first = output(vs);
  task.second = output(pg_advantages);
  return kRun(ScanRule::vtrace, task, extra...);
}

template <auto kRun, class... Extra>
auto discounted_returns(const View& rewards, const View* terminated, const View* mask, const View* gammas,
                        const View* bootstrap, const View* offsets, float gamma, bool time_major, bool reset,
                        bool carry_outside, int threads, const View& returns, Extra... extra) {
  ReturnInput in;
  set_shape(in, rewards, time_major, offsets);
  in.rewards = floats(&rewards);
  in.terminated = flags(terminated);
  in.mask = flags(mask);
  in.gammas = floats(gammas);
  in.bootstrap = in_or_empty<float>(bootstrap);
  in.gamma = gamma;
  in.masked = reset ? MaskedReturn::reset : MaskedReturn::skip;
  in.outside = carry_outside ? Outside::carry : Outside::zero;
  in.threads = threads;
  ScanTask task = scan_task(in);
  task.second = output(returns);
  return kRun(ScanRule::reward_to_go, task, extra...);
}

// kRun(ScanRule, const ScanTask&, Extra...) runs a task. The functions take the Extra arguments after their other
// arguments and return the result of kRun.
template <auto kRun, class... Extra>
void bind_scan_functions(pybind11::module_& module) {
  module.def("gae_returns", &gae_returns<kRun, Extra...>, NoGil());
  module.def("vtrace_targets", &vtrace_targets<kRun, Extra...>, NoGil());
  module.def("discounted_returns", &discounted_returns<kRun, Extra...>, NoGil());
}

}  // namespace troupe::python
