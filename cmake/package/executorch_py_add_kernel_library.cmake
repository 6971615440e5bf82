# executorch_py_add_kernel_library(my_ops YAML ops.yaml SRCS blur.cpp …
#                                  [LIBS …] [PRIORITY 200] [FALLBACK_YAML other.yaml])
#
# A library of kernels from a table of operators (the format of ops.yaml, docs/how-to/custom_operators.md) and the C++
# files that implement them. Their declarations are generated: #include "my_ops/kernels.h". It gives two targets of one
# compilation:
#
#   my_ops          static library, for C++ applications: my_ops::register_kernels(registry) from "my_ops/register.h"
#   my_ops_plugin   lib<my_ops>.so, for Python (executorch_py.load_kernel_library) and any host that loads plug-ins
#
# YAML may be a published table of kernels (functions.yaml, custom_ops.yaml); FALLBACK_YAML is another one, for the
# operators that it does not name. LIBS are linked by both. PRIORITY: higher wins among the kernels that fit a call; 200
# stands above all of our own. A kernel whose parameters are not those of its schema, or that is missing, is an error
# when the plug-in is linked.
function(executorch_py_add_kernel_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "YAML;FALLBACK_YAML;PRIORITY" "SRCS;LIBS")
  if(NOT arg_YAML OR NOT arg_SRCS OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "executorch_py_add_kernel_library(<name> YAML <table> SRCS <files> [LIBS …] [PRIORITY n] "
                        "[FALLBACK_YAML <table>])")
  endif()
  if(NOT arg_PRIORITY)
    set(arg_PRIORITY 200)
  endif()
  find_package(Python3 3.10 REQUIRED COMPONENTS Interpreter)
  get_filename_component(table ${arg_YAML} ABSOLUTE)
  set(fallback "")
  if(arg_FALLBACK_YAML)
    get_filename_component(fallback_table ${arg_FALLBACK_YAML} ABSOLUTE)
    set(fallback --fallback ${fallback_table})
  endif()
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/generated)
  execute_process(
    COMMAND ${Python3_EXECUTABLE} ${executorch_py_CODEGEN}/kernel_library.py --name ${name} --ops ${table}
            --out ${generated} --priority ${arg_PRIORITY} ${fallback}
    RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${arg_YAML}: no library of kernels can be made of it; the reason stands above")
  endif()
  file(GLOB scripts ${executorch_py_CODEGEN}/*.py)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${table} ${fallback_table} ${scripts})

  add_library(${name} STATIC ${arg_SRCS} ${generated}/${name}/register.cpp)
  target_compile_features(${name} PUBLIC cxx_std_17)
  target_include_directories(${name} PUBLIC ${generated})
  target_link_libraries(${name}
    PUBLIC executorch_py::extension executorch_py::runtime executorch_py::threads ${arg_LIBS}
    PRIVATE executorch_py::kernels_portable)
  add_library(${name}_plugin MODULE ${generated}/${name}/plugin.cpp)
  target_link_libraries(${name}_plugin PRIVATE ${name})
  target_link_options(${name}_plugin PRIVATE -Wl,--no-undefined -Wl,--gc-sections)
  set_target_properties(${name} ${name}_plugin PROPERTIES
    POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON OUTPUT_NAME ${name})
endfunction()
