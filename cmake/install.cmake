# cmake --install build/release --prefix DIR: the programs into DIR/bin, the run files into DIR/share/troupe/configs.
# LibTorch stays where the build found it.

include(GNUInstallDirs)
foreach(program troupe troupe-learn)
  if(TARGET ${program})
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
install(DIRECTORY configs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/troupe/configs OPTIONAL FILES_MATCHING PATTERN "*.json")
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
