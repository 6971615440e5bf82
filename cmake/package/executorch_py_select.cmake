# executorch_py_select(my_kernels FILES model.pte ops.txt more.yaml [REQUIRE other.pte …] [OTHER my_ops::* …])
#
# A static library with the kernels that the files select, for the element types they name, on executorch_py::runtime:
#
#   target_link_libraries(firmware PRIVATE my_kernels)
#   # my_kernels::register_kernels(registry), "my_kernels/register.h"
#
# FILES: programs, lists (`aten::add.out f32 i64`, one a line), tables (`- op: aten::add.out`). REQUIRE: programs that
# must find all that they call. A kernel that is missing stops the configuration, with file, operator and element types;
# OTHER names kernels that another library has. Needs the Python package of this version at configure time
# (Python3_EXECUTABLE chooses).
function(executorch_py_select name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "FILES;REQUIRE;OTHER")
  if(NOT arg_FILES OR arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "executorch_py_select(<name> FILES <files> [REQUIRE <programs>] [OTHER <names>])")
  endif()
  find_package(Python3 3.10 REQUIRED COMPONENTS Interpreter)
  set(package ${CMAKE_COMMAND} -E env)
  if(EXISTS ${executorch_py_FOLDER}/__init__.py)
    list(APPEND package PYTHONPATH=${executorch_py_FOLDER}/..)
  endif()
  execute_process(COMMAND ${package} ${Python3_EXECUTABLE} -c "import executorch_py; print(executorch_py.__version__)"
    OUTPUT_VARIABLE version ERROR_VARIABLE reason OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT version STREQUAL "${executorch_py_VERSION}")
    message(FATAL_ERROR "executorch_py_select needs the Python package executorch_py ${executorch_py_VERSION}; "
      "${Python3_EXECUTABLE} has '${version}' (-DPython3_EXECUTABLE=… chooses another)\n${reason}")
  endif()
  foreach(list FILES REQUIRE)
    set(${list} "")
    foreach(file IN LISTS arg_${list})
      get_filename_component(path ${file} ABSOLUTE)
      list(APPEND ${list} ${path})
    endforeach()
  endforeach()
  set(options "")
  if(REQUIRE)
    list(APPEND options --require ${REQUIRE})
  endif()
  if(arg_OTHER)
    list(APPEND options --other ${arg_OTHER})
  endif()
  set(sources ${CMAKE_CURRENT_BINARY_DIR}/${name}_sources)
  execute_process(
    COMMAND ${package} ${Python3_EXECUTABLE} -m executorch_py select ${FILES} --name ${name} --kernels-only
            --sources ${sources} ${options}
    ERROR_VARIABLE reason OUTPUT_QUIET RESULT_VARIABLE status)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${name}: ${reason}")
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${FILES} ${REQUIRE})
  add_subdirectory(${sources} ${CMAKE_CURRENT_BINARY_DIR}/${name})
endfunction()
