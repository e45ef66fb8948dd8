# Option TROUPE_GPU (preset gpu): TROUPE_HAS_CUDA when kernels can be compiled, and target troupe_cuda for the parts that use
# CUDA and NCCL, when all they need is found; else one line, and the build is the CPU version, which is complete.

set(TROUPE_HAS_CUDA OFF)
set(TROUPE_HAS_GPU OFF)
set(TROUPE_USES_CUDA 0)  # whether the programs can train on a GPU
if(NOT TROUPE_GPU)
  message(STATUS "troupe: CPU build (preset gpu adds CUDA and NCCL)")
  return()
endif()

find_package(CUDAToolkit 12.0 QUIET)  # the first with C++20
if(CUDAToolkit_FOUND)
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80 90)
  endif()
  # CMake looks for nvcc on the PATH only, where the toolkit's installers do not put it.
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX})
    set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
  endif()
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  enable_language(CUDA)
  set(TROUPE_HAS_CUDA ON)
endif()
# PyTorch's CUDA wheels keep NCCL in a package beside them.
get_filename_component(site_packages ${TROUPE_TORCH_ROOT} DIRECTORY)
find_path(NCCL_INCLUDE_DIR nccl.h
  HINTS ${NCCL_ROOT} $ENV{NCCL_ROOT} ${site_packages}/nvidia/nccl PATH_SUFFIXES include)
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2
  HINTS ${NCCL_ROOT} $ENV{NCCL_ROOT} ${site_packages}/nvidia/nccl PATH_SUFFIXES lib)
mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)

set(missing "")
if(NOT CUDAToolkit_FOUND)
  list(APPEND missing "the CUDA toolkit, 12.0 or newer,")
endif()
if(NOT NCCL_INCLUDE_DIR OR NOT NCCL_LIBRARY)
  list(APPEND missing "NCCL (set NCCL_ROOT)")
endif()
if(missing)
  list(JOIN missing " and " missing)
  message(STATUS "troupe: ${missing} not found: building the CPU version of the programs")
  return()
endif()

set(TROUPE_HAS_GPU ON)

add_library(troupe_cuda INTERFACE)
target_link_libraries(troupe_cuda INTERFACE troupe_torch CUDA::cudart ${NCCL_LIBRARY})
target_include_directories(troupe_cuda SYSTEM INTERFACE ${NCCL_INCLUDE_DIR})
# As a plain option: CMAKE_CUDA_STANDARD 20 is unknown to CMake 3.25.1, Debian 12's.
target_compile_options(troupe_cuda INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:-std=c++20>)
target_compile_definitions(troupe_cuda INTERFACE TROUPE_HAS_GPU=1 USE_C10D_NCCL)
if(TROUPE_TORCH_KIND STREQUAL "cuda")
  set(TROUPE_USES_CUDA 1)
  # They register their kernels when loaded and no symbol of theirs may be used: --as-needed would drop them.
  set(cuda_libraries "")
  foreach(name c10_cuda torch_cuda)
    list(APPEND cuda_libraries ${TROUPE_TORCH_ROOT}/lib/lib${name}.so)
  endforeach()
  target_link_libraries(troupe_cuda INTERFACE
    -Wl,--push-state,--no-as-needed ${cuda_libraries} -Wl,--pop-state
    -Wl,--allow-shlib-undefined)  # what they need themselves is found when they are loaded
  message(STATUS "troupe: GPU build: CUDA ${CUDAToolkit_VERSION}, NCCL in ${NCCL_INCLUDE_DIR}")
else()
  message(STATUS "troupe: GPU parts are compiled, but this LibTorch is a CPU build: programs will run on the CPU")
endif()
