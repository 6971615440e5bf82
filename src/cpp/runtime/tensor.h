/// Tensor: the runtime's view of an n-dimensional array.
///
/// For: kernels, delegates and the executor. An API subset of `at::Tensor` (same names, same meaning), so that kernels
///      that include "runtime/kernel_types.h" also compile in ATen mode.
/// Not for: owning memory. A TensorImpl describes bytes that an arena, a file or the caller owns.
///
///     Tensor t(&impl);
///     float* data = t.mutable_data_ptr<float>();      // [t.size(0), t.size(1)]
///
/// A tensor is dense: its strides follow from sizes and dim_order (dimensions from outermost to innermost in memory).
/// Sizes are int64 as in ATen and DLPack, so nothing is converted at those borders.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/span.h"

namespace et::runtime {

using IntArrayRef = Span<const int64_t>;

/// Highest rank of a tensor, in files and at run time.
inline constexpr size_t kMaxRank = 16;
/// Bytes that kernels of libraries, which read whole vectors, may read past a tensor's last one. Hosts set them aside.
inline constexpr size_t kReadAhead = 16;

/// How the sizes of a tensor may change. Numbers are the file format's.
enum class TensorShapeDynamism : uint8_t {
  kStatic = 0,          ///< Never.
  kDynamicBound = 1,    ///< Up to the sizes planned for (memory is set aside for the bound).
  kDynamicUnbound = 2,  ///< Data-dependent; memory comes from the method's allocator when it is known.
};

inline namespace lean {

/// The description behind a Tensor. sizes, strides and dim_order point at arrays of `dim` elements owned by whoever
/// made the TensorImpl (the Method's allocator).
class TensorImpl {
 public:
  TensorImpl() = default;
  /// `capacity` is the number of bytes at `data` (or to be at `data`), which bounds later resizes. Strides are
  /// computed.
  TensorImpl(ScalarType dtype, size_t dim, int64_t* sizes, int64_t* strides, const uint8_t* dim_order, void* data,
             size_t capacity, TensorShapeDynamism dynamism = TensorShapeDynamism::kStatic);

  ScalarType dtype() const { return dtype_; }
  size_t dim() const { return dim_; }
  IntArrayRef sizes() const { return {sizes_, dim_}; }
  IntArrayRef strides() const { return {strides_, dim_}; }
  Span<const uint8_t> dim_order() const { return {dim_order_, dim_}; }
  int64_t numel() const { return numel_; }
  size_t nbytes() const { return static_cast<size_t>(numel_) * element_size(dtype_); }
  size_t capacity() const { return capacity_; }
  TensorShapeDynamism dynamism() const { return dynamism_; }
  void* data() const { return data_; }
  /// True for constants of a program and views of them: an operator must not write here.
  bool read_only() const { return read_only_; }
  void set_read_only(bool read_only) { read_only_ = read_only; }

  /// Points the tensor at other memory of at least `capacity` bytes. Nothing is copied or freed.
  void set_data(void* data, size_t capacity) {
    data_ = data;
    capacity_ = capacity;
  }

  /// Changes the sizes (same rank) and recomputes strides and numel. The bytes stay as they are.
  /// Errors: NotSupported when the rank differs or a static tensor would change; InvalidArgument when a size is
  ///         negative; OutOfResources when the new sizes need more than capacity() bytes (the tensor is unchanged).
  Error resize(IntArrayRef sizes);

 private:
  void* data_ = nullptr;
  int64_t* sizes_ = nullptr;            // [dim]
  int64_t* strides_ = nullptr;          // [dim], in elements
  const uint8_t* dim_order_ = nullptr;  // [dim], outermost first
  int64_t numel_ = 0;
  size_t capacity_ = 0;  // bytes
  uint8_t dim_ = 0;
  ScalarType dtype_ = ScalarType::Byte;
  TensorShapeDynamism dynamism_ = TensorShapeDynamism::kStatic;
  bool read_only_ = false;
};

/// A handle to a TensorImpl; copying it copies the pointer. A default-made handle is undefined.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(TensorImpl* impl) : impl_(impl) {}

  bool defined() const { return impl_ != nullptr; }
  TensorImpl* unsafe_impl() const { return impl_; }

  ScalarType scalar_type() const { return impl_->dtype(); }
  int64_t dim() const { return static_cast<int64_t>(impl_->dim()); }
  int64_t numel() const { return impl_->numel(); }
  size_t nbytes() const { return impl_->nbytes(); }
  size_t element_size() const { return et::element_size(impl_->dtype()); }
  IntArrayRef sizes() const { return impl_->sizes(); }
  IntArrayRef strides() const { return impl_->strides(); }
  /// Size of dimension `d` in [-dim, dim).
  int64_t size(int64_t d) const { return impl_->sizes()[static_cast<size_t>(d < 0 ? d + dim() : d)]; }
  int64_t stride(int64_t d) const { return impl_->strides()[static_cast<size_t>(d < 0 ? d + dim() : d)]; }

  const void* const_data_ptr() const { return impl_->data(); }
  void* mutable_data_ptr() const { return impl_->data(); }
  /// The elements as T. The dtype must be T's (checked in debug builds).
  template <typename T>
  const T* const_data_ptr() const {
    ET_DCHECK(dtype_of<T> == scalar_type());
    return static_cast<const T*>(impl_->data());
  }
  template <typename T>
  T* mutable_data_ptr() const {
    ET_DCHECK(dtype_of<T> == scalar_type());
    return static_cast<T*>(impl_->data());
  }

 private:
  TensorImpl* impl_ = nullptr;
};

/// Memory order of the dimensions, outermost first. A free function because at::Tensor has no such member.
inline Span<const uint8_t> dim_order(const Tensor& tensor) { return tensor.unsafe_impl()->dim_order(); }

/// True when dim_order is 0, 1, 2, … (row-major), which is what portable kernels take.
bool is_contiguous_dim_order(Span<const uint8_t> dim_order);
/// True when dim_order is 0, 2, 3, …, rank-1, 1 (channels innermost; rank 3, 4 or 5).
bool is_channels_last_dim_order(Span<const uint8_t> dim_order);

/// Writes the strides (in elements) of dense `sizes` in `dim_order` to `strides`. All three have the same length.
void strides_from_dim_order(IntArrayRef sizes, Span<const uint8_t> dim_order, int64_t* strides);

}  // namespace lean
}  // namespace et::runtime
