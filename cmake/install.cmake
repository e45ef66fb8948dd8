# cmake --install build/release --prefix DIR: the programs into DIR/bin, the config files into DIR/share/troupe/configs, the
# server of environments in Python into DIR/share/troupe.
# LibTorch is not copied: the programs load it from where the build found it, so that folder has to stay.

include(GNUInstallDirs)
foreach(program troupe troupe-learn)
  if(TARGET ${program})
    # By name, because CMAKE_INSTALL_RPATH_USE_LINK_PATH leaves out folders inside this tree, as .venv is.
    set_target_properties(${program} PROPERTIES INSTALL_RPATH ${TROUPE_TORCH_ROOT}/lib)
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  endif()
endforeach()
install(DIRECTORY configs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/troupe/configs OPTIONAL FILES_MATCHING PATTERN "*.json")
install(FILES envs/bridge/env_server.py tasks/verifier_server.py DESTINATION ${CMAKE_INSTALL_DATADIR}/troupe)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
