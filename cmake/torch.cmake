# Target troupe_torch: LibTorch for the parts that use tensors. Torch_DIR or CMAKE_PREFIX_PATH if given, else the PyTorch of
# the python3 on the PATH, else the one that tools/setup put into .venv.
#
# The libraries are imported by hand: PyTorch's own TorchConfig.cmake enables the CUDA language and searches the whole toolkit
# when PyTorch was built with CUDA, takes seconds, and links libraries that we do not use.

# troupe_find_torch(OUT_LINE python [directory]): what tools/find_torch.py prints, or an empty string after saying why not.
function(troupe_find_torch out_line python)
  execute_process(COMMAND ${python} ${CMAKE_SOURCE_DIR}/tools/find_torch.py ${ARGN}
    OUTPUT_VARIABLE line OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    if(line AND NOT line MATCHES "has no PyTorch|no LibTorch at")
      message(STATUS "troupe: not used: ${line}")
    endif()
    set(line "")
  endif()
  set(${out_line} "${line}" PARENT_SCOPE)
endfunction()

set(TROUPE_VENV_PYTHON ${CMAKE_SOURCE_DIR}/.venv/bin/python3)
# Another request in an existing build folder is followed; none keeps what was found before.
set(torch_request ${Torch_DIR} ${CMAKE_PREFIX_PATH} $ENV{Torch_DIR} $ENV{CMAKE_PREFIX_PATH})
if(NOT EXISTS "${TROUPE_TORCH_ROOT}/lib/libtorch_cpu.so" OR (torch_request AND DEFINED TROUPE_TORCH_REQUEST
   AND NOT torch_request STREQUAL TROUPE_TORCH_REQUEST))
  set(torch_line "")
  if(Torch_DIR)
    troupe_find_torch(torch_line python3 ${Torch_DIR})
    if(NOT torch_line)
      message(FATAL_ERROR "Torch_DIR=${Torch_DIR} holds no LibTorch that troupe can use")
    endif()
  endif()
  foreach(directory ${CMAKE_PREFIX_PATH} $ENV{Torch_DIR} $ENV{CMAKE_PREFIX_PATH})
    if(NOT torch_line)
      string(REPLACE ":" ";" directory "${directory}")
      foreach(part ${directory})
        troupe_find_torch(torch_line python3 ${part})
      endforeach()
    endif()
  endforeach()
  if(NOT torch_line)
    troupe_find_torch(torch_line python3)
  endif()
  # The stamp says that the installation was finished.
  if(NOT torch_line AND EXISTS ${CMAKE_SOURCE_DIR}/.venv/.troupe-torch)
    troupe_find_torch(torch_line ${TROUPE_VENV_PYTHON})
  endif()
  if(NOT torch_line)
    message(FATAL_ERROR "No LibTorch found. Run tools/setup, or give -DTorch_DIR=<where TorchConfig.cmake is>.")
  endif()
  string(REPLACE "\t" ";" torch_line "${torch_line}")
  list(GET torch_line 0 root)
  list(GET torch_line 1 version)
  list(GET torch_line 2 kind)
  set(TROUPE_TORCH_ROOT ${root} CACHE PATH "LibTorch: the folder with include/ and lib/" FORCE)
  set(TROUPE_TORCH_VERSION ${version} CACHE INTERNAL "")
  set(TROUPE_TORCH_KIND ${kind} CACHE INTERNAL "")
endif()
if(torch_request OR NOT DEFINED TROUPE_TORCH_REQUEST)
  set(TROUPE_TORCH_REQUEST "${torch_request}" CACHE INTERNAL "")
endif()
# Its version again, and whenever its header changes, because a PyTorch may be upgraded in place: `troupe` refuses to start with another one.
foreach(header include/torch/headeronly/version.h include/torch/csrc/api/include/torch/version.h)
  if(EXISTS ${TROUPE_TORCH_ROOT}/${header})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${TROUPE_TORCH_ROOT}/${header})
    file(STRINGS ${TROUPE_TORCH_ROOT}/${header} lines REGEX "#define TORCH_VERSION_(MAJOR|MINOR) [0-9]+")
    if(lines MATCHES "VERSION_MAJOR ([0-9]+)")
      set(major ${CMAKE_MATCH_1})
      if(lines MATCHES "VERSION_MINOR ([0-9]+)")
        set(TROUPE_TORCH_VERSION ${major}.${CMAKE_MATCH_1} CACHE INTERNAL "")
      endif()
    endif()
  endif()
endforeach()
message(STATUS "troupe: LibTorch ${TROUPE_TORCH_VERSION} (${TROUPE_TORCH_KIND}) in ${TROUPE_TORCH_ROOT}")

add_library(troupe_torch INTERFACE)
foreach(name c10 torch_cpu)
  add_library(troupe_import_${name} SHARED IMPORTED)
  set_target_properties(troupe_import_${name} PROPERTIES
    IMPORTED_LOCATION ${TROUPE_TORCH_ROOT}/lib/lib${name}.so)
  target_link_libraries(troupe_torch INTERFACE troupe_import_${name})
endforeach()
# SYSTEM, so that their warnings are not ours.
target_include_directories(troupe_torch SYSTEM INTERFACE
  ${TROUPE_TORCH_ROOT}/include ${TROUPE_TORCH_ROOT}/include/torch/csrc/api/include)
# c10d's headers hide its backends without these.
target_compile_definitions(troupe_torch INTERFACE USE_DISTRIBUTED USE_C10D_GLOO)
