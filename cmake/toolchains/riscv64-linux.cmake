# Linux on 64-bit RISC-V (RV64GC, no vectors): Debian's cross compiler, and QEMU to run what it makes.
#
#     cmake -S . -B build/riscv64 -DCMAKE_TOOLCHAIN_FILE=cmake/toolchains/riscv64-linux.cmake -DET_BACKENDS=example
set(CMAKE_SYSTEM_PROCESSOR riscv64)
set(ET_TRIPLE riscv64-linux-gnu)
set(ET_QEMU qemu-riscv64-static)
include(${CMAKE_CURRENT_LIST_DIR}/debian_cross.cmake)
