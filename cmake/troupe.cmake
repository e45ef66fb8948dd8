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
