# What `make demo` builds of the extension module (cmake -C cmake/demo.cmake): what two models without a delegate run.
#
# Left out are C++ tests, the backends, instruction sets of other processors, and families of SIMD kernels whose
# operators these models have not. Portable kernels take such calls, and XNNPACK is neither fetched nor built.
set(ET_BUILD_TESTS OFF CACHE BOOL "")
set(ET_BACKENDS "" CACHE STRING "")
set(ET_INSTRUCTION_SETS native CACHE STRING "")
set(ET_KERNEL_FAMILIES vec pointwise norm move attention amx matmul conv CACHE STRING "")
