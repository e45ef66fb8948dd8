# Finds LibTorch without loading TorchConfig's CUDA probing on CPU machines: Torch_DIR or CMAKE_PREFIX_PATH if given, else the
# python3 on the PATH, else the virtual environment that tools/setup makes inside the tree.

if(NOT Torch_DIR)
  find_package(Torch QUIET)
endif()
if(NOT Torch_FOUND)
  foreach(python python3 ${CMAKE_SOURCE_DIR}/.venv/bin/python3)
    execute_process(COMMAND ${python} -c "import torch; print(torch.utils.cmake_prefix_path)"
      OUTPUT_VARIABLE TROUPE_TORCH_PREFIX OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE TROUPE_TORCH_RESULT)
    if(TROUPE_TORCH_RESULT EQUAL 0)
      list(APPEND CMAKE_PREFIX_PATH ${TROUPE_TORCH_PREFIX})
      break()
    endif()
  endforeach()
  find_package(Torch REQUIRED)
endif()

# One imported target for the parts that use tensors; SYSTEM headers so that their warnings are not ours.
add_library(troupe_torch INTERFACE)
target_link_libraries(troupe_torch INTERFACE ${TORCH_LIBRARIES})
target_include_directories(troupe_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
separate_arguments(TROUPE_TORCH_FLAGS UNIX_COMMAND "${TORCH_CXX_FLAGS}")
target_compile_options(troupe_torch INTERFACE ${TROUPE_TORCH_FLAGS})
