# Batches: several sources compiled together as one generated file of #include lines. Reading headers and instantiating their
# templates is most of what a source costs, and a batch does that once.
#
# A batch names its sources relative to the source tree, so that clones share what ccache holds. What it means for a source: the
# unnamed namespaces, `using` declarations and macros of the other sources of its library are visible in it, so their names differ.
# tools/check compiles each changed source by itself as well, so that a missing include is found.

set(TROUPE_BATCH_SECONDS 30 CACHE STRING "Seconds that compiling one batch of sources takes, about; 0 compiles every source by itself")
if(NOT TROUPE_BATCH_SECONDS MATCHES "^[0-9][0-9]?[0-9]?[0-9]?[0-9]?$")
  message(FATAL_ERROR "TROUPE_BATCH_SECONDS is '${TROUPE_BATCH_SECONDS}', expected a number of seconds from 0 to 99999")
endif()
set(TROUPE_BATCH_FOLDER ${CMAKE_BINARY_DIR}/batches)
cmake_path(GET CMAKE_CURRENT_LIST_DIR PARENT_PATH TROUPE_SOURCE_ROOT)  # python/ is also built by itself, with another CMAKE_SOURCE_DIR

# Tenths of a second that a source adds to a batch: the lines "path tenths", or "path tenths estimated", of cmake/batch_costs.txt, made by
# tools/batch_costs.
set(cost_file ${CMAKE_CURRENT_LIST_DIR}/batch_costs.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${cost_file})
file(STRINGS ${cost_file} cost_lines REGEX "^[^#]")
foreach(line ${cost_lines})
  string(REPLACE " " ";" line ${line})
  list(GET line 0 path)
  list(GET line 1 cost)
  set_property(GLOBAL PROPERTY troupe_cost_of_${path} ${cost})
endforeach()

# troupe_batches(OUT_FILES NAME [TESTS] source...): the files to compile in place of these sources of the current folder. They keep
# their order, because neighbours in a list tend to include the same headers. TESTS: sources of a test program, which repeat names;
# each becomes a namespace of its own (cmake/write_test_batch.cmake).
function(troupe_batches out_files name)
  cmake_parse_arguments(PARSE_ARGV 2 ARG "TESTS" "" "")
  set(${out_files} ${ARG_UNPARSED_ARGUMENTS} PARENT_SCOPE)
  if(NOT TROUPE_BATCH_SECONDS OR NOT ARG_UNPARSED_ARGUMENTS)
    return()
  endif()
  cmake_language(EVAL CODE "cmake_language(DEFER CALL troupe_refuse_own_options ${ARG_UNPARSED_ARGUMENTS})")
  math(EXPR most "${TROUPE_BATCH_SECONDS} * 10")
  set(paths "")
  set(costs "")
  set(total 0)
  foreach(source ${ARG_UNPARSED_ARGUMENTS})
    cmake_path(ABSOLUTE_PATH source NORMALIZE OUTPUT_VARIABLE path)
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${TROUPE_SOURCE_ROOT})
    get_property(cost GLOBAL PROPERTY troupe_cost_of_${path})
    if(NOT cost)
      set(cost 10)  # a source that was never measured
    endif()
    list(APPEND paths ${path})
    list(APPEND costs ${cost})
    math(EXPR total "${total} + ${cost}")
  endforeach()
  # Batches of about equal cost, not longer than the limit unless one source is.
  math(EXPR count "(${total} + ${most} - 1) / ${most}")
  set(files "")
  set(members "")
  set(sum 0)
  set(number 1)
  set(batch 0)
  foreach(path cost IN ZIP_LISTS paths costs)
    list(APPEND members ${path})
    math(EXPR sum "${sum} + ${cost}")
    math(EXPR shares "${sum} * ${count} / ${total}")  # of the total, that this batch and those before it have
    if(shares GREATER_EQUAL number)
      math(EXPR batch "${batch} + 1")
      set(file ${TROUPE_BATCH_FOLDER}/${name}_${batch}.cpp)
      if(ARG_TESTS)
        troupe_write_test_batch(${file} ${members})
      else()
        list(TRANSFORM members REPLACE "(.+)" "#include \"\\1\"\n" OUTPUT_VARIABLE text)
        string(JOIN "" text ${text})
        file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)  # leaves a file that is the same untouched
      endif()
      list(APPEND files ${file})
      set(members "")
      math(EXPR number "${shares} + 1")
    endif()
  endforeach()
  set(${out_files} ${files} PARENT_SCOPE)
endfunction()

# troupe_write_test_batch(FILE path...): writes FILE in the build, because it repeats the #include lines of these sources.
function(troupe_write_test_batch file)
  set(script ${TROUPE_SOURCE_ROOT}/cmake/write_test_batch.cmake)
  list(TRANSFORM ARGN PREPEND ${TROUPE_SOURCE_ROOT}/ OUTPUT_VARIABLE sources)
  add_custom_command(OUTPUT ${file} DEPENDS ${sources} ${script} VERBATIM
    COMMAND ${CMAKE_COMMAND} "-DROOT=${TROUPE_SOURCE_ROOT}" "-DFILE=${file}" "-DPATHS=${ARGN}" -P ${script})
endfunction()

# troupe_refuse_own_options(source...): a batch is compiled without the options and definitions of single sources.
function(troupe_refuse_own_options)
  foreach(source ${ARGN})
    foreach(property COMPILE_OPTIONS COMPILE_DEFINITIONS COMPILE_FLAGS)
      get_source_file_property(value ${source} ${property})
      if(value)
        message(FATAL_ERROR "${source} has ${property} of its own (${value}): name it under ALONE, not under SOURCES")
      endif()
    endforeach()
  endforeach()
endfunction()
