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
  __device__ float shuffle(float x, int lane) const { return __shfl_sync(~0u, x, lane); }  // that lane's value
  __device__ uint32_t ballot(bool x) const { return __ballot_sync(~0u, x); }
  __device__ void sync_block() const { __syncthreads(); }
  __device__ int first_bit(uint32_t x) const { return __ffs(static_cast<int>(x)) - 1; }

  // Reads kBytes bytes, to which `from` is aligned, if `there`; otherwise the result is arbitrary. Without a branch,
  // which would make later loads wait for this one.
  template <int kBytes>
  __device__ void load(const unsigned char* from, uint32_t* to, bool there) const {
    const auto at = __cvta_generic_to_global(from);
    const int p = there;
    if constexpr (kBytes == 16) {
      asm volatile(
          "{ .reg .pred p; setp.ne.s32 p, %5, 0; mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; mov.u32 %3, 0; @p "
          "ld.global.v4.u32 {%0, %1, %2, %3}, [%4]; }"
          : "=&r"(to[0]), "=&r"(to[1]), "=&r"(to[2]), "=&r"(to[3])
          : "l"(at), "r"(p));
    } else if constexpr (kBytes == 8) {
      asm volatile(
          "{ .reg .pred p; setp.ne.s32 p, %3, 0; mov.u32 %0, 0; mov.u32 %1, 0; @p ld.global.v2.u32 {%0, %1}, [%2]; }"
          : "=&r"(to[0]), "=&r"(to[1])
          : "l"(at), "r"(p));
    } else if constexpr (kBytes == 4) {
      asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; mov.u32 %0, 0; @p ld.global.u32 %0, [%1]; }"
                   : "=&r"(to[0])
                   : "l"(at), "r"(p));
    } else if constexpr (kBytes == 2) {
      asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; mov.u32 %0, 0; @p ld.global.u16 %0, [%1]; }"
                   : "=&r"(to[0])
                   : "l"(at), "r"(p));
    } else {
      asm volatile("{ .reg .pred p; setp.ne.s32 p, %2, 0; mov.u32 %0, 0; @p ld.global.u8 %0, [%1]; }"
                   : "=&r"(to[0])
                   : "l"(at), "r"(p));
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
  __device__ uint64_t load_relaxed(const uint64_t* from) const {
    uint64_t x;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(x) : "l"(__cvta_generic_to_global(from)));
    return x;
  }
  __device__ void store_relaxed(uint64_t* to, uint64_t x) const {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(to)), "l"(x) : "memory");
  }
};

}  // namespace troupe::cuda
