#include "extension/tensor/tensor_ptr.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <numeric>

#include "base/checked_math.h"
#include "base/tensor_text.h"
#include "base/visit_dtype.h"
#include "runtime/host/out_of_memory.h"
#include "runtime/platform.h"

namespace et::extension {
namespace {

using runtime::kMaxRank;
using runtime::TensorImpl;

/// A tensor and everything it stands on.
struct Storage {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  std::vector<uint8_t> dim_order;
  std::shared_ptr<void> owner;
  TensorImpl impl;
  Tensor tensor;
};

/// Dimensions by falling stride, of equal ones the first: the order in which they lie in memory, if the tensor is
/// dense.
std::vector<uint8_t> order_of(const std::vector<int64_t>& strides) {
  std::vector<uint8_t> order(strides.size());
  std::iota(order.begin(), order.end(), uint8_t{0});
  std::stable_sort(order.begin(), order.end(), [&](uint8_t a, uint8_t b) { return strides[a] > strides[b]; });
  return order;
}

bool is_order(const std::vector<uint8_t>& order, size_t rank) {
  std::vector<uint8_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] != i) {
      return false;
    }
  }
  return order.size() == rank;
}

/// The bytes of a tensor. Errors: InvalidArgument, negative sizes, or more than a machine has.
Result<size_t> nbytes_of(const Layout& layout) {
  size_t nbytes = element_size(layout.dtype);
  bool is_empty = false, overflows = false;
  for (const int64_t size : layout.sizes) {
    ET_CHECK_OR_RETURN(size >= 0, InvalidArgument, "a tensor cannot be made: a size of %s is negative",
                       ShapeText(layout.sizes).text);
    is_empty = is_empty || size == 0;
    overflows = overflows || mul_overflow(nbytes, static_cast<size_t>(std::max<int64_t>(size, 1)), &nbytes);
  }
  ET_CHECK_OR_RETURN(!overflows && nbytes <= SIZE_MAX / 4, InvalidArgument,
                     "a tensor cannot be made: sizes %s are more than a machine has memory for",
                     ShapeText(layout.sizes).text);
  return is_empty ? 0 : nbytes;
}

/// Checks the layout, gives it a dim_order when it has none, and returns the bytes that it takes.
Result<size_t> complete(Layout& layout) {
  runtime::platform_install_default_log();
  const size_t rank = layout.sizes.size();
  ET_CHECK_OR_RETURN(is_valid_dtype(static_cast<int64_t>(layout.dtype)), InvalidType,
                     "a tensor cannot be made: %d is no dtype", static_cast<int>(layout.dtype));
  ET_CHECK_OR_RETURN(rank <= kMaxRank, NotSupported,
                     "a tensor cannot be made: it has %zu dimensions, at most %zu are allowed", rank, kMaxRank);
  ET_TRY(const size_t nbytes, nbytes_of(layout));
  ET_CHECK_OR_RETURN(layout.strides.empty() || layout.strides.size() == rank, InvalidArgument,
                     "a tensor cannot be made: sizes %s and strides %s are of different length",
                     ShapeText(layout.sizes).text, ShapeText(layout.strides).text);
  if (layout.dim_order.empty() && !layout.strides.empty()) {
    layout.dim_order = order_of(layout.strides);
  } else if (layout.dim_order.empty()) {
    layout.dim_order.resize(rank);
    std::iota(layout.dim_order.begin(), layout.dim_order.end(), uint8_t{0});
  }
  ET_CHECK_OR_RETURN(is_order(layout.dim_order, rank), InvalidArgument,
                     "a tensor cannot be made: its dim_order must name each of %zu dimensions once", rank);
  std::vector<int64_t> dense(rank);
  runtime::strides_from_dim_order(layout.sizes, layout.dim_order, dense.data());
  for (size_t d = 0; d < layout.strides.size(); ++d) {
    ET_CHECK_OR_RETURN(nbytes == 0 || layout.sizes[d] == 1 || layout.strides[d] == dense[d], NotSupported,
                       "a tensor cannot be made: strides %s are not those of a dense tensor of sizes %s, which are %s; "
                       "copy the elements first",
                       ShapeText(layout.strides).text, ShapeText(layout.sizes).text, ShapeText(dense).text);
  }
  return nbytes;
}

/// Memory for elements, zeros; null without a message when there is none.
std::shared_ptr<void> allocate(size_t nbytes) {
  constexpr size_t kAlignment = 64;
  const size_t rounded = (nbytes + runtime::kReadAhead + kAlignment - 1) / kAlignment * kAlignment;
  void* const memory = std::aligned_alloc(kAlignment, rounded);
  if (memory == nullptr) {
    ET_LOG_ERROR("a tensor cannot be made: the system gives no %zu bytes", nbytes);
    return nullptr;
  }
  std::memset(memory, 0, rounded);
  return {memory, &std::free};
}

/// One element as the widest number, which holds every value of every real dtype.
template <typename T>
long double read_as(const void* from, size_t i) {
  if constexpr (is_complex(dtype_of<T>)) {
    return 0;
  } else {
    return static_cast<long double>(static_cast<const T*>(from)[i]);
  }
}

long double read(ScalarType dtype, const void* from, size_t i) {
  return visit_dtype(dtype, [&](auto zero) { return read_as<decltype(zero)>(from, i); });
}

/// False when the type cannot hold the value.
template <typename T>
bool write_as(long double value, void* to, size_t i) {
  T* const place = static_cast<T*>(to) + i;
  if constexpr (is_complex(dtype_of<T>)) {
    return false;
  } else if constexpr (std::is_same_v<T, bool>) {
    *place = value != 0;
  } else if constexpr (std::is_integral_v<T>) {
    const long double whole = std::trunc(value);
    if (!(whole >= static_cast<long double>(std::numeric_limits<T>::min()) &&
          whole <= static_cast<long double>(std::numeric_limits<T>::max()))) {
      return false;
    }
    *place = static_cast<T>(whole);
  } else if constexpr (std::is_floating_point_v<T>) {
    *place = static_cast<T>(value);
  } else {
    *place = T(static_cast<float>(value));
  }
  return true;
}

bool write(ScalarType dtype, long double number, void* to, size_t i) {
  return visit_dtype(dtype, [&](auto zero) { return write_as<decltype(zero)>(number, to, i); });
}

Layout layout_of(const Tensor& tensor, Sizes sizes, std::vector<uint8_t> dim_order, std::vector<int64_t> strides) {
  Layout layout{tensor.sizes(), {}, {}, tensor.scalar_type()};
  if (sizes.empty() && dim_order.empty() && strides.empty()) {
    const Span<const uint8_t> order = runtime::dim_order(tensor);
    layout.dim_order.assign(order.begin(), order.end());
  }
  if (!sizes.empty()) {
    layout.sizes = std::move(sizes);
  }
  if (!dim_order.empty()) {
    layout.dim_order = std::move(dim_order);
  }
  layout.strides = std::move(strides);
  return layout;
}

TensorPtr view(const Tensor& tensor, std::shared_ptr<void> owner, Layout layout) {
  TensorPtr made = make_tensor(std::move(layout), std::move(owner), tensor.mutable_data_ptr(), std::nullopt);
  if (made != nullptr && made->nbytes() > tensor.nbytes()) {
    ET_LOG_ERROR("a view cannot be made: %s has more elements than %s", describe(*made).c_str(),
                 describe(tensor).c_str());
    return nullptr;
  }
  if (made != nullptr) {
    made->unsafe_impl()->set_read_only(tensor.unsafe_impl()->read_only());
  }
  return made;
}

bool is_there(const Tensor* tensor) {
  runtime::platform_install_default_log();
  const bool there = tensor != nullptr && tensor->defined();
  if (!there) {
    ET_LOG_ERROR("the tensor given is null");
  }
  return there;
}

TensorPtr no_tensor(const std::bad_alloc& fault) {
  ET_LOG_ERROR("a tensor cannot be made: no memory for %s of its sizes", runtime::RequestText(fault).text);
  return nullptr;
}

}  // namespace

std::string describe(const Tensor& tensor) {
  return tensor.defined() ? TensorText(tensor.scalar_type(), tensor.sizes()).text : "an undefined tensor";
}

Error convert_elements(ScalarType from, const void* source, ScalarType to, void* destination, size_t count) {
  if (from == to) {
    if (count > 0) {
      std::memcpy(destination, source, count * element_size(to));
    }
    return Error::Ok;
  }
  ET_CHECK_OR_RETURN(!is_complex(from) && !is_complex(to), NotSupported, "%s elements cannot be converted to %s",
                     to_string(from), to_string(to));
  for (size_t i = 0; i < count; ++i) {
    const long double number = read(from, source, i);
    ET_CHECK_OR_RETURN(write(to, number, destination, i), InvalidArgument, "element %zu is %Lg, which %s cannot hold",
                       i, number, to_string(to));
  }
  return Error::Ok;
}

TensorPtr make_tensor(Layout layout, std::shared_ptr<void> owner, void* data, std::optional<size_t> given) try {
  const Result<size_t> nbytes = complete(layout);
  if (!nbytes.ok()) {
    return nullptr;
  }
  const auto storage = std::make_shared<Storage>();
  storage->sizes = std::move(layout.sizes);
  storage->strides.resize(storage->sizes.size());
  storage->dim_order = std::move(layout.dim_order);
  storage->owner = std::move(owner);
  storage->impl = TensorImpl(layout.dtype, storage->sizes.size(), storage->sizes.data(), storage->strides.data(),
                             storage->dim_order.data(), data, *nbytes, layout.dynamism);
  storage->tensor = Tensor(&storage->impl);
  const size_t alignment = std::min(element_size(layout.dtype), alignof(double));
  if (given && *given != *nbytes) {
    ET_LOG_ERROR("a tensor cannot be made: %s takes %zu bytes, %zu were given", describe(storage->tensor).c_str(),
                 *nbytes, *given);
    return nullptr;
  }
  if (*nbytes > 0 && data == nullptr) {
    ET_LOG_ERROR("a tensor cannot be made: %s was given no memory", describe(storage->tensor).c_str());
    return nullptr;
  }
  if (*nbytes > 0 && reinterpret_cast<uintptr_t>(data) % alignment != 0) {
    ET_LOG_ERROR("a tensor cannot be made: %s was given memory at %p, which must be a multiple of %zu",
                 describe(storage->tensor).c_str(), data, alignment);
    return nullptr;
  }
  return TensorPtr(storage, &storage->tensor);
} catch (const std::bad_alloc& fault) {
  return no_tensor(fault);
}

TensorPtr make_zeros(Layout layout) try {
  const Result<size_t> nbytes = complete(layout);
  std::shared_ptr<void> memory = nbytes.ok() ? allocate(*nbytes) : nullptr;
  void* const place = memory.get();
  return memory == nullptr ? nullptr : make_tensor(std::move(layout), std::move(memory), place, *nbytes);
} catch (const std::bad_alloc& fault) {
  return no_tensor(fault);
}

TensorPtr make_tensor_of(Layout layout, ScalarType from, const void* data, size_t count) {
  TensorPtr made = make_zeros(std::move(layout));
  if (made != nullptr && static_cast<size_t>(made->numel()) != count) {
    ET_LOG_ERROR("a tensor cannot be made: %s has %" PRId64 " elements, %zu were given", describe(*made).c_str(),
                 made->numel(), count);
    return nullptr;
  }
  if (made == nullptr ||
      convert_elements(from, data, made->scalar_type(), made->mutable_data_ptr(), count) != Error::Ok) {
    return nullptr;
  }
  return made;
}

TensorPtr make_tensor_ptr(Sizes sizes, void* data, std::vector<DimOrderType> dim_order,
                          std::vector<StridesType> strides, ScalarType dtype, TensorShapeDynamism dynamism,
                          std::function<void(void*)> deleter) try {
  std::shared_ptr<void> owner;
  if (deleter) {
    owner = {data, std::move(deleter)};
  }
  return make_tensor({std::move(sizes), std::move(dim_order), std::move(strides), dtype, dynamism}, std::move(owner),
                     data, std::nullopt);
} catch (const std::bad_alloc& fault) {
  return no_tensor(fault);
}

TensorPtr make_tensor_ptr(Sizes sizes, void* data, ScalarType dtype, TensorShapeDynamism dynamism,
                          std::function<void(void*)> deleter) {
  return make_tensor_ptr(std::move(sizes), data, {}, {}, dtype, dynamism, std::move(deleter));
}

TensorPtr make_tensor_ptr(const Tensor& tensor, Sizes sizes, std::vector<DimOrderType> dim_order,
                          std::vector<StridesType> strides) try {
  return is_there(&tensor)
             ? view(tensor, nullptr, layout_of(tensor, std::move(sizes), std::move(dim_order), std::move(strides)))
             : nullptr;
} catch (const std::bad_alloc& fault) {
  return no_tensor(fault);
}

TensorPtr make_tensor_ptr(const TensorPtr& tensor, Sizes sizes, std::vector<DimOrderType> dim_order,
                          std::vector<StridesType> strides) try {
  return is_there(tensor.get())
             ? view(*tensor, tensor, layout_of(*tensor, std::move(sizes), std::move(dim_order), std::move(strides)))
             : nullptr;
} catch (const std::bad_alloc& fault) {
  return no_tensor(fault);
}

TensorPtr clone_tensor_ptr(const Tensor& tensor, std::optional<ScalarType> dtype) try {
  if (!is_there(&tensor)) {
    return nullptr;
  }
  Layout layout = layout_of(tensor, {}, {}, {});
  layout.dtype = dtype.value_or(layout.dtype);
  return make_tensor_of(std::move(layout), tensor.scalar_type(), tensor.const_data_ptr(),
                        static_cast<size_t>(tensor.numel()));
} catch (const std::bad_alloc& fault) {
  return no_tensor(fault);
}

TensorPtr clone_tensor_ptr(const TensorPtr& tensor, std::optional<ScalarType> dtype) {
  return is_there(tensor.get()) ? clone_tensor_ptr(*tensor, dtype) : nullptr;
}

Error resize_tensor_ptr(const TensorPtr& tensor, const Sizes& sizes) {
  if (!is_there(tensor.get())) {
    return Error::InvalidArgument;
  }
  return tensor->unsafe_impl()->resize(sizes);
}

}  // namespace et::extension
