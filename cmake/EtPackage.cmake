# The CMake package that an installed executorch_py carries: headers, libraries, executorch_py_add_kernel_library.
#
#   et_install_package()      at the end of the top-level CMakeLists.txt
#
# installs, as component `sdk`, under executorch_py/ (the Python package's folder, so that a wheel has it):
#   include/executorch_py/              headers: Module, TensorPtr, what kernels stand on, the published names
#   lib/                                static libraries, ours and third-party ones; libexecutorch.so, the C interface
#   bin/                                executor_runner, pte_dump, et_opt (et_install_programs)
#   share/cmake/executorch_py/          executorch_pyConfig.cmake, found through executorch_py.cmake_prefix_path
#   share/source/                       what firmware projects are made of: sources and generated schema headers
# The target et_sdk does the same into <build>/python, so that a build tree is a package, too. A build for a
# microcontroller (CMAKE_SYSTEM_NAME Generic) has the libraries for those alone:
#   cmake --build build/mcu --target et_sdk && cmake --install build/mcu --component sdk --prefix folder
include_guard(GLOBAL)
include(${CMAKE_CURRENT_LIST_DIR}/package/executorch_py_add_kernel_library.cmake)
set(CMAKE_INSTALL_MESSAGE NEVER)
set(executorch_py_CODEGEN ${CMAKE_CURRENT_SOURCE_DIR}/src/executorch_py/codegen)

set(ET_PACKAGE_LIBRARIES et_base et_numerics et_ops et_schema et_runtime et_runtime_host et_devtools et_devtools_host
    et_threads et_platform et_kernels_portable et_kernels_prim et_kernels_quantized et_kernels_cortex_m
    et_kernels_optimized et_builtin et_extension et_c_api et_training)
set(ET_HOST_LIBRARIES et_runtime_host et_devtools_host et_kernels_optimized et_builtin et_extension et_c_api
    et_training)
set(ET_PACKAGE_INTERFACES et_schema_tables et_flatbuffers et_backends_runtime et_backends_kernels)
function(et_install_package)
  set(targets ${ET_PACKAGE_LIBRARIES} ${ET_PACKAGE_INTERFACES})
  set(ET_IS_HOSTED ON)
  if(CMAKE_SYSTEM_NAME STREQUAL "Generic")
    set(ET_IS_HOSTED OFF)
    list(REMOVE_ITEM targets ${ET_HOST_LIBRARIES})
    list(APPEND targets et_platform_semihosting et_platform_uart)
  else()
    list(APPEND targets et_platform_posix et_c_api_shared)
  endif()
  get_property(families GLOBAL PROPERTY ET_KERNEL_FAMILIES)
  list(TRANSFORM families REPLACE "/" "_")
  list(TRANSFORM families PREPEND et_)
  list(APPEND targets ${families})
  foreach(part runtime kernels)
    get_property(backends GLOBAL PROPERTY ET_BACKEND_${part})
    foreach(name IN LISTS backends)
      list(APPEND targets et_backend_${name}_${part})
    endforeach()
  endforeach()
  get_property(schemas GLOBAL PROPERTY ET_BACKEND_SCHEMAS)
  list(APPEND targets ${schemas})
  set(ET_COMPONENTS "")
  foreach(target IN LISTS targets)
    string(REGEX REPLACE "^et_" "" name ${target})
    list(APPEND ET_COMPONENTS ${name})
    set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
    add_library(executorch_py::${name} ALIAS ${target})  # the same name in this build, for tests
  endforeach()

  # What a user's code must be compiled with, because headers read it.
  get_directory_property(definitions COMPILE_DEFINITIONS)
  list(FILTER definitions INCLUDE REGEX "^ET_")
  target_compile_definitions(et_base INTERFACE $<INSTALL_INTERFACE:${definitions}>)

  set(package executorch_py/share/cmake/executorch_py)
  install(TARGETS ${targets} EXPORT executorch_pyTargets COMPONENT sdk
    ARCHIVE DESTINATION executorch_py/lib LIBRARY DESTINATION executorch_py/lib
    INCLUDES DESTINATION executorch_py/include)
  install(EXPORT executorch_pyTargets NAMESPACE executorch_py:: DESTINATION ${package} COMPONENT sdk)

  set(headers ${CMAKE_BINARY_DIR}/package/include)
  add_custom_target(et_package_headers ALL
    COMMAND ${Python_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/package_headers.py --sources ${ET_CPP_ROOT} --out ${headers}
            --published ${CMAKE_SOURCE_DIR}/cmake/package/published_headers.txt
    COMMENT "Writing the headers of the CMake package" VERBATIM)
  install(DIRECTORY ${headers}/ DESTINATION executorch_py/include COMPONENT sdk)
  install(FILES ${ET_CPP_ROOT}/c_api/module.modulemap COMPONENT sdk
    DESTINATION executorch_py/include/executorch_py/c_api)
  install(FILES ${CMAKE_SOURCE_DIR}/src/cpp/ops/ops.yaml DESTINATION executorch_py/share COMPONENT sdk)

  _et_install_sources()
  _et_install_third_party()
  list(JOIN ET_COMPONENTS " " ET_COMPONENTS)
  set(ET_CODEGEN_DIR "\${executorch_py_FOLDER}/codegen")
  if(SKBUILD_STATE STREQUAL "editable")  # Python sources are read where they lie
    set(ET_CODEGEN_DIR ${CMAKE_SOURCE_DIR}/src/executorch_py/codegen)
  endif()
  configure_file(${CMAKE_SOURCE_DIR}/cmake/package/executorch_pyConfig.cmake.in
    ${CMAKE_BINARY_DIR}/package/executorch_pyConfig.cmake @ONLY)
  include(CMakePackageConfigHelpers)
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/executorch_pyConfigVersion.cmake
    VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/package/executorch_pyConfig.cmake
                ${CMAKE_BINARY_DIR}/package/executorch_pyConfigVersion.cmake
                ${CMAKE_BINARY_DIR}/package/executorch_pyThirdParty.cmake
                ${CMAKE_SOURCE_DIR}/cmake/package/executorch_py_add_kernel_library.cmake
                ${CMAKE_SOURCE_DIR}/cmake/package/executorch_py_select.cmake
    DESTINATION ${package} COMPONENT sdk)

  if(ET_BUILD_PYTHON)
    _et_install_stubs()
    set(into COMMAND ${CMAKE_COMMAND} -DCMAKE_INSTALL_COMPONENT=sdk
             -DCMAKE_INSTALL_PREFIX=${CMAKE_BINARY_DIR}/python -P ${CMAKE_BINARY_DIR}/cmake_install.cmake)
  endif()
  set(all "")
  if(ET_BUILD_PYTHON)
    set(all ALL)
  endif()
  add_custom_target(et_sdk ${all} ${into} COMMENT "The CMake package" VERBATIM)
  add_dependencies(et_sdk et_package_headers ${targets})
endfunction()

# Modules with published paths are made when they are imported (compat/finder.py); type checkers get stubs of them.
function(_et_install_stubs)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env PYTHONPATH=${CMAKE_SOURCE_DIR}/src ${Python_EXECUTABLE}
    -m executorch_py.compat.stubs ${CMAKE_BINARY_DIR}/stubs COMMAND_ERROR_IS_FATAL ANY)
  install(DIRECTORY ${CMAKE_BINARY_DIR}/stubs/executorch_py-stubs DESTINATION . COMPONENT python)
endfunction()

# Installs programs beside the libraries.
function(et_install_programs)
  set_target_properties(${ARGN} PROPERTIES INSTALL_RPATH "$ORIGIN/..")
  install(TARGETS ${ARGN} RUNTIME DESTINATION executorch_py/bin COMPONENT sdk)
  add_dependencies(et_sdk ${ARGN})
endfunction()

# Installs the sources that firmware projects are made of (src/executorch_py/firmware).
function(_et_install_sources)
  foreach(folder base numerics ops runtime schema threads devtools platform
          kernels/portable kernels/prim kernels/quantized kernels/cortex_m)
    install(DIRECTORY ${ET_CPP_ROOT}/${folder}/ DESTINATION executorch_py/share/source/cpp/${folder} COMPONENT sdk
      FILES_MATCHING PATTERN "*.h" PATTERN "*.cpp" PATTERN "*.def" PATTERN "*.inc" PATTERN "host" EXCLUDE)
  endforeach()
  install(DIRECTORY ${ET_GENERATED_DIR}/schema/ DESTINATION executorch_py/share/source/generated/schema COMPONENT sdk)
  get_property(backends GLOBAL PROPERTY ET_BACKEND_FIRMWARE)
  foreach(row IN LISTS backends)
    string(REGEX REPLACE ".* " "backends/" folder ${row})
    install(DIRECTORY ${CMAKE_SOURCE_DIR}/${folder}/runtime/
      DESTINATION executorch_py/share/source/cpp/${folder}/runtime COMPONENT sdk
      FILES_MATCHING PATTERN "*.h" PATTERN "*.cpp")
    install(DIRECTORY ${ET_GENERATED_DIR}/${folder}/schema DESTINATION executorch_py/share/source/generated/${folder}
      COMPONENT sdk OPTIONAL)
  endforeach()
  list(JOIN backends "\n" rows)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/package/backends.txt CONTENT "${rows}\n" @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/package/backends.txt DESTINATION executorch_py/share/source COMPONENT sdk)
  install(DIRECTORY ${ET_FLATBUFFERS_INCLUDE}/flatbuffers/
    DESTINATION executorch_py/share/source/third_party/flatbuffers COMPONENT sdk)
endfunction()

# Installs the third-party libraries that ours link, and writes what makes them imported targets again.
function(_et_install_third_party)
  set(text "# Generated by cmake/EtPackage.cmake: the third-party libraries that the static ones link.\n")
  get_property(names GLOBAL PROPERTY ET_THIRD_PARTY_LIBRARIES)
  foreach(name IN LISTS names)
    get_target_property(file et_third_party::${name} IMPORTED_LOCATION)
    get_target_property(links et_third_party::${name} INTERFACE_LINK_LIBRARIES)
    get_filename_component(base ${file} NAME)
    if(base MATCHES "[.]so")
      set(place ${base})  # beside the extension module, which needs it, too
      install(FILES ${file} DESTINATION executorch_py COMPONENT sdk)
    else()
      set(place lib/${base})
      install(FILES ${file} DESTINATION executorch_py/lib COMPONENT sdk)
    endif()
    string(APPEND text "_executorch_py_import(${name} ${place}")
    if(links)
      list(TRANSFORM links REPLACE "^et_([a-z_]+)$" "executorch_py::\\1")  # a library of ours
      list(JOIN links " " links)
      string(APPEND text " ${links}")
    endif()
    string(APPEND text ")\n")
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/package/executorch_pyThirdParty.cmake CONTENT "${text}" @ONLY)
endfunction()
