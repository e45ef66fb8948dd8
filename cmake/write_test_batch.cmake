# Writes FILE: the test sources PATHS (below ROOT) for one compilation, each in a namespace of its own. First come the #include lines
# of all of them; inside the namespaces they do nothing, because every header has a guard. A source that opens a namespace,
# specializes a template or replaces operator new stands outside.

set(includes "")
set(text "")
foreach(path ${PATHS})
  file(STRINGS ${ROOT}/${path} lines REGEX "^#include ")
  foreach(line ${lines})
    string(REGEX MATCH "^#include [<\"][^>\"]+[>\"]" line "${line}")
    list(APPEND includes "${line}")
  endforeach()
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
