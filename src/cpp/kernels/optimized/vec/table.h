/// ET_KERNEL_TABLE: how a source file of this folder hands out its kernels.
///
///     constexpr Kernel kKernels[] = {make_fitting_kernel<&relu_out, &fits_unary>("aten::relu.out")};
///     }  // namespace
///     ET_KERNEL_TABLE(unary, kKernels)  // in unary.cpp, one of the TABLES of its CMakeLists.txt
#pragma once

#include "base/startup.h"
#include "runtime/kernel_types.h"

/// Defines NAME_kernels(), which returns the array that follows.
#define ET_KERNEL_TABLE(NAME, ...)                \
  ET_STARTUP Span<const Kernel> NAME##_kernels(); \
  Span<const Kernel> NAME##_kernels() { return __VA_ARGS__; }
