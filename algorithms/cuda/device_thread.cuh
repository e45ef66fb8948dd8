#pragma once
// DeviceThread: the GPU operations that the kernels use, in one place. tests/algorithms/scan/emulated_grid.h is the
// other implementation. For nvcc only.

#include <cstdint>

namespace troupe::cuda {

class DeviceThread {
 public:
  __device__ int index() const { return static_cast<int>(threadIdx.x); }
  __device__ int lane() const { return index() % 32; }
  __device__ int warp() const { return index() / 32; }
  __device__ int64_t block() const { return blockIdx.x; }

  // These involve whole warps. Beyond the last lane, shuffle_down returns the lane's own value.
  __device__ float shuffle_down(float x, int by) const { return __shfl_down_sync(~0u, x, by); }
  __device__ float broadcast(float x) const { return __shfl_sync(~0u, x, 0); }  // lane 0's value
  __device__ uint32_t ballot(bool x) const { return __ballot_sync(~0u, x); }
  __device__ void sync_warp() const { __syncwarp(); }
  __device__ void sync_block() const { __syncthreads(); }
  __device__ int first_bit(uint32_t x) const { return __ffs(static_cast<int>(x)) - 1; }

  // Both pointers are 16-byte aligned. Reads the first `bytes` of 16 bytes, the rest become 0. Complete
  // after the wait for its group.
  __device__ void copy_async(void* shared, const void* global, int bytes) const {
    const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(__cvta_generic_to_global(global)),
                 "r"(bytes)
                 : "memory");
  }
  __device__ void commit_copies() const { asm volatile("cp.async.commit_group;" ::: "memory"); }
  // Waits until at most `groups` (0 to 3) of this thread's groups are still in progress.
  __device__ void wait_copies(int groups) const {
    switch (groups) {
      case 0: asm volatile("cp.async.wait_group 0;" ::: "memory"); break;
      case 1: asm volatile("cp.async.wait_group 1;" ::: "memory"); break;
      case 2: asm volatile("cp.async.wait_group 2;" ::: "memory"); break;
      default: asm volatile("cp.async.wait_group 3;" ::: "memory");
    }
  }

  // Results are not read again, so they should not evict inputs from the cache.
  __device__ void store_streaming(float* to, float x) const { __stcs(to, x); }
  template <class Four>  // 16-byte aligned
  __device__ void store_streaming(float* to, const Four& four) const {
    __stcs(reinterpret_cast<float4*>(to), make_float4(four.x[0], four.x[1], four.x[2], four.x[3]));
  }

  // Communication between blocks.
  __device__ uint32_t take_ticket(uint32_t* counter) const { return atomicAdd(counter, 1u); }
  __device__ uint32_t load_acquire(const uint32_t* from) const {
    uint32_t x;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(__cvta_generic_to_global(from)) : "memory");
    return x;
  }
  __device__ void store_release(uint32_t* to, uint32_t x) const {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "r"(x) : "memory");
  }
  // Reads what another block wrote before it published a status that this thread has acquired. Loads from the L2 cache,
  // which all blocks share.
  __device__ float load_fresh(const float* from) const { return __ldcg(from); }
};

}  // namespace troupe::cuda
