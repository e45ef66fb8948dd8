# Compiles through ccache if there is one. Paths below the source tree count as relative, so that clones, work trees and builds of
# the Python package by itself share what was compiled.

cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH base_folder)
cmake_path(IS_PREFIX base_folder ${CMAKE_BINARY_DIR} NORMALIZE build_is_inside)
if(NOT build_is_inside)  # pip builds in a temporary folder, whose name is another one each time, at the same depth
  set(base_folder /)
endif()
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${base_folder}
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE_PROGRAM})
endif()
