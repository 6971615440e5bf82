# Linux on 64-bit RISC-V with vectors of 128 bits or more (RVV 1.0): clang 14, which vectorises loops, with Debian's
# cross libraries and linker. GCC 12 has no vectors of RISC-V.
#
#     cmake -S . -B build/rvv -DCMAKE_TOOLCHAIN_FILE=cmake/toolchains/riscv64-rvv-linux.cmake -DET_BACKENDS=example
include(${CMAKE_CURRENT_LIST_DIR}/riscv64-linux.cmake)
list(APPEND CMAKE_CROSSCOMPILING_EMULATOR -cpu rv64,v=true,vlen=128,vext_spec=v1.0)
foreach(language C CXX)
  set(CMAKE_${language}_COMPILER_TARGET riscv64-linux-gnu)
  set(CMAKE_${language}_FLAGS_INIT "-march=rv64gcv -mabi=lp64d -mllvm -riscv-v-vector-bits-min=128")
endforeach()
set(CMAKE_C_COMPILER clang)
set(CMAKE_CXX_COMPILER clang++)
