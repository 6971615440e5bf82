# Linux on 32-bit Arm with a floating-point unit (Armv7-A, no NEON needed): Debian's cross compiler, and QEMU.
#
#     cmake -S . -B build/armhf -DCMAKE_TOOLCHAIN_FILE=cmake/toolchains/armhf-linux.cmake -DET_BACKENDS=example
set(CMAKE_SYSTEM_PROCESSOR armv7l)
set(ET_TRIPLE arm-linux-gnueabihf)
set(ET_QEMU qemu-arm-static)
# GCC notes at each function with certain parameters that its calling convention changed in version 7.1.
set(CMAKE_CXX_FLAGS_INIT "-Wno-psabi")
include(${CMAKE_CURRENT_LIST_DIR}/debian_cross.cmake)
