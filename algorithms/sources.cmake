# The sources and compile options of the algorithm library, in one place: algorithms/CMakeLists.txt and the Python
# package (python/CMakeLists.txt, which builds without the rest of troupe) include this file. Properties of single
# sources, such as the instruction set of a kernel, must be set here too, because they apply to the folder that includes
# the file.

set(TROUPE_ALGORITHMS_SOURCES
  advantages/advantages.cpp losses/aggregation.cpp losses/class_sums.cpp losses/covariance_surrogate.cpp common/cpu.cpp advantages/gae.cpp advantages/group_advantages.cpp common/groups.cpp
  balance/karmarkar_karp.cpp losses/kl.cpp losses/logprob.cpp losses/proximal.cpp balance/micro_batches.cpp common/moments.cpp common/names.cpp advantages/optimal_baseline.cpp common/parameters.cpp
  balance/partition.cpp advantages/returns.cpp advantages/reward_shaping.cpp losses/rollout_correction.cpp common/token_sequences.cpp common/running_normalizer.cpp scan/scan.cpp
  common/schedule.cpp losses/sequence_surrogate.cpp losses/surrogate.cpp losses/surrogate_kernel.cpp
  losses/surrogate_table.cpp advantages/token_advantages.cpp losses/value_loss.cpp advantages/vtrace.cpp)
# Compiled one by one, with options of their own.
set(TROUPE_ALGORITHMS_ALONE scan/scan_avx512.cpp scan/scan_avx2.cpp scan/scan_sse2.cpp)
list(TRANSFORM TROUPE_ALGORITHMS_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)
list(TRANSFORM TROUPE_ALGORITHMS_ALONE PREPEND ${CMAKE_CURRENT_LIST_DIR}/)

# The part of runtime/ that they call: no CAF, no LibTorch, no JSON.
set(TROUPE_ALGORITHMS_RUNTIME base/errors.cpp base/rng.cpp base/suggest.cpp base/task_sampler.cpp config/setting.cpp)
list(TRANSFORM TROUPE_ALGORITHMS_RUNTIME PREPEND ${CMAKE_CURRENT_LIST_DIR}/../runtime/)

# -O3 vectorizes the tiles. Without contraction to fused multiply-add, results do not depend on the instruction set.
set(TROUPE_ALGORITHMS_OPTIONS -ffp-contract=off -fno-trapping-math -fno-math-errno $<$<CONFIG:Release>:-O3>
  $<$<CONFIG:Debug>:-O1>)

# The scan kernels, compiled once per instruction set; on processors other than x86-64 all but the first are empty. They
# keep
# everything in an unnamed namespace, so that the linker cannot merge their functions with those of another file.
# Vectors are passed
# between inlined functions only, so the compiler's ABI warning does not apply.
set(scan_folder ${CMAKE_CURRENT_LIST_DIR}/scan)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(${scan_folder}/scan_sse2.cpp PROPERTIES COMPILE_OPTIONS "-Wno-psabi")
  set_source_files_properties(${scan_folder}/scan_avx2.cpp PROPERTIES COMPILE_OPTIONS "-Wno-psabi;-mavx2;-mfma")
  set_source_files_properties(${scan_folder}/scan_avx512.cpp PROPERTIES
    COMPILE_OPTIONS "-Wno-psabi;-mavx2;-mfma;-mavx512f;-mavx512dq;-mavx512bw;-mavx512vl;-mprefer-vector-width=512")
endif()
