# Target troupe_algorithms_cuda: the scan family on NVIDIA GPUs, for the main build (preset gpu) and the Python package.
# Include it
# where the language CUDA is enabled and troupe_algorithms exists. Needs neither PyTorch nor a GPU to build; only a
# driver to run.

# CMake 3.25 (Debian 12) does not know nvcc's flag for C++20.
foreach(option STANDARD EXTENSION)
  if(NOT CMAKE_CUDA20_${option}_COMPILE_OPTION)
    set(CMAKE_CUDA20_${option}_COMPILE_OPTION -std=c++20)
  endif()
endforeach()

add_library(troupe_algorithms_cuda STATIC
  ${CMAKE_CURRENT_LIST_DIR}/scan.cu ${CMAKE_CURRENT_LIST_DIR}/scan_columns.cu ${CMAKE_CURRENT_LIST_DIR}/scan_plan.cpp
  ${CMAKE_CURRENT_LIST_DIR}/scan_rows.cu)
find_package(CUDAToolkit REQUIRED)
target_link_libraries(troupe_algorithms_cuda PUBLIC troupe_algorithms PRIVATE CUDA::cudart_static)
# A host function called on the device compiles to nothing, so this warning is always an error.
target_compile_options(troupe_algorithms_cuda PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Werror=cross-execution-space-call>)
set_target_properties(troupe_algorithms_cuda PROPERTIES
  POSITION_INDEPENDENT_CODE ON CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF)
