#include "algorithms/cuda/scan.h"

#include "algorithms/cuda/launch.cuh"

namespace troupe {

namespace {

// Treats a task of one sequence with adjacent steps as a row, whatever its layout.
void prefer_rows(ScanTask& task) {
  if (task.layout != Layout::time || task.sequences != 1) return;
  const auto adjacent = [](const auto& view) { return view.data == nullptr || view.stride == 1; };
  const bool all = adjacent(task.reward) && adjacent(task.value) && adjacent(task.next) && adjacent(task.gammas) &&
                   adjacent(task.lambdas) && adjacent(task.log_rho) && adjacent(task.terminated) &&
                   adjacent(task.truncated) && adjacent(task.mask) && adjacent(task.first) && adjacent(task.second);
  if (all) task.layout = Layout::rows;
}

}  // namespace

int64_t gpu_scan_workspace(ScanRule rule, ScanTask task) {
  if (check_scan(rule, task) == 0) return 0;
  prefer_rows(task);
  return cuda::plan_scan(rule, task).workspace_bytes;
}

void run_scan_on_gpu(ScanRule rule, ScanTask task, void* workspace, int device, void* stream) {
  if (check_scan(rule, task) == 0) return;
  prefer_rows(task);
  // Another copy of the CUDA runtime in this process, such as PyTorch's, may have selected a different device without
  // this copy noticing.
  cuda::check(cudaSetDevice(device), "selecting the device");
  const cuda::ScanPlan plan = cuda::plan_scan(rule, task);
  const cuda::DeviceScan scan = cuda::device_scan(rule, task, plan, workspace);
  auto* const queue = static_cast<cudaStream_t>(stream);
  auto* const memory = static_cast<unsigned char*>(workspace);
  if (plan.cleared_bytes > 0)
    cuda::check(cudaMemsetAsync(memory, 0, static_cast<std::size_t>(plan.cleared_bytes), queue), "clearing memory");
  if (!task.offsets.empty())
    cuda::check(cudaMemcpyAsync(memory + plan.offsets_at, task.offsets.data(), task.offsets.size_bytes(),
                                cudaMemcpyHostToDevice, queue),
                "copying the offsets");
  const cuda::Kernel kernel =
      task.layout == Layout::rows ? cuda::row_kernel(rule, plan) : cuda::column_kernel(rule, plan);
  cuda::start(kernel, plan, scan, queue);
}

}  // namespace troupe
