# Linux on 64-bit Arm, from another machine: Debian's cross compiler, and QEMU to run what it makes.
#
#     cmake -S . -B build/neon -DCMAKE_TOOLCHAIN_FILE=cmake/toolchains/aarch64-linux.cmake -DET_BACKENDS=example
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
# The vector kernels for NEON alone: the processors that have more choose at run time.
add_compile_definitions(HWY_COMPILE_ONLY_STATIC)
