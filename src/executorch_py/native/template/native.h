// What generated code is written with: tensors that the compiler makes, memory for kernels, one step of a method.
//
// Written by `etpy build`. Nothing here allocates, and nothing runs before the first call.
#pragma once

#include "runtime/kernel_types.h"
#include "runtime/memory_allocator.h"

namespace et::native {

using runtime::EValue;
using runtime::KernelContext;
using runtime::Scalar;
using runtime::Tensor;
using runtime::TensorImpl;

namespace detail {

// TensorImpl computes its strides when it is made, which no constant does. The constants of generated code have theirs
// from Python, and are put together here: an explicit instantiation may name what is private.
template <typename Key, typename Key::Type Member>
struct Opened {
  friend constexpr typename Key::Type member(Key) { return Member; }
};
#define ET_NATIVE_MEMBER(Key, MemberType, name) \
  struct Key {                                  \
    using Type = MemberType TensorImpl::*;      \
    friend constexpr Type member(Key);          \
  };                                            \
  template struct Opened<Key, &TensorImpl::name>
ET_NATIVE_MEMBER(Data, void*, data_);
ET_NATIVE_MEMBER(Sizes, int64_t*, sizes_);
ET_NATIVE_MEMBER(Strides, int64_t*, strides_);
ET_NATIVE_MEMBER(DimOrder, const uint8_t*, dim_order_);
ET_NATIVE_MEMBER(Numel, int64_t, numel_);
ET_NATIVE_MEMBER(Capacity, size_t, capacity_);
ET_NATIVE_MEMBER(Dim, uint8_t, dim_);
ET_NATIVE_MEMBER(Dtype, ScalarType, dtype_);
ET_NATIVE_MEMBER(ReadOnly, bool, read_only_);
#undef ET_NATIVE_MEMBER

}  // namespace detail

/// Sizes that never change, and how such tensors lie in memory.
template <size_t Rank>
struct Shape {
  int64_t sizes[Rank == 0 ? 1 : Rank];
  int64_t strides[Rank == 0 ? 1 : Rank];
  uint8_t dim_order[Rank == 0 ? 1 : Rank];
};

/// A tensor in constant memory. Kernels change nothing of one whose sizes are static.
class StaticTensor {
 public:
  template <size_t Rank>
  constexpr StaticTensor(ScalarType dtype, const Shape<Rank>& shape, void* data)
      : StaticTensor(dtype, shape, data, false) {}
  template <size_t Rank>
  constexpr StaticTensor(ScalarType dtype, const Shape<Rank>& shape, const void* data)
      : StaticTensor(dtype, shape, const_cast<void*>(data), true) {}

  operator Tensor() const { return Tensor(const_cast<TensorImpl*>(&impl_)); }  // NOLINT(google-explicit-constructor)

 private:
  template <size_t Rank>
  constexpr StaticTensor(ScalarType dtype, const Shape<Rank>& shape, void* data, bool is_constant) : impl_() {
    int64_t numel = 1;
    for (size_t d = 0; d < Rank; ++d) {
      numel *= shape.sizes[d];
    }
    impl_.*member(detail::Data()) = data;
    impl_.*member(detail::Sizes()) = const_cast<int64_t*>(shape.sizes);
    impl_.*member(detail::Strides()) = const_cast<int64_t*>(shape.strides);
    impl_.*member(detail::DimOrder()) = shape.dim_order;
    impl_.*member(detail::Numel()) = numel;
    impl_.*member(detail::Capacity()) = static_cast<size_t>(numel) * element_size(dtype);
    impl_.*member(detail::Dim()) = static_cast<uint8_t>(Rank);
    impl_.*member(detail::Dtype()) = dtype;
    impl_.*member(detail::ReadOnly()) = is_constant;
  }

  TensorImpl impl_;
};

/// An argument that a kernel writes: a named handle until the call is over.
class Out {
 public:
  explicit Out(Tensor tensor) : tensor_(tensor) {}
  operator Tensor&() { return tensor_; }  // NOLINT(google-explicit-constructor)

 private:
  Tensor tensor_;
};

/// Scratch memory of kernels, that keeps the most that was in use.
class Scratch final : public runtime::MemoryAllocator {
 public:
  Scratch(uint8_t* base, size_t size, size_t* most_used) : MemoryAllocator(base, size), most_used_(most_used) {}
  void reset() override {
    *most_used_ = used() > *most_used_ ? used() : *most_used_;
    MemoryAllocator::reset();
  }

 private:
  size_t* most_used_;
};

/// Calls a kernel that takes its arguments boxed (kernels/prim); numbers among them are replaced.
template <typename... Values>
Error boxed(runtime::KernelRun run, KernelContext& context, const Values&... values) {
  EValue* const args[] = {const_cast<EValue*>(&values)...};
  return run(context, {args, sizeof...(values)}, nullptr);
}

/// Whether a branch is taken.
inline bool is_true(const EValue& value) { return value.number_as_bool(); }
inline bool is_true(Tensor tensor) { return *static_cast<const uint8_t*>(tensor.const_data_ptr()) != 0; }

}  // namespace et::native

/// One call of a kernel in a method, which ends with its error.
#define ET_STEP(name, ...)                                     \
  do {                                                         \
    if (const Error error = __VA_ARGS__; error != Error::Ok) { \
      return failed(name, error);                              \
    }                                                          \
    context.reset_temp();                                      \
  } while (false)
