# As cmake/toolchains/cortex-m55.cmake, for another core.
set(ET_CORE cortex-m3)
set(ET_CORE_FLAGS "-mfloat-abi=soft")
include(${CMAKE_CURRENT_LIST_DIR}/../../../cmake/toolchains/cortex-m55.cmake)
