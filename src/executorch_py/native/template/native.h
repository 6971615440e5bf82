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
ET_NATIVE_MEMBER(Dynamism, runtime::TensorShapeDynamism, dynamism_);
ET_NATIVE_MEMBER(ReadOnly, bool, read_only_);
#undef ET_NATIVE_MEMBER

}  // namespace detail

/// Sizes, the largest where they change, and how such tensors lie in memory.
template <size_t Rank>
struct Shape {
  int64_t sizes[Rank == 0 ? 1 : Rank];
  int64_t strides[Rank == 0 ? 1 : Rank];
  uint8_t dim_order[Rank == 0 ? 1 : Rank];
};

namespace detail {

template <size_t Rank>
constexpr TensorImpl described(ScalarType dtype, const Shape<Rank>& shape, const void* data, bool is_constant,
                               runtime::TensorShapeDynamism dynamism) {
  TensorImpl impl;
  int64_t numel = 1;
  for (size_t d = 0; d < Rank; ++d) {
    numel *= shape.sizes[d];
  }
  impl.*member(Data()) = const_cast<void*>(data);
  impl.*member(Sizes()) = const_cast<int64_t*>(shape.sizes);
  impl.*member(Strides()) = const_cast<int64_t*>(shape.strides);
  impl.*member(DimOrder()) = shape.dim_order;
  impl.*member(Numel()) = numel;
  impl.*member(Capacity()) = static_cast<size_t>(numel) * element_size(dtype);
  impl.*member(Dim()) = static_cast<uint8_t>(Rank);
  impl.*member(Dtype()) = dtype;
  impl.*member(Dynamism()) = dynamism;
  impl.*member(ReadOnly()) = is_constant;
  return impl;
}

}  // namespace detail

/// A tensor in constant memory. Kernels change nothing of one whose sizes are static.
class StaticTensor {
 public:
  template <size_t Rank>
  constexpr StaticTensor(ScalarType dtype, const Shape<Rank>& shape, void* data)
      : impl_(detail::described(dtype, shape, data, false, runtime::TensorShapeDynamism::kStatic)) {}
  template <size_t Rank>
  constexpr StaticTensor(ScalarType dtype, const Shape<Rank>& shape, const void* data)
      : impl_(detail::described(dtype, shape, data, true, runtime::TensorShapeDynamism::kStatic)) {}

  operator Tensor() const { return Tensor(const_cast<TensorImpl*>(&impl_)); }  // NOLINT(google-explicit-constructor)

 private:
  TensorImpl impl_;
};

/// A tensor in RAM: its sizes change, up to those that it begins with, or it becomes a view of another one.
template <size_t Rank>
class DynamicTensor {
 public:
  constexpr DynamicTensor(ScalarType dtype, const Shape<Rank>& shape, void* data, bool has_other_sizes)
      : shape_(shape),
        impl_(detail::described(
            dtype, shape_, data, false,
            has_other_sizes ? runtime::TensorShapeDynamism::kDynamicBound : runtime::TensorShapeDynamism::kStatic)) {}
  DynamicTensor(const DynamicTensor&) = delete;
  DynamicTensor& operator=(const DynamicTensor&) = delete;

  operator Tensor() { return Tensor(&impl_); }  // NOLINT(google-explicit-constructor)

 private:
  Shape<Rank> shape_;
  TensorImpl impl_;
};

/// Gives an input sizes, each at most its bound, or equal to it where its bit in `dynamic` is 0.
/// Errors: InvalidArgument; the tensor is unchanged.
template <size_t Rank>
Error resize_input(Tensor input, const int64_t* sizes, const Shape<Rank>& bounds, uint32_t dynamic) {
  for (size_t d = 0; d < Rank; ++d) {
    const int64_t bound = bounds.sizes[d];
    if (sizes[d] < 0 || sizes[d] > bound || (sizes[d] != bound && (dynamic >> d & 1) == 0)) {
      return Error::InvalidArgument;
    }
  }
  return input.unsafe_impl()->resize({sizes, Rank});
}

/// Whether a size is scale * symbol + offset with a symbol in its range, and the same one as in the inputs before.
inline bool agrees(int64_t size, int64_t scale, int64_t offset, int64_t lower, int64_t upper, int64_t* symbol) {
  int64_t rest;
  if (__builtin_sub_overflow(size, offset, &rest) || rest % scale != 0) {
    return false;
  }
  const int64_t value = rest / scale;
  const bool fits = value >= lower && value <= upper && (*symbol == -1 || *symbol == value);
  *symbol = value;
  return fits;
}

/// A list of integers as kernels that take boxed arguments have it.
template <size_t Size>
class Ints {
 public:
  template <typename... Values>
  explicit Ints(const Values&... values) : values_{values...} {
    for (size_t i = 0; i < Size; ++i) {
      items_[i] = &values_[i];
    }
    list_ = {items_, cache_, Size, false};
  }
  Ints(const Ints&) = delete;
  EValue boxed() { return EValue(&list_); }  // until the end of the statement

 private:
  EValue values_[Size + 1];
  EValue* items_[Size + 1];
  int64_t cache_[Size + 1];
  runtime::BoxedList<int64_t> list_;
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
