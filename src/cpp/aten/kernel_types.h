/// ATen mode: the names that kernels use (runtime/kernel_types.h), standing for ATen's tensors and element types.
///
/// For: compiling a kernel, one of ours or a user's, on `at::Tensor`: define ET_ATEN_MODE, include
/// "runtime/kernel_types.h" and link libtorch. The kernel may then also call ATen's own operators.
/// Not for: the runtime itself. It is the same in both modes: one verifier, one executor, one memory plan. A tensor
/// becomes an `at::Tensor` where a kernel is called (tensor.h), so kernels of both kinds stand in one registry and work
/// on one program side by side. docs/design/08-aten-mode.md has the reasons.
///
///     Error softplus_out(KernelContext& context, const Tensor& self, Tensor& out) {   // Tensor is at::Tensor
///       ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
///       at::softplus_out(out, self);
///       return Error::Ok;
///     }
///     const Kernel kKernels[] = {make_kernel<&softplus_out>("my::softplus.out")};
///
/// What ATen throws ends in the boxed wrapper: it is logged and becomes an Error.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <vector>

#include "aten/tensor.h"
#include "runtime/kernel.h"

namespace et::kernels {

using runtime::EValue;
using runtime::IntArrayRef;
using runtime::Kernel;
using runtime::KernelContext;
using runtime::Scalar;
using Tensor = at::Tensor;
using OptionalTensor = std::optional<at::Tensor>;
using TensorList = std::vector<at::Tensor>;
using OptionalTensorList = std::vector<std::optional<at::Tensor>>;
using aten::resize_tensor;
using et::equal;
inline bool equal(IntArrayRef a, IntArrayRef b) { return et::equal(a, b); }  // sizes of at::Tensor are c10::IntArrayRef

// Element types: the numbers are the same, the C++ types are ATen's, so that `const_data_ptr<T>()` takes them.

using c10::BFloat16;
using c10::Half;
using c10::ScalarType;

constexpr size_t element_size(ScalarType dtype) { return et::element_size(static_cast<et::ScalarType>(dtype)); }
constexpr const char* to_string(ScalarType dtype) { return et::to_string(static_cast<et::ScalarType>(dtype)); }
constexpr bool is_complex(ScalarType dtype) { return et::is_complex(static_cast<et::ScalarType>(dtype)); }
constexpr bool is_small_float(ScalarType dtype) { return et::is_small_float(static_cast<et::ScalarType>(dtype)); }
constexpr bool is_floating(ScalarType dtype) { return et::is_floating(static_cast<et::ScalarType>(dtype)); }
constexpr bool is_integral(ScalarType dtype, bool include_bool) {
  return et::is_integral(static_cast<et::ScalarType>(dtype), include_bool);
}

namespace detail {
template <typename T>
struct AtenOf {
  using type = T;
};
template <>
struct AtenOf<et::Half> {
  using type = Half;
};
template <>
struct AtenOf<et::BFloat16> {
  using type = BFloat16;
};
}  // namespace detail

template <typename T>
struct DTypeOf;
template <ScalarType>
struct CTypeOf;
#define ET_DTYPE(name, value, c_type, text, nbytes, word)                                        \
  static_assert(static_cast<int>(ScalarType::name) == value && sizeof(c_type) == nbytes, #name); \
  template <>                                                                                    \
  struct DTypeOf<detail::AtenOf<c_type>::type> {                                                 \
    static constexpr ScalarType value_of = ScalarType::name;                                     \
  };                                                                                             \
  template <>                                                                                    \
  struct CTypeOf<ScalarType::name> {                                                             \
    using type = detail::AtenOf<c_type>::type;                                                   \
  };
#include "base/dtype.def"
#undef ET_DTYPE
template <typename T>
inline constexpr ScalarType dtype_of = DTypeOf<T>::value_of;

namespace detail {
template <auto Function>
Error run_boxed(KernelContext& context, Span<EValue* const> args, void* state) {
  return aten::no_exceptions([&] { return runtime::detail::Boxed<Function>::run(context, args, state); });
}
}  // namespace detail

/// As runtime::make_kernel; wins over every kernel of ours.
template <auto Function, uint32_t InPlace = 0>
constexpr Kernel make_kernel(const char* name, uint8_t priority = runtime::kPriorityUser) {
  Kernel kernel = runtime::make_kernel<Function, InPlace>(name, priority);
  kernel.run = &detail::run_boxed<Function>;
  return kernel;
}

}  // namespace et::kernels

namespace et::runtime::detail {

/// How the arguments of a call become ATen's; letters as in runtime/unboxing.h.
template <>
struct Unbox<at::Tensor> {
  static constexpr char letter = 'T';
  static at::Tensor get(const EValue& v) { return aten::borrow(v.to_tensor()); }
};
template <>
struct Unbox<std::optional<at::Tensor>> {
  static constexpr char letter = 't';
  static std::optional<at::Tensor> get(const EValue& v) {
    return v.is_none() ? std::nullopt : std::optional<at::Tensor>(aten::borrow(v.to_tensor()));
  }
};
template <>
struct Unbox<std::vector<at::Tensor>> {
  static constexpr char letter = 'v';
  static std::vector<at::Tensor> get(const EValue& v) {
    std::vector<at::Tensor> list;
    for (const Tensor& tensor : v.to_tensor_list()) {
      list.push_back(aten::borrow(tensor));
    }
    return list;
  }
};
template <>
struct Unbox<std::vector<std::optional<at::Tensor>>> {
  static constexpr char letter = 'w';
  static std::vector<std::optional<at::Tensor>> get(const EValue& v) {
    std::vector<std::optional<at::Tensor>> list;
    for (const std::optional<Tensor>& tensor : v.to_optional_tensor_list()) {
      list.push_back(tensor ? std::optional<at::Tensor>(aten::borrow(*tensor)) : std::nullopt);
    }
    return list;
  }
};
template <>
struct Unbox<c10::ScalarType> {
  static constexpr char letter = 'y';
  static c10::ScalarType get(const EValue& v) { return static_cast<c10::ScalarType>(v.number_as_int()); }
};
template <>
struct Unbox<std::optional<c10::ScalarType>> {
  static constexpr char letter = 'Y';
  static std::optional<c10::ScalarType> get(const EValue& v) {
    return v.is_none() ? std::nullopt : std::optional<c10::ScalarType>(Unbox<c10::ScalarType>::get(v));
  }
};

}  // namespace et::runtime::detail
