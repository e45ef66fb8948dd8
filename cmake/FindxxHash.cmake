# Imported target xxHash::xxhash: Debian's and Ubuntu's libxxhash-dev ship no CMake package.
find_path(XXHASH_INCLUDE_DIR xxhash.h)
find_library(XXHASH_LIBRARY xxhash)

if(XXHASH_INCLUDE_DIR)
  foreach(part MAJOR MINOR RELEASE)
    file(STRINGS "${XXHASH_INCLUDE_DIR}/xxhash.h" XXHASH_LINE REGEX "^#define XXH_VERSION_${part} +[0-9]+")
    string(REGEX MATCH "[0-9]+ *$" XXHASH_${part} "${XXHASH_LINE}")
    string(STRIP "${XXHASH_${part}}" XXHASH_${part})
  endforeach()
  set(XXHASH_VERSION ${XXHASH_MAJOR}.${XXHASH_MINOR}.${XXHASH_RELEASE})
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(xxHash
  REQUIRED_VARS XXHASH_LIBRARY XXHASH_INCLUDE_DIR
  VERSION_VAR XXHASH_VERSION)

if(xxHash_FOUND AND NOT TARGET xxHash::xxhash)
  add_library(xxHash::xxhash UNKNOWN IMPORTED)
  set_target_properties(xxHash::xxhash PROPERTIES IMPORTED_LOCATION "${XXHASH_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${XXHASH_INCLUDE_DIR}")
endif()
