# WebAssembly with SIMD of 128 bits: Debian's Emscripten, and node to run what it makes.
#
#     cmake -S . -B build/wasm -DCMAKE_TOOLCHAIN_FILE=cmake/toolchains/wasm32.cmake
#
# With -DET_BUILD_THREADS=ON the program has up to eight threads beside its own; a page needs cross-origin isolation.
foreach(option PYTHON THREADS OPTIMIZED)
  set(ET_BUILD_${option} OFF CACHE BOOL "not in WebAssembly")
endforeach()
set(ET_BACKENDS example CACHE STRING "not in WebAssembly")
set(features "-msimd128 -fexceptions")
# Files are those of the machine, as for any other program.
set(CMAKE_EXE_LINKER_FLAGS_INIT "-sNODERAWFS=1 -sALLOW_MEMORY_GROWTH=1 -sEXIT_RUNTIME=1")
if(ET_BUILD_THREADS)
  string(APPEND features " -pthread")
  # A worker of node begins when main() waits for nothing, so they are there before. With main() in a worker of its own
  # (PROXY_TO_PTHREAD) the network `wide` of tests/targets/processors hangs, cause not found (Emscripten 3.1.6).
  string(APPEND CMAKE_EXE_LINKER_FLAGS_INIT " -sPTHREAD_POOL_SIZE=8 -Wno-pthreads-mem-growth")
endif()
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ET_BUILD_THREADS)
set(CMAKE_C_FLAGS_INIT "${features}")
set(CMAKE_CXX_FLAGS_INIT "${features}")
include(/usr/share/emscripten/cmake/Modules/Platform/Emscripten.cmake)
# Of node 18 and later: Emscripten 3.1.6 takes its fetch() for that of a browser.
set(CMAKE_CROSSCOMPILING_EMULATOR node --no-experimental-fetch)
if(EXISTS /usr/share/nodejs)  # where Debian has what its Emscripten calls, whichever node runs it
  foreach(language C CXX)
    set(CMAKE_${language}_LINKER_LAUNCHER ${CMAKE_COMMAND} -E env NODE_PATH=/usr/share/nodejs)
  endforeach()
endif()
