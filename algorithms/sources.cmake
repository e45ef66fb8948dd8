# What the algorithm library is made of and how it is compiled, said once: algorithms/CMakeLists.txt and the Python package
# (python/CMakeLists.txt, which builds without the rest of troupe) include this file. Properties of single sources, such as the
# instruction set of a kernel, belong here too: they hold in the folder that includes the file.

set(TROUPE_ALGORITHMS_SOURCES
  advantages.cpp aggregation.cpp covariance_surrogate.cpp cpu.cpp gae.cpp group_advantages.cpp groups.cpp
  karmarkar_karp.cpp kl.cpp logprob.cpp micro_batches.cpp moments.cpp names.cpp optimal_baseline.cpp parameters.cpp
  partition.cpp returns.cpp reward_shaping.cpp rollout_correction.cpp rows.cpp running_normalizer.cpp scan.cpp
  scan_avx2.cpp scan_avx512.cpp scan_sse2.cpp schedule.cpp sequence_surrogate.cpp surrogate.cpp surrogate_kernel.cpp
  surrogate_table.cpp token_advantages.cpp value_loss.cpp vtrace.cpp)
list(TRANSFORM TROUPE_ALGORITHMS_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)

# The part of runtime/ that they call: no CAF, no LibTorch, no JSON.
set(TROUPE_ALGORITHMS_RUNTIME errors.cpp rng.cpp task_sampler.cpp)
list(TRANSFORM TROUPE_ALGORITHMS_RUNTIME PREPEND ${CMAKE_CURRENT_LIST_DIR}/../runtime/)

# -O3 turns the tiles into vector code; without contraction to fused multiply-add the results do not depend on the
# instruction set.
set(TROUPE_ALGORITHMS_OPTIONS -ffp-contract=off -fno-trapping-math -fno-math-errno $<$<CONFIG:Release>:-O3>
  $<$<CONFIG:Debug>:-O1>)

# The scan kernels, once for each instruction set; elsewhere than on x86-64 all but the first are empty. They keep everything in
# an unnamed namespace, so that no function of theirs is taken for one of another file. Vectors pass between inlined functions
# only: no ABI to warn of.
set(scan_folder ${CMAKE_CURRENT_LIST_DIR})
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties(${scan_folder}/scan_sse2.cpp PROPERTIES COMPILE_OPTIONS "-Wno-psabi")
  set_source_files_properties(${scan_folder}/scan_avx2.cpp PROPERTIES COMPILE_OPTIONS "-Wno-psabi;-mavx2;-mfma")
  set_source_files_properties(${scan_folder}/scan_avx512.cpp PROPERTIES
    COMPILE_OPTIONS "-Wno-psabi;-mavx2;-mfma;-mavx512f;-mavx512dq;-mavx512bw;-mavx512vl;-mprefer-vector-width=512")
endif()
