# Bare-metal Arm Cortex-M55 with Debian's gcc-arm-none-eabi; run on QEMU's mps3-an547 board.
#
#   cmake -S . -B build/mcu -G Ninja -DCMAKE_TOOLCHAIN_FILE=cmake/toolchains/cortex-m55.cmake -DET_SELECT_OPS=model.pte
#
# -DTOOLCHAIN=clang compiles with clang, for the libraries and the linker of GNU Arm Embedded.
# Another core sets ET_CORE and its flags and includes this.
# A microcontroller gets the runtime and the portable kernels that its models need; what is left out stands at the end.
set(TOOLCHAIN gnu CACHE STRING "gnu or clang")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES TOOLCHAIN)
if(NOT ET_CORE)
  set(ET_CORE cortex-m55)
  set(ET_CORE_FLAGS "-mfloat-abi=hard")
endif()
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR ${ET_CORE})
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_CXX_COMPILER arm-none-eabi-g++)

set(CMAKE_C_FLAGS_INIT "-mcpu=${ET_CORE} -mthumb ${ET_CORE_FLAGS}")
# Debian's newlib takes <stdint.h> from the compiler, which lacks the macro by which <inttypes.h> offers PRIu64
# and its kin.
set(CMAKE_CXX_FLAGS_INIT "${CMAKE_C_FLAGS_INIT} -fno-threadsafe-statics -Wno-psabi -D__int64_t_defined=1")
if(TOOLCHAIN STREQUAL "clang")
  set(ET_LTO OFF CACHE BOOL "the linker is another compiler's")
  set(core "${CMAKE_C_FLAGS_INIT}")
  include(${CMAKE_CURRENT_LIST_DIR}/../../src/executorch_py/firmware/template/clang.cmake.in)
endif()
set(CMAKE_EXE_LINKER_FLAGS_INIT "--specs=nano.specs --specs=rdimon.specs")

set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)

# Arguments for the program follow after this; the machine's exit status is the program's.
set(CMAKE_CROSSCOMPILING_EMULATOR
    qemu-system-arm -M mps3-an547 -cpu cortex-m55 -nographic -monitor none -serial stdio
    -semihosting-config enable=on,target=native -kernel)

foreach(option COMPILER PYTHON TOOLS THREADS OPTIMIZED TESTS)
  set(ET_BUILD_${option} OFF CACHE BOOL "not on a microcontroller")
endforeach()
set(ET_BACKENDS "" CACHE STRING "not on a microcontroller")
set(ET_SIZE_BUILD ON CACHE BOOL "optimise for size")
