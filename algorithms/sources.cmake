# What the algorithm library is made of and how it is compiled, said once: algorithms/CMakeLists.txt and the Python package
# (python/CMakeLists.txt, which builds without the rest of troupe) include this file. Properties of single sources, such as the
# instruction set of a kernel, belong here too: they hold in the folder that includes the file.

set(TROUPE_ALGORITHMS_SOURCES
  advantages.cpp gae.cpp group_advantages.cpp groups.cpp karmarkar_karp.cpp micro_batches.cpp moments.cpp names.cpp
  optimal_baseline.cpp parameters.cpp partition.cpp reward_shaping.cpp rows.cpp running_normalizer.cpp schedule.cpp
  surrogate.cpp task_sampler.cpp token_advantages.cpp value_loss.cpp vtrace.cpp)
list(TRANSFORM TROUPE_ALGORITHMS_SOURCES PREPEND ${CMAKE_CURRENT_LIST_DIR}/)

# The part of runtime/ that they call: no CAF, no LibTorch, no JSON.
set(TROUPE_ALGORITHMS_RUNTIME errors.cpp rng.cpp)
list(TRANSFORM TROUPE_ALGORITHMS_RUNTIME PREPEND ${CMAKE_CURRENT_LIST_DIR}/../runtime/)

# -O3 turns the tiles into vector code; without contraction to fused multiply-add the results do not depend on the
# instruction set.
set(TROUPE_ALGORITHMS_OPTIONS -ffp-contract=off -fno-trapping-math -fno-math-errno $<$<CONFIG:Release>:-O3>)
