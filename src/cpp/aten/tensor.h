/// at::Tensor over the bytes of a runtime tensor: what an ATen-mode kernel is given.
///
/// For: the boxed wrappers of aten/kernel_types.h. Not for: owning memory; the at::Tensor is valid during the call of
///      the kernel, like everything else that a kernel is given.
///
///     at::Tensor self = aten::borrow(value.to_tensor());          // no copy: sizes, strides and bytes are the
///     runtime's ET_RETURN_IF_ERROR(aten::resize_tensor(context, out, self.sizes()));
///
/// Place: between the runtime's Tensor and libtorch; nothing else knows both.
#pragma once

#include <ATen/core/Tensor.h>

#include <exception>
#include <new>

#include "base/log.h"
#include "runtime/kernel.h"

namespace et::aten {

/// An at::Tensor that shows the memory of `tensor`. Cost: two allocations of libtorch, some 100 ns.
at::Tensor borrow(const runtime::Tensor& tensor);

/// Gives `out`, a borrowed tensor, the sizes that a kernel computed: by the rules of runtime::resize_tensor, so that
/// planned memory, bounds and data-dependent outputs hold in both modes. A tensor of the kernel's own is resized by
/// ATen. Errors: as runtime::resize_tensor.
Error resize_tensor(runtime::KernelContext& context, const at::Tensor& out, runtime::IntArrayRef sizes);

/// Calls `f` and turns what it throws into an Error, with the exception's text in the log.
template <typename F>
Error no_exceptions(F&& f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    ET_LOG_ERROR("libtorch has no memory left");
    return Error::MemoryAllocationFailed;
  } catch (const c10::Error& error) {
    ET_LOG_ERROR("%s", error.what_without_backtrace());
    return Error::InvalidArgument;
  } catch (const std::exception& error) {
    ET_LOG_ERROR("%s", error.what());
    return Error::Internal;
  }
}

}  // namespace et::aten
