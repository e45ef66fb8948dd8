#pragma once
// Compiles one loop for every instruction set and runs the selected one. The target attribute is on a function of ours,
// not on a whole file. Otherwise inline functions of headers could be compiled with instructions that another processor
// lacks. Internal to algorithms/.

#include "algorithms/common/cpu.h"

// Goes after a lambda's parameter list: the lambda must be inlined into the function that is compiled for the
// instruction set.
#define TROUPE_INLINE_LAMBDA __attribute__((always_inline))

namespace troupe {

namespace detail {
template <class Body>
void run_sse2(const Body& body) {
  body();
}
#if defined(__x86_64__) && defined(__GNUC__)
template <class Body>
[[gnu::target("avx2")]] void run_avx2(const Body& body) {
  body();
}
template <class Body>
[[gnu::target("avx512f,avx512dq,avx512bw,avx512vl,prefer-vector-width=512")]] void run_avx512(const Body& body) {
  body();
}
#else
template <class Body>
void run_avx2(const Body& body) {
  body();
}
template <class Body>
void run_avx512(const Body& body) {
  body();
}
#endif
}  // namespace detail

// Calls body, a lambda `[&]() TROUPE_INLINE_LAMBDA { ... }`. Everything that it calls must be inlined too.
template <class Body>
void with_isa(Isa isa, const Body& body) {
  if (isa == Isa::avx512) return detail::run_avx512(body);
  if (isa == Isa::avx2) return detail::run_avx2(body);
  detail::run_sse2(body);
}

}  // namespace troupe
