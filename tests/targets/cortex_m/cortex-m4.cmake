# As cmake/toolchains/cortex-m55.cmake, for another core.
set(ET_CORE cortex-m4)
set(ET_CORE_FLAGS "-mfloat-abi=hard -mfpu=fpv4-sp-d16")
include(${CMAKE_CURRENT_LIST_DIR}/../../../cmake/toolchains/cortex-m55.cmake)
