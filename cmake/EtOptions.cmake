# Options of the build and the compile flags that follow from them. Every option is listed here, once.
include_guard(GLOBAL)

option(ET_BUILD_COMPILER "Build the ahead-of-time compiler (ir, passes, delegation, planning, emit, driver)" ON)
option(ET_BUILD_PYTHON "Build the Python extension module _core" ON)
option(ET_BUILD_TOOLS "Build executor_runner, pte_dump and et_opt" ON)
option(ET_BUILD_THREADS "Build the thread pool; without it everything runs on the caller's thread" ON)
option(ET_BUILD_OPTIMIZED "Build the SIMD kernels (Highway, run-time dispatch)" ON)
# The compiler must know AMX's instructions: GCC from version 11 on, or Clang.
set(ET_HAS_AMX OFF)
if(CMAKE_SYSTEM_NAME STREQUAL "Linux" AND CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64" AND
   (CMAKE_CXX_COMPILER_ID MATCHES "Clang" OR CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 11))
  set(ET_HAS_AMX ON)
endif()
set(ET_INSTRUCTION_SETS "all" CACHE STRING
    "Instruction sets of the SIMD kernels: 'all', chosen at run time, or 'native', this machine's: half the build time")
set_property(CACHE ET_INSTRUCTION_SETS PROPERTY STRINGS all native)
if(NOT ET_INSTRUCTION_SETS MATCHES "^(all|native)$")
  message(FATAL_ERROR "ET_INSTRUCTION_SETS is '${ET_INSTRUCTION_SETS}', must be all or native")
endif()
option(ET_BUILD_AMX "Build the SIMD kernels' products by tiles (AMX of x86-64 servers)" ${ET_HAS_AMX})
set(ET_KERNEL_FAMILIES "all" CACHE STRING
    "Families of the SIMD kernels: 'all', or a list of folders of kernels/optimized. Portable kernels take other calls")
option(ET_BUILD_TESTS "Build the C++ tests and register them with ctest" OFF)
option(ET_BUILD_FUZZERS "Build the libFuzzer targets (needs clang)" OFF)
option(ET_BUILD_ATEN "Build the portable kernels on at::Tensor as a plug-in (ATen mode; needs torch)" OFF)
option(ET_WERROR "Treat warnings as errors" ON)
option(ET_SIZE_BUILD "Optimise for size (-Os, sections, no error messages): what a microcontroller gets" OFF)
option(ET_LTO "Optimise across files when linking: a fifth smaller" ${ET_SIZE_BUILD})
option(ET_STRIP_MESSAGES "Leave the text of error messages out; codes stay" ${ET_SIZE_BUILD})
option(ET_EVENT_TRACER "Record events and values where a caller gives a tracer; off: 4 kB of code less" ON)
set(ET_SANITIZE "" CACHE STRING "Sanitizers of the whole build: 'address,undefined' or 'thread'")
set(ET_BACKENDS "example;xnnpack;tosa;ethos_u" CACHE STRING
    "Backends to build (folders of backends/); those not there are skipped")
set(ET_SELECT_OPS "" CACHE FILEPATH "Keep only the kernels named by these lists, yaml and .pte files; empty: all")
set(ET_REQUIRE_MODELS "" CACHE FILEPATH ".pte files that must find every kernel they call among the selected ones")
set(ET_OTHER_OPS "" CACHE STRING "Kernels that another library has, which selected files may name: my_ops::*")
set(ET_XNNPACK_SOURCE "$ENV{ET_XNNPACK_SOURCE}" CACHE PATH "XNNPACK source folder to build instead of the pinned one")
set(ET_CACHE "$ENV{ET_CACHE}" CACHE PATH "Cache of third-party sources and builds; empty: the user's cache folder")

set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
if(NOT ET_SIZE_BUILD AND NOT CMAKE_SYSTEM_NAME MATCHES "^(Generic|Emscripten)$")
  set(CMAKE_POSITION_INDEPENDENT_CODE ON)  # all of it may end in the extension module
endif()
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug, Release or RelWithDebInfo" FORCE)
endif()
# -O2 keeps the build short; the folders with hot loops set more themselves (et_library's OPTIMIZE).
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")
set(CMAKE_C_FLAGS_RELEASE "-O2 -DNDEBUG")
if(ET_SIZE_BUILD)
  set(CMAKE_CXX_FLAGS_RELEASE "-Os -DNDEBUG")
  set(CMAKE_C_FLAGS_RELEASE "-Os -DNDEBUG")
  # Code at a fixed address and without unwinding tables, as a microcontroller's compiler makes it of itself.
  add_compile_options(-ffunction-sections -fdata-sections -fno-asynchronous-unwind-tables -fno-pie)
  add_link_options(-Wl,--gc-sections -no-pie)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_link_options(-flto-partition=none)  # all at once: a fiftieth smaller, and the runtime is small
  endif()
endif()
set(CMAKE_INTERPROCEDURAL_OPTIMIZATION ${ET_LTO})
if(ET_SIZE_BUILD AND NOT ET_BACKENDS)  # no library that reads past a tensor, or whose kernels are compared with ours
  add_compile_definitions(ET_WITHOUT_PAGES=1 ET_WITHOUT_OFFERS=1 ET_SMALL_STACK=1)
endif()
if(ET_STRIP_MESSAGES)
  add_compile_definitions(ET_STRIP_MESSAGES=1)
endif()
if(NOT ET_EVENT_TRACER)
  add_compile_definitions(ET_NO_EVENT_TRACER=1)
endif()

# A test is compiled longer than it runs: -O1 takes a third less time to compile than -O2.
set(ET_TEST_OPTIMIZE $<$<CONFIG:Release>:-O1>)

# The baseline of every x86-64 machine since 2009. Wider instructions are chosen at run time, so that one binary runs
# everywhere. With ET_INSTRUCTION_SETS=native the SIMD kernels alone are compiled with -march=native (EtKernels.cmake).
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$" AND NOT CMAKE_CROSSCOMPILING)
  add_compile_options(-march=x86-64-v2)
endif()
# A fused multiply-add where the source has none would make results depend on the compiler's target.
add_compile_options(-ffp-contract=off)

if(ET_SANITIZE)
  # No vptr check: it needs the run-time type information that half of the code is built without.
  add_compile_options(-fsanitize=${ET_SANITIZE} -fno-sanitize=vptr -fno-sanitize-recover=all
                      -fno-omit-frame-pointer -g1)
  add_link_options(-fsanitize=${ET_SANITIZE})
  # No sanitizer sees what an instruction of AMX reads (kernels/optimized/amx/tile_instructions.h).
  add_compile_definitions(ET_EMULATE_TILES=1)
  set(CMAKE_CXX_FLAGS_RELEASE "-O1")  # assertions stay on
  set(CMAKE_C_FLAGS_RELEASE "-O1")
  set(ET_TEST_OPTIMIZE -O0)
endif()

find_program(ET_CCACHE ccache)
mark_as_advanced(ET_CCACHE)
if(ET_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${ET_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${ET_CCACHE})
endif()

# The warnings of our own code; third-party headers come in as SYSTEM.
set(ET_WARNINGS -Wall -Wextra)
if(CMAKE_SYSTEM_NAME STREQUAL "Generic")
  # uint32_t is `unsigned long` to newlib: of the size that %u prints, under another name. Hosted builds
  # check the formats.
  list(APPEND ET_WARNINGS -Wno-format)
endif()
if(ET_WERROR)
  list(APPEND ET_WARNINGS -Werror)
endif()

set(ET_GENERATED_DIR ${CMAKE_BINARY_DIR}/generated)
file(MAKE_DIRECTORY ${ET_GENERATED_DIR})
# <executorch_py/…>, as installed headers are included.
file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR}/src/cpp ${ET_GENERATED_DIR}/executorch_py SYMBOLIC)
