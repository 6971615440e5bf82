#include "backends/xnnpack/runtime/unpacked_filters.h"

#include <algorithm>
#include <functional>

namespace et::backends::xnnpack {
namespace {

/// Between addresses of filters in the block.
constexpr size_t kStep = 64;

/// Matrix products and general convolutions. The library packs the filters of depthwise ones, which it also makes of
/// convolutions with one channel a group, and of transposed ones without a look whether they are there.
bool looks_before_it_packs(const Node& node) {
  return node.type->form == NodeForm::kFullyConnected ||
         (node.type->form == NodeForm::kConvolution && node.as<payload::Convolution>().group_input_channels() > 1);
}

}  // namespace

Error UnpackedFilters::allocate(size_t nbytes, uint8_t** memory) {
  *memory = static_cast<uint8_t*>(memory_.allocate(nbytes + XNN_EXTRA_BYTES, kStep));
  ET_CHECK_OR_RETURN(*memory != nullptr, MemoryAllocationFailed,
                     "xnnpack delegate: no memory for a filter of %zu bytes", nbytes);
  return Error::Ok;
}

Error UnpackedFilters::prepare(bool has_cache) {
  filters_.resize(model_.sparse.size());
  for (const Node& node : model_.nodes) {
    for (uint32_t i = 0; i < node.num_inputs; ++i) {
      const uint32_t position = model_.values[node.inputs[i]].sparse;
      if (position != kDense) {
        filters_[position].is_shared = filters_[position].is_shared && has_cache && looks_before_it_packs(node);
      }
    }
  }
  size_t largest = 0;
  for (size_t i = 0; i < filters_.size(); ++i) {
    largest = std::max(largest, filters_[i].is_shared ? model_.sparse[i].bytes.nbytes() : 0);
  }
  if (largest > 0) {
    ET_RETURN_IF_ERROR(allocate(largest + kStep * filters_.size(), &block_));
  }
  for (const Value& value : model_.values) {
    if (value.sparse == kDense || filters_[value.sparse].data != nullptr) {
      continue;
    }
    Filter& filter = filters_[value.sparse];
    if (filter.is_shared) {
      filter.data = block_ + kStep * value.sparse;
    } else {
      ET_RETURN_IF_ERROR(allocate(model_.sparse[value.sparse].bytes.nbytes(), &filter.data));
      unpack_to(value.sparse);
    }
    by_address_.emplace_back(filter.data, value.sparse);
  }
  std::sort(by_address_.begin(), by_address_.end(),
            [](const auto& a, const auto& b) { return std::less<const void*>()(a.first, b.first); });
  return Error::Ok;
}

const void* UnpackedFilters::data_of(const Value& value) const {
  return value.sparse == kDense ? value.data : filters_[value.sparse].data;
}

uint32_t UnpackedFilters::position_of(const void* data) const {
  const auto found = std::lower_bound(by_address_.begin(), by_address_.end(), data, [](const auto& a, const void* b) {
    return std::less<const void*>()(a.first, b);
  });
  return found == by_address_.end() || found->first != data ? kDense : found->second;
}

const void* UnpackedFilters::name_of(const void* data) const {
  const uint32_t position = position_of(data);
  return position == kDense ? data : model_.sparse[position].buffer.data();
}

void UnpackedFilters::unpack_to(uint32_t position) {
  const SparseConstant& source = model_.sparse[position];
  unpack(source.bytes, filters_[position].data);
  if (named_data_ != nullptr) {
    named_data_->discard(source.buffer.data(), source.buffer.size());
  }
}

void UnpackedFilters::write(const void* data) {
  const uint32_t position = position_of(data);
  if (position != kDense && filters_[position].is_shared) {
    unpack_to(position);
    in_block_ = position;
  }
}

bool UnpackedFilters::packed(const void* data) {
  const uint32_t position = position_of(data);
  const bool is_right = position == kDense || !filters_[position].is_shared || in_block_ == position;
  was_missed_ = was_missed_ || !is_right;
  return is_right;
}

}  // namespace et::backends::xnnpack
