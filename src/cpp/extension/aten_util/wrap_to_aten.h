/// WRAP_TO_ATEN: a kernel for the runtime as a function of at::Tensor, so that eager mode and torch.export call it,
/// too.
///
/// For: libraries that are loaded into PyTorch (they link libtorch). Not for: kernels that want at::Tensor themselves;
/// those are ATen mode's (docs/how-to/custom_operators.md).
///
///     Error triple_out(KernelContext& context, const Tensor& x, Tensor& out);
///     TORCH_LIBRARY(my_ops, m) {
///       m.def("triple.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)", WRAP_TO_ATEN(triple_out, 1));
///     }
///
/// An output has the rank of the tensor that is given for it. The kernel may have any form that EXECUTORCH_LIBRARY
/// takes (kernel_util/registration.h). Tensors are passed row-major, without a copy when they are so; an output is
/// given the sizes that the kernel computes. An error is a c10::Error.
#pragma once

#include <ATen/ATen.h>

#include <optional>
#include <tuple>
#include <type_traits>
#include <vector>

#include "extension/kernel_util/registration.h"
#include "extension/tensor/tensor_ptr.h"
#include "runtime/host/heap_allocator.h"
#include "threads/thread_pool.h"

namespace et::extension::detail {

/// A runtime tensor over the memory of ATen's, row-major, as kernels expect it.
class BorrowedTensor {
 public:
  explicit BorrowedTensor(const at::Tensor& given) : dense_(given.contiguous()) {
    TORCH_CHECK(given.device().is_cpu(), "the kernel takes tensors on the CPU, one is on ", given.device());
    std::vector<int64_t> strides(dense_.strides().begin(), dense_.strides().end());
    tensor_ = make_tensor({dense_.sizes(),
                           {},
                           std::move(strides),
                           static_cast<ScalarType>(dense_.scalar_type()),
                           runtime::TensorShapeDynamism::kDynamicUnbound},
                          nullptr, dense_.numel() == 0 ? nullptr : dense_.data_ptr(), std::nullopt);
    TORCH_CHECK(tensor_ != nullptr, "a tensor of ", dense_.dtype(), " and sizes ", dense_.sizes(),
                " cannot be given to the kernel; the message before says why");
  }

  Tensor& get() { return *tensor_; }
  /// Writes what a kernel made to `out`, with its sizes, unless it lies there.
  void write_to(const at::Tensor& out) const {
    const at::IntArrayRef sizes(tensor_->sizes().data(), tensor_->sizes().size());
    const bool is_there = dense_.is_same(out) && dense_.sizes() == sizes &&
                          (out.numel() == 0 || tensor_->const_data_ptr() == out.const_data_ptr());
    if (!is_there) {
      const at::Tensor made = at::from_blob(tensor_->mutable_data_ptr(), sizes, out.options()).clone();
      out.resize_(sizes).copy_(made);
    }
  }

 private:
  at::Tensor dense_;
  TensorPtr tensor_;
};

/// An argument: the type that ATen passes, what the kernel is given, and what is done after the call.
template <typename T>
struct AtenArgument {  // numbers, text: the same on both sides
  using type = T;
  explicit AtenArgument(const T& given) : value(given) {}
  T& get() { return value; }
  void finish() {}

  T value;
};
template <typename From, typename To>
struct ConvertedArgument {
  using type = From;
  To& get() { return value; }
  void finish() {}

  To value;
};
template <>
struct AtenArgument<const Tensor&> : BorrowedTensor {
  using type = const at::Tensor&;
  using BorrowedTensor::BorrowedTensor;
  void finish() {}
};
template <>
struct AtenArgument<Tensor&> : BorrowedTensor {
  using type = at::Tensor&;
  explicit AtenArgument(at::Tensor& given) : BorrowedTensor(given), out(given) {}
  void finish() { write_to(out); }

  at::Tensor& out;
};
template <>
struct AtenArgument<const std::optional<Tensor>&>
    : ConvertedArgument<const std::optional<at::Tensor>&, std::optional<Tensor>> {
  explicit AtenArgument(const std::optional<at::Tensor>& given) {
    if (given) {
      value = borrowed.emplace(*given).get();
    }
  }
  std::optional<BorrowedTensor> borrowed;
};
template <>
struct AtenArgument<Span<const Tensor>> : ConvertedArgument<at::TensorList, Span<const Tensor>> {
  explicit AtenArgument(at::TensorList given) {
    borrowed.reserve(given.size());
    for (const at::Tensor& tensor : given) {
      tensors.push_back(borrowed.emplace_back(tensor).get());
    }
    value = tensors;
  }
  std::vector<BorrowedTensor> borrowed;
  std::vector<Tensor> tensors;
};
template <>
struct AtenArgument<runtime::IntArrayRef> : ConvertedArgument<at::IntArrayRef, runtime::IntArrayRef> {
  explicit AtenArgument(at::IntArrayRef given) { value = {given.data(), given.size()}; }
};
template <>
struct AtenArgument<std::optional<runtime::IntArrayRef>>
    : ConvertedArgument<at::OptionalIntArrayRef, std::optional<runtime::IntArrayRef>> {
  explicit AtenArgument(at::OptionalIntArrayRef given) {
    if (given.has_value()) {
      value = runtime::IntArrayRef(given->data(), given->size());
    }
  }
};
template <>
struct AtenArgument<Scalar> : ConvertedArgument<const at::Scalar&, Scalar> {
  explicit AtenArgument(const at::Scalar& given) {
    value = given.isFloatingPoint() ? Scalar(given.toDouble())
            : given.isBoolean()     ? Scalar(given.toBool())
                                    : Scalar(given.toLong());
  }
};
template <>
struct AtenArgument<ScalarType> : ConvertedArgument<at::ScalarType, ScalarType> {
  explicit AtenArgument(at::ScalarType given) { value = static_cast<ScalarType>(given); }
};

/// Tensors and optional tensors by reference, the rest by value.
template <typename T>
using argument_of = AtenArgument<
    std::conditional_t<std::is_same_v<T, Tensor&>, Tensor&,
                       std::conditional_t<std::is_same_v<std::decay_t<T>, Tensor>, const Tensor&,
                                          std::conditional_t<std::is_same_v<std::decay_t<T>, std::optional<Tensor>>,
                                                             const std::optional<Tensor>&, std::decay_t<T>>>>>;

template <auto Function, size_t Out, typename Type = decltype(&Adapted<Function>::run)>
struct AtenFunctor;

template <auto Function, size_t Out, typename... Args>
struct AtenFunctor<Function, Out, Error (*)(runtime::KernelContext&, Args...)> {
  static at::Tensor& call(typename argument_of<Args>::type... args) {
    std::tuple<argument_of<Args>...> held{argument_of<Args>(args)...};
    runtime::HeapAllocator temp, data;
    runtime::RandomState random;
    runtime::KernelContext context(&temp, &data, threads::default_pool(), &random, nullptr);
    const Error error = std::apply(
        [&](auto&... arguments) { return Adapted<Function>::run(context, static_cast<Args>(arguments.get())...); },
        held);
    TORCH_CHECK(error == Error::Ok, "the kernel failed: ", et::to_string(error), "; the message before says why");
    std::apply([](auto&... arguments) { (arguments.finish(), ...); }, held);
    return std::get<Out>(std::forward_as_tuple(args...));
  }
};

}  // namespace et::extension::detail

/// `function` on at::Tensor; the call returns argument `out`, counted from 0 without the context.
#define WRAP_TO_ATEN(function, out) (&::et::extension::detail::AtenFunctor<function, out>::call)
