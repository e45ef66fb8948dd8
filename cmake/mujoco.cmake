# libtroupe_mujoco.so, if tools/fetch_mujoco has put MuJoCo into .mujoco/. The programs are not linked to it: they open it when an
# environment mujoco:ID is made.

set(TROUPE_MUJOCO_DIR ${CMAKE_SOURCE_DIR}/.mujoco)
set_source_files_properties(mujoco/library.cpp PROPERTIES
  COMPILE_DEFINITIONS "TROUPE_BUILD_DIR=\"${CMAKE_BINARY_DIR}\";TROUPE_MUJOCO_DIR=\"${TROUPE_MUJOCO_DIR}\"")
# A fused multiplication and addition would round differently from Gymnasium.
target_compile_options(troupe_envs PRIVATE -ffp-contract=off)

# CONFIGURE_DEPENDS: a build after tools/fetch_mujoco finds the new files.
file(GLOB TROUPE_LIBMUJOCO CONFIGURE_DEPENDS ${TROUPE_MUJOCO_DIR}/lib/libmujoco.so.*)
if(TROUPE_LIBMUJOCO)
  add_library(mujoco SHARED IMPORTED GLOBAL)
  set_target_properties(mujoco PROPERTIES IMPORTED_LOCATION ${TROUPE_LIBMUJOCO}
    INTERFACE_INCLUDE_DIRECTORIES ${TROUPE_MUJOCO_DIR}/include)
  add_library(troupe_mujoco MODULE mujoco/simulator.cpp)
  target_link_libraries(troupe_mujoco PRIVATE troupe_options mujoco)
  # Functions of libmujoco are looked up when they are called, so that one of another version is refused by its number.
  target_link_options(troupe_mujoco PRIVATE LINKER:-z,lazy)
  set_target_properties(troupe_mujoco PROPERTIES CXX_VISIBILITY_PRESET hidden LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}
    INSTALL_RPATH "$ORIGIN" INSTALL_RPATH_USE_LINK_PATH OFF)
  add_dependencies(troupe_envs troupe_mujoco)
else()
  message(STATUS "troupe: no environments mujoco:ID (tools/fetch_mujoco has not been run)")
endif()
