#include "extension/tensor/tensor_ptr_maker.h"

#include <random>

namespace et::extension {
namespace {

/// One generator a thread, each begun somewhere else.
std::mt19937_64& generator() {
  static thread_local std::mt19937_64 instance{(uint64_t{std::random_device{}()} << 32) ^ std::random_device{}()};
  return instance;
}

/// Gives each element of a tensor, which may be null, what `next()` gives. Null when the dtype cannot hold it.
template <typename Next>
TensorPtr filled(TensorPtr tensor, Next next) {
  auto* element = tensor == nullptr ? nullptr : static_cast<uint8_t*>(tensor->mutable_data_ptr());
  for (int64_t i = 0; tensor != nullptr && i < tensor->numel(); ++i, element += tensor->element_size()) {
    const auto value = next();
    if (convert_elements(dtype_of<std::decay_t<decltype(value)>>, &value, tensor->scalar_type(), element, 1) !=
        Error::Ok) {
      return nullptr;
    }
  }
  return tensor;
}

template <typename Distribution>
TensorPtr drawn(TensorPtr tensor, Distribution distribution) {
  return filled(std::move(tensor), [&] { return distribution(generator()); });
}

TensorPtr uniform(TensorPtr tensor) { return drawn(std::move(tensor), std::uniform_real_distribution<float>(0, 1)); }

TensorPtr normal(TensorPtr tensor) { return drawn(std::move(tensor), std::normal_distribution<float>(0, 1)); }

TensorPtr integers(TensorPtr tensor, int64_t low, int64_t high) {
  if (low >= high) {
    ET_LOG_ERROR("randint: low %" PRId64 " must be less than high %" PRId64, low, high);
    return nullptr;
  }
  return drawn(std::move(tensor), std::uniform_int_distribution<int64_t>(low, high - 1));
}

}  // namespace

TensorPtr TensorPtrMaker::make_tensor_ptr() && {
  return extension::make_tensor_ptr(std::move(layout_.sizes), data_, std::move(layout_.dim_order),
                                    std::move(layout_.strides), layout_.dtype, layout_.dynamism, std::move(deleter_));
}

TensorPtr empty(Sizes sizes, ScalarType dtype, TensorShapeDynamism dynamism) {
  return make_zeros({std::move(sizes), {}, {}, dtype, dynamism});
}

TensorPtr empty_strided(Sizes sizes, std::vector<StridesType> strides, ScalarType dtype, TensorShapeDynamism dynamism) {
  return make_zeros({std::move(sizes), {}, std::move(strides), dtype, dynamism});
}

TensorPtr full(Sizes sizes, double value, ScalarType dtype, TensorShapeDynamism dynamism) {
  return filled(empty(std::move(sizes), dtype, dynamism), [value] { return value; });
}

TensorPtr zeros(Sizes sizes, ScalarType dtype, TensorShapeDynamism dynamism) {
  return empty(std::move(sizes), dtype, dynamism);
}

TensorPtr ones(Sizes sizes, ScalarType dtype, TensorShapeDynamism dynamism) {
  return full(std::move(sizes), 1, dtype, dynamism);
}

TensorPtr scalar_tensor(double value, ScalarType dtype) { return make_tensor_ptr(value, dtype); }

TensorPtr empty_like(const TensorPtr& tensor, std::optional<ScalarType> dtype) {
  const TensorPtr same = make_tensor_ptr(tensor);
  if (same == nullptr) {
    return nullptr;
  }
  const Span<const uint8_t> order = runtime::dim_order(*same);
  return make_zeros({same->sizes(), {order.begin(), order.end()}, {}, dtype.value_or(same->scalar_type())});
}

TensorPtr full_like(const TensorPtr& tensor, double value, std::optional<ScalarType> dtype) {
  return filled(empty_like(tensor, dtype), [value] { return value; });
}

TensorPtr zeros_like(const TensorPtr& tensor, std::optional<ScalarType> dtype) { return empty_like(tensor, dtype); }

TensorPtr ones_like(const TensorPtr& tensor, std::optional<ScalarType> dtype) { return full_like(tensor, 1, dtype); }

TensorPtr rand(Sizes sizes, ScalarType dtype) { return uniform(empty(std::move(sizes), dtype)); }

TensorPtr randn(Sizes sizes, ScalarType dtype) { return normal(empty(std::move(sizes), dtype)); }

TensorPtr randint(int64_t low, int64_t high, Sizes sizes, ScalarType dtype) {
  return integers(empty(std::move(sizes), dtype), low, high);
}

TensorPtr rand_like(const TensorPtr& tensor) { return uniform(empty_like(tensor)); }

TensorPtr randn_like(const TensorPtr& tensor) { return normal(empty_like(tensor)); }

TensorPtr randint_like(const TensorPtr& tensor, int64_t low, int64_t high) {
  return integers(empty_like(tensor), low, high);
}

}  // namespace et::extension
