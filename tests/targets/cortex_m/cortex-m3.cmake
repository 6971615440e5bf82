# As cmake/toolchains/cortex-m55.cmake, for another core.
include(${CMAKE_CURRENT_LIST_DIR}/../../../cmake/toolchains/cortex-m55.cmake)
set(CMAKE_SYSTEM_PROCESSOR cortex-m3)
set(CMAKE_C_FLAGS_INIT "-mcpu=cortex-m3 -mthumb -mfloat-abi=soft")
set(CMAKE_CXX_FLAGS_INIT "${CMAKE_C_FLAGS_INIT} -fno-threadsafe-statics -Wno-psabi -D__int64_t_defined=1")
