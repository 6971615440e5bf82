# et_fuzzer(NAME ir_parser SRCS ir_parser.cpp DEPS ir): a program around LLVMFuzzerTestOneInput.
#
# Built with libFuzzer when ET_BUILD_FUZZERS is on (clang; `make fuzz`). Otherwise it is linked with a main that replays
# the corpus tests/fuzz/corpus/<NAME>, and ctest runs that: what once failed stays tested by every compiler.
include_guard(GLOBAL)

if(ET_BUILD_FUZZERS)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "ET_BUILD_FUZZERS needs clang: -DCMAKE_C_COMPILER=clang -DCMAKE_CXX_COMPILER=clang++")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

function(et_fuzzer)
  cmake_parse_arguments(arg "" "NAME" "SRCS;DEPS" ${ARGN})
  set(target et_fuzz_${arg_NAME})
  if(ET_BUILD_FUZZERS)
    et_executable(NAME ${target} SRCS ${arg_SRCS} DEPS ${arg_DEPS})
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
  else()
    et_executable(NAME ${target} SRCS ${arg_SRCS} ${CMAKE_SOURCE_DIR}/tests/fuzz/replay.cpp DEPS ${arg_DEPS})
    add_test(NAME fuzz_${arg_NAME}_corpus COMMAND ${target} ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${arg_NAME})
  endif()
endfunction()
