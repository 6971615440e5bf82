/// ET_KERNEL_TABLE: how a source file of this folder hands out its kernels.
///
///     constexpr Kernel kKernels[] = {make_fitting_kernel<&mean_out, &fits>("aten::mean.out")};
///     }  // namespace
///     ET_KERNEL_TABLE(reduce, kKernels)  // in reduce.cpp, one of the TABLES of its CMakeLists.txt
#pragma once

#include "base/startup.h"
#include "runtime/kernel_types.h"

/// Defines NAME_kernels(), which returns the array that follows.
#define ET_KERNEL_TABLE(NAME, ...)                \
  ET_STARTUP Span<const Kernel> NAME##_kernels(); \
  Span<const Kernel> NAME##_kernels() { return __VA_ARGS__; }
