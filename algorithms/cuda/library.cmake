# Target troupe_algorithms_cuda: the scan family on NVIDIA GPUs, for the main build (preset gpu) and the Python package. Included
# where the language CUDA is enabled and troupe_algorithms exists. Needs neither PyTorch nor a GPU; at run time only a driver.

# CMake 3.25, Debian 12's, does not know how nvcc is asked for C++20.
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
# A host function called on the device compiles to nothing, so that warning is an error always.
target_compile_options(troupe_algorithms_cuda PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-Werror=cross-execution-space-call>)
set_target_properties(troupe_algorithms_cuda PROPERTIES
  POSITION_INDEPENDENT_CODE ON CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF)
