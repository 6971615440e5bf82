# Linux on 64-bit Arm, from another machine: Debian's cross compiler, and QEMU to run what it makes.
#
#     cmake -S . -B build/neon -DCMAKE_TOOLCHAIN_FILE=cmake/toolchains/aarch64-linux.cmake -DET_BACKENDS=example
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(ET_TRIPLE aarch64-linux-gnu)
set(ET_QEMU qemu-aarch64-static)
include(${CMAKE_CURRENT_LIST_DIR}/debian_cross.cmake)
# The vector kernels for NEON alone: the processors that have more choose at run time.
add_compile_definitions(HWY_COMPILE_ONLY_STATIC)
