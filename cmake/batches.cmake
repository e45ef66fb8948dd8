# Batches: several sources compiled together as one generated file of #include lines. Reading headers and instantiating their
# templates is most of what a source costs, and a batch does that once.
#
# A batch names its sources relative to the source tree, so that clones share what ccache holds. What it means for a source: the
# unnamed namespaces, `using` declarations and macros of the other sources of its library are visible in it, so their names differ.
# tools/check compiles each changed source by itself as well, so that a missing include is found.

set(TROUPE_BATCH_SECONDS 20 CACHE STRING "Seconds that compiling one batch of sources takes, about; 0 compiles every source by itself")
set(TROUPE_BATCH_FOLDER ${CMAKE_BINARY_DIR}/batches)

# Tenths of a second that a source adds to a batch: the lines "path tenths" of cmake/batch_costs.txt, made by tools/batch_costs.
set(cost_file ${CMAKE_SOURCE_DIR}/cmake/batch_costs.txt)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${cost_file})
file(STRINGS ${cost_file} cost_lines REGEX "^[^#]")
foreach(line ${cost_lines})
  string(REPLACE " " ";" line ${line})
  list(GET line 0 path)
  list(GET line 1 cost)
  set_property(GLOBAL PROPERTY troupe_cost_of_${path} ${cost})
endforeach()

# troupe_batches(OUT_FILES NAME source...): the files to compile in place of these sources of the current folder. They keep their
# order, because neighbours in a list tend to include the same headers.
function(troupe_batches out_files name)
  set(${out_files} ${ARGN} PARENT_SCOPE)
  if(NOT TROUPE_BATCH_SECONDS)
    return()
  endif()
  math(EXPR most "${TROUPE_BATCH_SECONDS} * 10")
  set(paths "")
  set(total 0)
  foreach(source ${ARGN})
    cmake_path(ABSOLUTE_PATH source NORMALIZE OUTPUT_VARIABLE path)
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${CMAKE_SOURCE_DIR})
    get_property(cost GLOBAL PROPERTY troupe_cost_of_${path})
    if(NOT cost)
      set(cost 10)  # a source that was never measured
    endif()
    list(APPEND paths ${path})
    list(APPEND costs ${cost})
    math(EXPR total "${total} + ${cost}")
  endforeach()
  # As few batches as the limit allows, of equal cost.
  math(EXPR count "(${total} + ${most} - 1) / ${most}")
  set(files "")
  set(text "")
  set(sum 0)
  set(number 1)
  foreach(path cost IN ZIP_LISTS paths costs)
    string(APPEND text "#include \"${path}\"\n")
    math(EXPR sum "${sum} + ${cost}")
    math(EXPR beyond "${sum} * ${count} - ${total} * ${number}")
    if(beyond GREATER_EQUAL 0)
      set(file ${TROUPE_BATCH_FOLDER}/${name}_${number}.cpp)
      file(CONFIGURE OUTPUT ${file} CONTENT "${text}" @ONLY)  # leaves a file that is the same untouched
      list(APPEND files ${file})
      set(text "")
      math(EXPR number "${number} + 1")
    endif()
  endforeach()
  set(${out_files} ${files} PARENT_SCOPE)
endfunction()
