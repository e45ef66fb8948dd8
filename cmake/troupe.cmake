# What every target of ours is built with, and the two functions that make one.

add_library(troupe_options INTERFACE)
target_include_directories(troupe_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(troupe_options INTERFACE -Wall -Wextra $<$<BOOL:${TROUPE_WERROR}>:-Werror>)
if(TROUPE_SANITIZE)
  target_compile_options(troupe_options INTERFACE -fsanitize=address,undefined -fno-omit-frame-pointer)
  target_link_options(troupe_options INTERFACE -fsanitize=address,undefined)
endif()

# troupe_library(NAME SOURCES a.cpp ... LINK public libraries ...)
function(troupe_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_link_libraries(${name} PUBLIC troupe_options ${ARG_LINK})
endfunction()

# troupe_test(NAME LABEL unit SOURCES a_test.cpp ... LINK libraries ...): one doctest program, one CTest entry per program.
# TORCH says that it links LibTorch. TIMEOUT is in seconds.
function(troupe_test name)
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES} ${CMAKE_SOURCE_DIR}/tests/support/main.cpp)
  target_link_libraries(${name} PRIVATE troupe_options ${ARG_LINK})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT ${ARG_TIMEOUT}
    ENVIRONMENT "TROUPE_BUILD_DIR=${CMAKE_BINARY_DIR};UBSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/support/ubsan.supp:print_stacktrace=1;ASAN_OPTIONS=detect_leaks=1")
endfunction()
