# cmake --install build/release --prefix DIR: the programs into DIR/bin, the config files into DIR/share/troupe/configs, the
# servers of environments and verifiers in Python into DIR/share/troupe, and MuJoCo, if the build has it, into DIR/lib/troupe and
# DIR/share/troupe/mujoco.
# LibTorch is not copied: the programs load it from where the build found it, so that folder has to stay.
#
# The component `troupe` is what a wheel contains too (tools/wheel), below its folder troupe/.

include(GNUInstallDirs)
foreach(program troupe troupe-learn)
  if(TARGET ${program})
    # By name, because CMAKE_INSTALL_RPATH_USE_LINK_PATH leaves out folders inside this tree, as .venv is.
    set_target_properties(${program} PROPERTIES INSTALL_RPATH ${TROUPE_TORCH_ROOT}/lib)
    install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT troupe)
  endif()
endforeach()
if(TARGET troupe-bench)  # for those who change troupe; not built by tools/quickstart
  set_target_properties(troupe-bench PROPERTIES INSTALL_RPATH ${TROUPE_TORCH_ROOT}/lib)
  install(TARGETS troupe-bench RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} OPTIONAL)
endif()
install(DIRECTORY configs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/troupe/configs COMPONENT troupe OPTIONAL FILES_MATCHING PATTERN "*.json")
install(FILES envs/bridge/env_server.py tasks/verifier_server.py DESTINATION ${CMAKE_INSTALL_DATADIR}/troupe COMPONENT troupe)
install(DIRECTORY envs/bridge/troupe_env_server tasks/troupe_verifier_server DESTINATION ${CMAKE_INSTALL_DATADIR}/troupe COMPONENT troupe FILES_MATCHING PATTERN "*.py" PATTERN "__pycache__" EXCLUDE)
install(FILES envs/c_abi/troupe_env.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/troupe COMPONENT troupe)
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs examples DESTINATION ${CMAKE_INSTALL_DOCDIR})
if(TARGET troupe_mujoco)
  install(TARGETS troupe_mujoco LIBRARY DESTINATION lib/troupe COMPONENT troupe)
  install(FILES $<TARGET_PROPERTY:mujoco,IMPORTED_LOCATION> DESTINATION lib/troupe COMPONENT troupe)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/.mujoco/models/ DESTINATION ${CMAKE_INSTALL_DATADIR}/troupe/mujoco COMPONENT troupe)
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/.mujoco/licenses/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/mujoco)
endif()
