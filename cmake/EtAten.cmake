# et_aten_plugin(NAME my_ops SRCS my_ops.cpp [OPTIMIZE ...]): a plug-in (runtime/plugin.h) whose kernels see at::Tensor.
#
# ET_ATEN_MODE is defined, so "runtime/kernel_types.h" gives ATen's names; libtorch is that of the torch wheel which
# ${Python_EXECUTABLE} has. Python loads the library, <build>/bin/lib<NAME>.so, with Runtime.get().load_plugin(path).
include_guard(GLOBAL)

execute_process(
  COMMAND ${Python_EXECUTABLE} -c
          "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
  OUTPUT_VARIABLE torch OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "ET_BUILD_ATEN needs torch beside ${Python_EXECUTABLE}: pip install torch==2.13.0")
endif()
add_library(et_third_party::torch INTERFACE IMPORTED GLOBAL)
set_target_properties(et_third_party::torch PROPERTIES
  INTERFACE_INCLUDE_DIRECTORIES ${torch}/include
  INTERFACE_LINK_LIBRARIES "${torch}/lib/libtorch_cpu.so;${torch}/lib/libc10.so")

function(et_aten_plugin)
  cmake_parse_arguments(arg "" "NAME" "SRCS;OPTIMIZE" ${ARGN})
  add_library(${arg_NAME} MODULE ${arg_SRCS} ${ET_CPP_ROOT}/aten/tensor.cpp)
  _et_common(${arg_NAME})
  target_link_libraries(${arg_NAME} PRIVATE et::runtime et_third_party::torch)
  target_compile_definitions(${arg_NAME} PRIVATE ET_ATEN_MODE=1)
  target_precompile_headers(${arg_NAME} PRIVATE <ATen/core/Tensor.h>)
  # ATen counts in int64_t what the runtime counts in size_t.
  target_compile_options(${arg_NAME} PRIVATE -Wno-sign-compare ${arg_OPTIMIZE})
  set_target_properties(${arg_NAME} PROPERTIES CXX_STANDARD 20 LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
endfunction()
