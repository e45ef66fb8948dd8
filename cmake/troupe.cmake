# What every target of ours is built with, and the two functions that make one.

add_library(troupe_options INTERFACE)
target_include_directories(troupe_options INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(troupe_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wno-missing-field-initializers;$<$<BOOL:${TROUPE_WERROR}>:-Werror>>)
if(TROUPE_SANITIZE)
  target_compile_options(troupe_options INTERFACE -fsanitize=address,undefined -fno-omit-frame-pointer)
  target_link_options(troupe_options INTERFACE -fsanitize=address,undefined)
endif()

# Precompiled headers, which shorten a build: one for what reads JSON, one for what runs actors too. Headers
# of other projects only, so that a change to ours rebuilds no more than what includes it. `tools/check headers` and
# the preset dev compile without them, so that a missing include is found.
set(json_headers <nlohmann/json.hpp> <filesystem> <fstream> <functional> <map> <sstream>)
set(actor_headers <caf/event_based_actor.hpp> <caf/scoped_actor.hpp> <caf/stateful_actor.hpp> <caf/typed_event_based_actor.hpp>)
foreach(name json actor)
  add_library(troupe_precompiled_${name} OBJECT ${CMAKE_SOURCE_DIR}/cmake/precompiled.cpp)
  target_link_libraries(troupe_precompiled_${name} PRIVATE troupe_options nlohmann_json::nlohmann_json)
endforeach()
target_link_libraries(troupe_precompiled_actor PRIVATE CAF::core)
target_precompile_headers(troupe_precompiled_json PRIVATE ${json_headers})
target_precompile_headers(troupe_precompiled_actor PRIVATE ${actor_headers} ${json_headers})

# troupe_library(NAME [PRECOMPILED json | actor] SOURCES a.cpp ... [ALONE b.cpp ...] LINK public libraries ...): SOURCES are compiled
# in batches; ALONE, those with options or definitions of their own, one by one.
function(troupe_library name)
  cmake_parse_arguments(ARG "" "PRECOMPILED" "SOURCES;ALONE;LINK" ${ARGN})
  troupe_batches(files ${name} ${ARG_SOURCES})
  add_library(${name} STATIC ${files} ${ARG_ALONE})
  target_link_libraries(${name} PUBLIC troupe_options ${ARG_LINK})
  if(ARG_PRECOMPILED)
    target_precompile_headers(${name} REUSE_FROM troupe_precompiled_${ARG_PRECOMPILED})
  endif()
endfunction()

# The interpreter for tests that read our files with the real readers (tools/requirements-test.txt), passed to every test as
# TROUPE_PYTHON.
if(EXISTS ${CMAKE_SOURCE_DIR}/.venv/.troupe-requirements-test.txt)
  set(TROUPE_TEST_PYTHON ${CMAKE_SOURCE_DIR}/.venv/bin/python3)
else()
  set(TROUPE_TEST_PYTHON python3)
endif()

# troupe_test_properties(NAME LABEL TIMEOUT SERIAL): `learn` tests and SERIAL ones, which measure time, run alone; `process`
# tests, which start several processes each, run beside unit tests but not beside each other.
function(troupe_test_properties name label timeout serial)
  if(NOT timeout)
    set(timeout 120)
  endif()
  if(TROUPE_SANITIZE)
    math(EXPR timeout "${timeout} * 5")  # instrumented
  endif()
  set(environment
    TROUPE_BUILD_DIR=${CMAKE_BINARY_DIR}
    TROUPE_PYTHON=${TROUPE_TEST_PYTHON}
    UBSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/support/ubsan.supp:print_stacktrace=1:halt_on_error=1
    ASAN_OPTIONS=detect_leaks=1
    LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/support/lsan.supp:print_suppressions=0)
  set_tests_properties(${name} PROPERTIES LABELS "${label}" TIMEOUT ${timeout} ENVIRONMENT "${environment}")
  if(serial OR label STREQUAL "learn")
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  elseif(label STREQUAL "process")
    set_tests_properties(${name} PROPERTIES RESOURCE_LOCK processes)
  endif()
endfunction()

# tests_unit builds what the tests of that label run, and so on.
foreach(label unit actor process learn gpu)
  add_custom_target(tests_${label})
endforeach()

# troupe_test(NAME LABEL unit SOURCES a_test.cpp ... LINK libraries ... [TIMEOUT seconds] [SERIAL]): one doctest program, one
# CTest entry per program.
function(troupe_test name)
  cmake_parse_arguments(ARG "SERIAL" "LABEL;TIMEOUT" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES} ${CMAKE_SOURCE_DIR}/tests/support/main.cpp)
  target_link_libraries(${name} PRIVATE troupe_options ${ARG_LINK})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_dependencies(tests_${ARG_LABEL} ${name})
  add_test(NAME ${name} COMMAND ${name} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  troupe_test_properties(${name} "${ARG_LABEL}" "${ARG_TIMEOUT}" "${ARG_SERIAL}")
endfunction()

# troupe_script_test(NAME LABEL unit SCRIPT tests/x/y.py [ARGS ...] [TIMEOUT seconds] [SERIAL]): a test written in Python.
function(troupe_script_test name)
  cmake_parse_arguments(ARG "SERIAL" "LABEL;TIMEOUT;SCRIPT" "ARGS" ${ARGN})
  add_test(NAME ${name} COMMAND ${TROUPE_TEST_PYTHON} ${CMAKE_SOURCE_DIR}/${ARG_SCRIPT} ${ARG_ARGS}
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  troupe_test_properties(${name} "${ARG_LABEL}" "${ARG_TIMEOUT}" "${ARG_SERIAL}")
endfunction()
