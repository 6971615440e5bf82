# Backends. The core names none of them: it learns of them from tables that are generated here.
#
#   et_add_backend(NAME xnnpack                       # in backends/xnnpack/CMakeLists.txt; any part may be left out
#     COMPILER compiler/lower.cpp                     # preprocess: ir::Graph -> payload
#     RUNTIME  runtime/delegate.cpp                   # BackendInterface: init, execute, destroy
#     KERNELS  kernels/register.cpp kernels/conv.cpp  # operator kernels beside delegation
#     OPS      ops.yaml                               # operators of its own: KERNELS has their kernels, which include
#                                                     # "backends/xnnpack/kernels.h"; registering is generated
#     SCHEMA   schema/payload.fbs                     # compiled to "backends/xnnpack/schema/payload_generated.h"
#     COMPILER_LIBS ...                               # linked by COMPILER only
#     FIRMWARE MyBackend                              # RUNTIME is fit for firmware: its id in programs
#     LIBS     et_third_party::xnnpack)               # linked by RUNTIME and KERNELS
#
# gives the libraries et_backend_<name>_{compiler,runtime,kernels} and one line in each of the generated tables
#   backends/compiler_table.inc   ET_BACKEND_COMPILER(xnnpack)
#   backends/runtime_table.inc    ET_BACKEND_RUNTIME(xnnpack)
#   backends/kernels_table.inc    ET_BACKEND_KERNELS(xnnpack)
# A user of a table defines the macro, includes the file and links et::backends_compiler, et::backends_runtime or
# et::backends_kernels. Each line promises one function, declared by the user of the table with the same macro:
#   namespace et::backends::xnnpack {
#   Error register_compiler(...);
#   Error register_runtime(...);
#   Error register_kernels(...);
#   }
include_guard(GLOBAL)

foreach(part compiler runtime kernels)
  add_library(et_backends_${part} INTERFACE)
  add_library(et::backends_${part} ALIAS et_backends_${part})
  target_include_directories(et_backends_${part} INTERFACE $<BUILD_INTERFACE:${ET_GENERATED_DIR}>)
endforeach()

function(et_add_backend)
  cmake_parse_arguments(arg "" "NAME;OPS;FIRMWARE" "COMPILER;RUNTIME;KERNELS;SCHEMA;COMPILER_LIBS;LIBS" ${ARGN})
  set(base et_backend_${arg_NAME})
  set(schema)
  if(arg_SCHEMA)
    et_flatbuffer(NAME backend_${arg_NAME}_schema FOLDER backends/${arg_NAME}/schema SRCS ${arg_SCHEMA})
    set(schema et::backend_${arg_NAME}_schema)
    set_property(GLOBAL APPEND PROPERTY ET_BACKEND_SCHEMAS et_backend_${arg_NAME}_schema)
  endif()
  if(arg_COMPILER AND ET_BUILD_COMPILER)
    _et_backend_part(${arg_NAME} compiler "${arg_COMPILER}" et::base et::numerics et::ops et::ir et::passes ${schema}
                     ${arg_COMPILER_LIBS})
  endif()
  if(arg_RUNTIME)
    _et_backend_part(${arg_NAME} runtime "${arg_RUNTIME}" et::base et::numerics et::ops et::runtime et::threads
                     ${schema} ${arg_LIBS})
  endif()
  if(arg_FIRMWARE)
    set_property(GLOBAL APPEND PROPERTY ET_BACKEND_FIRMWARE "${arg_FIRMWARE} ${arg_NAME}")
  endif()
  if(arg_OPS)
    _et_backend_operators(${arg_NAME} ${arg_OPS})
    list(APPEND arg_KERNELS ${ET_GENERATED_DIR}/backends/${arg_NAME}/register.cpp)
  endif()
  if(arg_KERNELS)
    _et_backend_part(${arg_NAME} kernels "${arg_KERNELS}" et::base et::numerics et::ops et::runtime et::threads
                     ${schema} ${arg_LIBS})
    target_include_directories(et_backend_${arg_NAME}_kernels PRIVATE ${ET_GENERATED_DIR}/backends)
    if(arg_OPS AND arg_RUNTIME)  # its own operators run on the device that its delegates run on
      target_link_libraries(et_backend_${arg_NAME}_kernels PRIVATE et_backend_${arg_NAME}_runtime)
    endif()
  endif()
endfunction()

# The C++ around a backend's own operators (codegen/kernel_library.py), at configure time.
function(_et_backend_operators name table)
  get_filename_component(table ${table} ABSOLUTE)
  execute_process(
    COMMAND ${Python_EXECUTABLE} ${CMAKE_SOURCE_DIR}/src/executorch_py/codegen/kernel_library.py --name ${name}
            --ops ${table} --out ${ET_GENERATED_DIR}/backends --namespace et::backends::${name}
            --priority kPriorityLibrary
    COMMAND_ERROR_IS_FATAL ANY)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${table} ${ET_CODEGEN_SOURCES})
endfunction()

function(_et_backend_part name part sources)
  set(target et_backend_${name}_${part})
  add_library(${target} STATIC ${sources})
  _et_common(${target})
  target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR})  # "backends/<name>/runtime/delegate.h"
  target_link_libraries(${target} PRIVATE ${ARGN})
  if(NOT part STREQUAL compiler)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions -fno-rtti>)
  endif()
  target_link_libraries(et_backends_${part} INTERFACE ${target})
  set_property(GLOBAL APPEND PROPERTY ET_BACKEND_${part} ${name})
endfunction()

# Adds the selected backends and writes the tables.
function(et_add_backends)
  foreach(name IN LISTS ARGN)
    if(EXISTS ${CMAKE_SOURCE_DIR}/backends/${name}/CMakeLists.txt)
      add_subdirectory(${CMAKE_SOURCE_DIR}/backends/${name})
    else()
      message(STATUS "backends/${name}: no CMakeLists.txt, nothing of it is built")
    endif()
  endforeach()
  foreach(part compiler runtime kernels)
    string(TOUPPER ${part} macro)
    get_property(names GLOBAL PROPERTY ET_BACKEND_${part})
    set(text "// Generated from et_add_backend calls: the backends of this build that have a ${part} part.\n")
    foreach(name IN LISTS names)
      string(APPEND text "ET_BACKEND_${macro}(${name})\n")
    endforeach()
    file(GENERATE OUTPUT ${ET_GENERATED_DIR}/backends/${part}_table.inc CONTENT "${text}")
  endforeach()
endfunction()
