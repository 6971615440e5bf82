# Functions that make targets. A folder's CMakeLists.txt needs nothing else:
#
#   et_library(NAME kernels/portable SRCS op_add.cpp op_mul.cpp DEPS base ops runtime NO_EXCEPTIONS)
#   et_executable(NAME executor_runner SRCS executor_runner.cpp DEPS runtime kernels/portable)
#   et_test(NAME base SRCS span_test.cpp DEPS base)
#   et_python_module(NAME _core SRCS module.cpp DEPS driver)
#
# DEPS and PUBLIC_DEPS name folders of src/cpp ("ir", "kernels/portable") or targets with a namespace
# ("et_third_party::flatbuffers", "et::backends_runtime").
include_guard(GLOBAL)

set(ET_CPP_ROOT ${CMAKE_CURRENT_SOURCE_DIR}/src/cpp)

# "kernels/portable" -> et::kernels_portable; a name that has a namespace stays as it is.
function(_et_target_names out)
  set(names)
  foreach(item IN LISTS ARGN)
    if(NOT item MATCHES "::")
      string(REPLACE "/" "_" item ${item})
      set(item et::${item})
    endif()
    list(APPEND names ${item})
  endforeach()
  set(${out} ${names} PARENT_SCOPE)
endfunction()

# Flags and include roots that all our own code shares.
function(_et_common target)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${ET_CPP_ROOT}> $<BUILD_INTERFACE:${ET_GENERATED_DIR}>)
  target_compile_options(${target} PRIVATE ${ET_WARNINGS})
endfunction()

# What firmware is made of converts no number silently.
set(ET_EXACT_FOLDERS base numerics schema runtime devtools platform kernels/prim kernels/portable kernels/quantized
  kernels/cortex_m)

# et_library(NAME folder SRCS ... [DEPS ...] [PUBLIC_DEPS ...] [NO_EXCEPTIONS] [OPTIMIZE -O3])
# A static library et_<folder> with the alias et::<folder>; one without sources is header-only.
# NO_EXCEPTIONS compiles without exceptions and run-time type information, in every build.
function(et_library)
  cmake_parse_arguments(arg "NO_EXCEPTIONS" "NAME" "SRCS;DEPS;PUBLIC_DEPS;OPTIMIZE" ${ARGN})
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "et_library(${arg_NAME}): what is '${arg_UNPARSED_ARGUMENTS}'?")
  endif()
  string(REPLACE "/" "_" id ${arg_NAME})
  _et_target_names(deps ${arg_DEPS})
  _et_target_names(public_deps ${arg_PUBLIC_DEPS})
  if(arg_SRCS)
    add_library(et_${id} STATIC ${arg_SRCS})
    _et_common(et_${id})
    target_link_libraries(et_${id} PRIVATE ${deps} PUBLIC ${public_deps})
    if(arg_NO_EXCEPTIONS)
      target_compile_options(et_${id} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions -fno-rtti>)
    endif()
    if(arg_NAME IN_LIST ET_EXACT_FOLDERS)
      target_compile_options(et_${id} PRIVATE -Wconversion)
    endif()
    if(arg_OPTIMIZE AND NOT ET_SIZE_BUILD AND NOT ET_SANITIZE)
      target_compile_options(et_${id} PRIVATE ${arg_OPTIMIZE})
    endif()
  else()
    add_library(et_${id} INTERFACE)
    target_include_directories(et_${id} INTERFACE
      $<BUILD_INTERFACE:${ET_CPP_ROOT}> $<BUILD_INTERFACE:${ET_GENERATED_DIR}>)
    target_link_libraries(et_${id} INTERFACE ${deps} ${public_deps})
  endif()
  add_library(et::${id} ALIAS et_${id})
endfunction()

# et_executable(NAME name SRCS ... [DEPS ...]): a program in <build>/bin.
function(et_executable)
  cmake_parse_arguments(arg "" "NAME" "SRCS;DEPS" ${ARGN})
  _et_target_names(deps ${arg_DEPS})
  add_executable(${arg_NAME} ${arg_SRCS})
  _et_common(${arg_NAME})
  target_link_libraries(${arg_NAME} PRIVATE ${deps})
  set_target_properties(${arg_NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
endfunction()

# et_test(NAME folder SRCS ... [DEPS ...] [APART]): one GoogleTest program of tests/cpp/<folder>, one ctest entry.
# The tests run in their source folder; ET_TEST_DIR is that folder as a string literal, for golden files.
# Eight files are compiled as one, because half of the time goes to headers; with CMAKE_UNITY_BUILD=OFF each by itself.
# APART: so in any case, since two of them share a name that each has for itself, a macro or a `using`.
function(et_test)
  cmake_parse_arguments(arg "APART" "NAME" "SRCS;DEPS" ${ARGN})
  string(REPLACE "/" "_" id ${arg_NAME})
  _et_target_names(deps ${arg_DEPS})
  add_executable(et_test_${id} ${arg_SRCS})
  _et_common(et_test_${id})
  target_compile_options(et_test_${id} PRIVATE ${ET_TEST_OPTIMIZE})
  target_compile_definitions(et_test_${id} PRIVATE ET_TEST_DIR="${CMAKE_CURRENT_SOURCE_DIR}")
  target_link_libraries(et_test_${id} PRIVATE ${deps} GTest::gtest_main)
  set_target_properties(et_test_${id} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
  if(arg_APART)
    set_target_properties(et_test_${id} PROPERTIES UNITY_BUILD OFF)
  elseif(NOT DEFINED CMAKE_UNITY_BUILD)
    set_target_properties(et_test_${id} PROPERTIES UNITY_BUILD ON)
  endif()
  add_test(NAME ${id} COMMAND et_test_${id} WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  # Sanitized, the vector kernels' tests take 12 minutes on a busy core.
  set(seconds 300)
  if(ET_SANITIZE)
    set(seconds 1800)
  endif()
  set_tests_properties(${id} PROPERTIES TIMEOUT ${seconds})
endfunction()

# et_python_module(NAME _core SRCS ... [DEPS ...]): a pybind11 extension module, built into the Python tree of the
# build folder and installed into the package executorch_py. Links neither libtorch nor libpython.
function(et_python_module)
  cmake_parse_arguments(arg "" "NAME" "SRCS;DEPS" ${ARGN})
  _et_target_names(deps ${arg_DEPS})
  pybind11_add_module(${arg_NAME} MODULE NO_EXTRAS ${arg_SRCS})
  _et_common(${arg_NAME})
  target_link_libraries(${arg_NAME} PRIVATE ${deps})
  set_target_properties(${arg_NAME} PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python/executorch_py
    BUILD_RPATH_USE_ORIGIN ON INSTALL_RPATH "$ORIGIN")
  install(TARGETS ${arg_NAME} LIBRARY DESTINATION executorch_py COMPONENT python)
endfunction()

# Adds src/cpp/<folder>. A folder that is not there yet counts as an empty library, so that lists of DEPS can name it.
function(et_add_folder folder)
  if(EXISTS ${ET_CPP_ROOT}/${folder}/CMakeLists.txt)
    add_subdirectory(${ET_CPP_ROOT}/${folder})
  else()
    message(STATUS "src/cpp/${folder}: not there, counted as empty")
    et_library(NAME ${folder})
  endif()
endfunction()

# Adds every folder of tests/cpp that has a CMakeLists.txt.
function(et_add_test_folders)
  file(GLOB_RECURSE lists CONFIGURE_DEPENDS RELATIVE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/tests/cpp/*/CMakeLists.txt)
  foreach(list IN LISTS lists)
    get_filename_component(folder ${list} DIRECTORY)
    add_subdirectory(${folder})
  endforeach()
endfunction()

# A package folder in the build tree that gives the whole of executorch_py without installation:
# PYTHONPATH=<build>/python. The Python sources are read where they lie; only the extension module lives here.
function(et_python_tree)
  set(tree ${CMAKE_BINARY_DIR}/python/executorch_py)
  configure_file(${CMAKE_SOURCE_DIR}/cmake/dev_package.py.in ${tree}/__init__.py @ONLY)
  foreach(folder backends quantizer src/executorch_py/codegen)
    get_filename_component(name ${folder} NAME)
    if(NOT IS_SYMLINK ${tree}/${name})
      file(CREATE_LINK ${CMAKE_SOURCE_DIR}/${folder} ${tree}/${name} SYMBOLIC)
    endif()
  endforeach()
  foreach(module _operator_rows _element_types)  # made by tools/gen_tables.py
    file(CREATE_LINK ${ET_GENERATED_DIR}/python/${module}.py ${tree}/${module}.py SYMBOLIC)
    install(FILES ${ET_GENERATED_DIR}/python/${module}.py DESTINATION executorch_py COMPONENT python)
  endforeach()
endfunction()
