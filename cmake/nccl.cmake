# NCCL and CUDA for the "nccl" process group: sets TROUPE_HAS_NCCL and makes the target troupe_nccl. A build without them is
# complete on CPU.
#
# NCCL is looked for in NCCL_ROOT (a CMake or environment variable), in the nvidia/nccl folder beside the PyTorch that is used
# (a CUDA PyTorch from PyPI brings it), then in the system's folders.

set(TROUPE_HAS_NCCL OFF)
if(NOT TROUPE_GPU)
  message(STATUS "troupe: CPU-only build (the gpu preset adds CUDA and NCCL)")
  return()
endif()

find_package(CUDAToolkit QUIET)
get_filename_component(TROUPE_SITE_PACKAGES "${TORCH_INSTALL_PREFIX}/.." ABSOLUTE)
set(TROUPE_NCCL_HINTS ${NCCL_ROOT} $ENV{NCCL_ROOT} ${TROUPE_SITE_PACKAGES}/nvidia/nccl)
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${TROUPE_NCCL_HINTS} PATH_SUFFIXES include)
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${TROUPE_NCCL_HINTS} PATH_SUFFIXES lib lib64)
if(NOT CUDAToolkit_FOUND OR NOT NCCL_INCLUDE_DIR OR NOT NCCL_LIBRARY)
  message(FATAL_ERROR "troupe: TROUPE_GPU needs the CUDA toolkit (found: ${CUDAToolkit_FOUND}) and NCCL (header folder: "
    "${NCCL_INCLUDE_DIR}, library: ${NCCL_LIBRARY}). Set NCCL_ROOT to the folder that holds include/nccl.h, "
    "or build the release preset, which is complete on CPU.")
endif()

add_library(troupe_nccl INTERFACE)
target_include_directories(troupe_nccl SYSTEM INTERFACE ${NCCL_INCLUDE_DIR})
target_link_libraries(troupe_nccl INTERFACE ${NCCL_LIBRARY} CUDA::cudart)
set(TROUPE_HAS_NCCL ON)
message(STATUS "troupe: CUDA ${CUDAToolkit_VERSION}, NCCL ${NCCL_LIBRARY}")
