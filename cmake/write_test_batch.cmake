# Writes FILE: the test sources PATHS (below ROOT) for one compilation, each in a namespace of its own. First come the #include lines
# of all of them; inside the namespaces they do nothing, because every header has a guard. A source that opens a namespace,
# specializes a template or replaces operator new stands outside.

set(includes "")
set(text "")
foreach(path ${PATHS})
  file(READ ${ROOT}/${path} source)
  if(source MATCHES "\n#if[^\n]*\n#include ([^\n]*)")
    message(FATAL_ERROR "${path} includes ${CMAKE_MATCH_1} below #if, and a batch of tests includes everything: move that into a header")
  endif()
  string(REGEX MATCHALL "\n#include [<\"][^>\"\n]+[>\"]" lines "\n${source}")
  string(REPLACE "\n" "" lines "${lines}")
  list(APPEND includes ${lines})
  file(STRINGS ${ROOT}/${path} outside REGEX "^((inline )?namespace [a-z_:]+ *{|template <>|[^/]* operator new)")
  if(outside)
    string(APPEND text "#include \"${path}\"\n")
  else()
    string(MAKE_C_IDENTIFIER "${path}" name)  # of the path, because the batches of a program are linked together
    string(APPEND text "namespace ${name} {\n#include \"${path}\"\n}\n")
  endif()
endforeach()
list(REMOVE_DUPLICATES includes)
list(JOIN includes "\n" includes)
file(WRITE ${FILE} "${includes}\n\n${text}")
