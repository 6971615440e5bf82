#include "runtime/flat_tensor_data_map.h"

#include "base/checked_math.h"
#include "runtime/program_verifier.h"
#include "schema/flat_tensor_generated.h"
#include "schema/flat_tensor_layout.h"

namespace et::runtime {
namespace {

namespace fb = schema::flat_tensor;

/// True when the layout describes a dense tensor of exactly `nbytes` bytes.
bool is_layout_valid(const fb::TensorLayout& layout, uint64_t nbytes) {
  const Span<const int32_t> sizes = span(layout.sizes());
  const Span<const uint8_t> dim_order = span(layout.dim_order());
  if (!is_valid_dtype(layout.scalar_type()) || sizes.size() > kMaxRank || dim_order.size() != sizes.size()) {
    return false;
  }
  uint64_t needed = element_size(static_cast<ScalarType>(layout.scalar_type()));
  uint32_t seen = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] < 0 || dim_order[d] >= kMaxRank || mul_overflow(needed, static_cast<uint64_t>(sizes[d]), &needed)) {
      return false;
    }
    seen |= 1u << dim_order[d];
  }
  return seen == (1u << sizes.size()) - 1 && needed == nbytes;
}

}  // namespace

Result<FlatTensorDataMap> FlatTensorDataMap::load(DataLoader* loader) {
  const size_t file_size = loader->size();
  const size_t prefix_size = file_size < schema::kHeaderPrefixSize ? file_size : schema::kHeaderPrefixSize;
  ET_TRY(const FreeableBuffer prefix, loader->load(0, prefix_size));
  ET_TRY(const schema::FileLayout layout, schema::parse_flat_tensor_header({prefix.data(), prefix.size()}, file_size));

  FlatTensorDataMap map;
  map.loader_ = loader;
  map.segment_base_ = layout.segment_base_offset;
  ET_TRY(map.bytes_, loader->load(0, static_cast<size_t>(layout.flatbuffer_size)));
  ET_CHECK_OR_RETURN(reinterpret_cast<uintptr_t>(map.bytes_.data()) % 16 == 0 &&
                         schema::verify_tables({map.bytes_.data(), map.bytes_.size()}, fb::kFlatTensorLayouts),
                     InvalidExternalData, "the tables of the .ptd are damaged, or its bytes are not aligned to 16");
  map.tables_ = fb::GetFlatTensor(map.bytes_.data());
  const fb::FlatTensor& tables = *map.tables_;
  ET_CHECK_OR_RETURN(tables.version() == 0, InvalidExternalData,
                     "the .ptd has version %u, this runtime reads version 0", tables.version());
  for (uint32_t i = 0; i < count(tables.segments()); ++i) {
    const fb::DataSegment* s = tables.segments()->Get(i);
    ET_CHECK_OR_RETURN(s->offset() <= layout.segment_data_size && s->size() <= layout.segment_data_size - s->offset(),
                       InvalidExternalData,
                       "segment %u of the .ptd: %" PRIu64 " bytes at %" PRIu64 ", there are %" PRIu64 "; it is cut off",
                       i, s->size(), s->offset(), layout.segment_data_size);
  }
  WorkBudget budget(layout.flatbuffer_size);
  for (uint32_t i = 0; i < count(tables.named_data()); ++i) {
    const fb::NamedData* data = tables.named_data()->Get(i);
    ET_CHECK_OR_RETURN(budget.is_name(data->key()) && data->segment_index() < count(tables.segments()),
                       InvalidExternalData, "entry %u of the .ptd has no name, or a segment that does not exist", i);
    ET_CHECK_OR_RETURN(
        data->tensor_layout() == nullptr ||
            is_layout_valid(*data->tensor_layout(), tables.segments()->Get(data->segment_index())->size()),
        InvalidExternalData, "entry '%s' of the .ptd: dtype, sizes or dim_order do not fit its bytes",
        data->key()->c_str());
  }
  return map;
}

Result<FreeableBuffer> FlatTensorDataMap::get(std::string_view key) const {
  const int64_t index = index_of(key);
  ET_CHECK_OR_RETURN(index >= 0, NotFound, "the .ptd has no entry '%.*s'", static_cast<int>(key.size()), key.data());
  const fb::DataSegment* s =
      tables_->segments()->Get(tables_->named_data()->Get(static_cast<uint32_t>(index))->segment_index());
  size_t offset;
  size_t nbytes;
  ET_CHECK_OR_RETURN(!narrow_overflow(segment_base_ + s->offset(), &offset) && !narrow_overflow(s->size(), &nbytes),
                     NotSupported, "entry '%.*s' does not fit this machine's address space",
                     static_cast<int>(key.size()), key.data());
  return loader_->load(offset, nbytes);
}

size_t FlatTensorDataMap::num_entries() const { return count(tables_->named_data()); }

NamedDataEntry FlatTensorDataMap::entry(size_t i) const {
  const fb::NamedData* data = tables_->named_data()->Get(static_cast<uint32_t>(i));
  NamedDataEntry entry;
  entry.key = view(data->key());
  entry.nbytes = tables_->segments()->Get(data->segment_index())->size();
  if (data->tensor_layout() != nullptr) {
    entry.is_tensor = true;
    entry.layout.dtype = static_cast<ScalarType>(data->tensor_layout()->scalar_type());
    entry.layout.sizes = span(data->tensor_layout()->sizes());
    entry.layout.dim_order = span(data->tensor_layout()->dim_order());
  }
  return entry;
}

}  // namespace et::runtime
