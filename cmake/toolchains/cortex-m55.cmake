# Bare-metal Arm Cortex-M55 with Debian's gcc-arm-none-eabi; run on QEMU's mps3-an547 board.
#
#   cmake -S . -B build/mcu -G Ninja -DCMAKE_TOOLCHAIN_FILE=cmake/toolchains/cortex-m55.cmake -DET_SELECT_OPS=model.pte
#
# A microcontroller gets the runtime and the portable kernels that its models need; what is left out stands at the end.
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR cortex-m55)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_CXX_COMPILER arm-none-eabi-g++)

set(CMAKE_C_FLAGS_INIT "-mcpu=cortex-m55 -mthumb -mfloat-abi=hard")
# Debian's newlib takes <stdint.h> from the compiler, which lacks the macro by which <inttypes.h> offers PRIu64 and its kin.
set(CMAKE_CXX_FLAGS_INIT "${CMAKE_C_FLAGS_INIT} -fno-threadsafe-statics -Wno-psabi -D__int64_t_defined=1")
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
