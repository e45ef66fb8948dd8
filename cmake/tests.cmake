# How tests are built and registered with CTest.

# The interpreter for tests that read our files with the real readers (tools/requirements-test.txt), passed to every test as
# TROUPE_PYTHON.
if(EXISTS ${CMAKE_SOURCE_DIR}/.venv/.troupe-requirements-test.txt)
  set(TROUPE_TEST_PYTHON ${CMAKE_SOURCE_DIR}/.venv/bin/python3)
else()
  set(TROUPE_TEST_PYTHON python3)
endif()

# troupe_test_properties(NAME LABEL TIMEOUT SERIAL): SERIAL tests, which measure time, run alone. tools/test runs
# as many tests at once as two per core: one that computes takes two of these places, one that mostly waits (label process) one.
function(troupe_test_properties name label timeout serial)
  # Only a test that hangs reaches its limit: the machine may have much else to do.
  if(NOT timeout)
    set(timeout 600)
  endif()
  if(TROUPE_SANITIZE)
    math(EXPR timeout "${timeout} * 5")  # instrumented
  endif()
  set(environment
    TROUPE_BUILD_DIR=${CMAKE_BINARY_DIR}
    TROUPE_PYTHON=${TROUPE_TEST_PYTHON}
    PYTHONDONTWRITEBYTECODE=1  # nothing is written into the source tree
    UBSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/support/ubsan.supp:print_stacktrace=1:halt_on_error=1
    ASAN_OPTIONS=detect_leaks=1
    LSAN_OPTIONS=suppressions=${CMAKE_SOURCE_DIR}/tests/support/lsan.supp:print_suppressions=0)
  set_tests_properties(${name} PROPERTIES LABELS "${label}" TIMEOUT ${timeout} ENVIRONMENT "${environment}")
  if(serial)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  elseif(NOT label STREQUAL "process")
    set_tests_properties(${name} PROPERTIES PROCESSORS 2)
  endif()
endfunction()

# tests_unit builds what the tests of that label run, and so on.
foreach(label unit actor process learn nightly gpu peers)
  add_custom_target(tests_${label})
endforeach()

# The precompiled header of the sources that use LibTorch. A program, because g++ reuses a precompiled header only with the same
# options for position-independent code. The other sources gain nothing from one.
add_executable(troupe_precompiled_torch_test EXCLUDE_FROM_ALL ${CMAKE_SOURCE_DIR}/cmake/precompiled.cpp)
target_link_libraries(troupe_precompiled_torch_test PRIVATE troupe_options troupe_test_support troupe_torch)
target_precompile_headers(troupe_precompiled_torch_test PRIVATE ${CMAKE_SOURCE_DIR}/tests/support/torch_test.h)

# What test programs share, compiled once: main(), and starting commands and whole runs.
add_library(troupe_test_support STATIC EXCLUDE_FROM_ALL
  ${CMAKE_SOURCE_DIR}/tests/support/main.cpp ${CMAKE_SOURCE_DIR}/tests/support/run_command.cpp)
target_link_libraries(troupe_test_support PUBLIC troupe_options)
add_library(troupe_process_support STATIC EXCLUDE_FROM_ALL
  ${CMAKE_SOURCE_DIR}/tests/process/process.cpp ${CMAKE_SOURCE_DIR}/tests/process/train_process.cpp)
target_link_libraries(troupe_process_support PUBLIC troupe_test_support troupe_actors nlohmann_json::nlohmann_json)

# troupe_test(NAME LABEL unit [SOURCES a_test.cpp ...] [TORCH b_test.cpp ...] LINK libraries ... [TIMEOUT seconds] [SERIAL] [BY_FILE]): one
# doctest program. It is one CTest entry, or with BY_FILE one entry NAME.a_test for each source whose name ends with _test. TORCH: the
# sources that include tests/support/torch_test.h, directly or not.
function(troupe_test name)
  cmake_parse_arguments(ARG "SERIAL;BY_FILE" "LABEL;TIMEOUT" "SOURCES;TORCH;LINK" ${ARGN})
  troupe_test_program(${name} ${ARGN})
  if(ARG_BY_FILE)
    foreach(source ${ARG_SOURCES} ${ARG_TORCH})
      get_filename_component(file ${source} NAME_WE)
      if(file MATCHES "_test$")
        troupe_test_entry(${name} ${name}.${file} "${ARG_LABEL}" "${ARG_TIMEOUT}" "${ARG_SERIAL}" ${source})
      endif()
    endforeach()
  else()
    troupe_test_entry(${name} ${name} "${ARG_LABEL}" "${ARG_TIMEOUT}" "${ARG_SERIAL}" "")
  endif()
endfunction()

# troupe_test_program(NAME ...): the program of troupe_test() without its entries.
function(troupe_test_program name)
  cmake_parse_arguments(ARG "SERIAL;BY_FILE" "LABEL;TIMEOUT" "SOURCES;TORCH;LINK" ${ARGN})
  # Sources of another name may have options of their own.
  set(plain "${ARG_SOURCES}")
  set(alone "${ARG_SOURCES}")
  list(FILTER plain INCLUDE REGEX "_test\\.cpp$")
  list(FILTER alone EXCLUDE REGEX "_test\\.cpp$")
  troupe_batches(plain_files ${name} TESTS ${plain})
  troupe_batches(torch_files ${name}_torch TESTS ${ARG_TORCH})
  add_executable(${name} ${plain_files} ${torch_files} ${alone})
  target_link_libraries(${name} PRIVATE troupe_options ${ARG_LINK} troupe_test_support)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  if(ARG_TORCH)
    target_precompile_headers(${name} REUSE_FROM troupe_precompiled_torch_test)
    set_source_files_properties(${plain_files} ${alone} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  endif()
  add_dependencies(tests_${ARG_LABEL} ${name})
  cmake_language(EVAL CODE "cmake_language(DEFER CALL troupe_require_entry ${name})")
endfunction()

# troupe_require_entry(PROGRAM): an error if no CTest entry runs it.
function(troupe_require_entry program)
  get_property(has_entry GLOBAL PROPERTY troupe_has_entry_${program})
  if(NOT has_entry)
    message(FATAL_ERROR "no CTest entry runs ${program}: add troupe_test_entry()")
  endif()
endfunction()

# troupe_test_entry(PROGRAM NAME LABEL TIMEOUT SERIAL SOURCE): a CTest entry with the cases of one source of a program, or with all if SOURCE
# is empty. By source and not by the names of cases, because doctest splits its filters at commas.
function(troupe_test_entry program name label timeout serial source)
  if(source)
    set(source --source-file=*/${source})
  endif()
  add_test(NAME ${name} COMMAND ${program} ${source} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_property(GLOBAL PROPERTY troupe_has_entry_${program} ON)
  troupe_test_properties(${name} "${label}" "${timeout}" "${serial}")
endfunction()

# troupe_script_test(NAME LABEL unit SCRIPT tests/x/y.py [ARGS ...] [TIMEOUT seconds] [SERIAL]): a test written in Python.
function(troupe_script_test name)
  cmake_parse_arguments(ARG "SERIAL" "LABEL;TIMEOUT;SCRIPT" "ARGS" ${ARGN})
  add_test(NAME ${name} COMMAND ${TROUPE_TEST_PYTHON} ${CMAKE_SOURCE_DIR}/${ARG_SCRIPT} ${ARG_ARGS}
    WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  troupe_test_properties(${name} "${ARG_LABEL}" "${ARG_TIMEOUT}" "${ARG_SERIAL}")
endfunction()
