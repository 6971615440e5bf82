#include "backends/xnnpack/compiler/payload_writer.h"

#include <cstring>

#include "ir/content_key.h"
#include "numerics/float_bits.h"

namespace et::backends::xnnpack {
namespace {

constexpr uint16_t kHeaderSize = 30;
constexpr uint32_t kAlignment = 16;
constexpr uint64_t kIsNamed = UINT64_MAX;

/// What the zeros of a filter are zeros of. Those of 4-bit filters are no zero bytes.
ScalarType sparse_dtype_of(payload::Datatype datatype) {
  return datatype == payload::Datatype_fp32   ? ScalarType::Float
         : datatype == payload::Datatype_fp16 ? ScalarType::Half
                                              : ScalarType::Char;
}

/// What a shared part of the flatbuffer is; first in its description.
enum SharedPart : uint32_t { kDims, kPerTensor, kPerChannel, kPerGroup, kDynamic, kClamp };

template <typename T>
void put(std::string& bytes, size_t offset, T value) {
  std::memcpy(&bytes[offset], &value, sizeof(T));  // little-endian, as the machines that compile
}

}  // namespace

uint32_t PayloadWriter::add_value(const ValueSpec& spec, uint32_t external_id, uint32_t flags) {
  num_external_ += flags != 0 ? 1 : 0;
  return add_typed(spec, 0, external_id, flags);
}

uint32_t PayloadWriter::add_constant(const ValueSpec& spec, std::string bytes) {
  return add_typed(spec, add_bytes(std::move(bytes), spec.external_file), kInvalidId, 0);
}

uint32_t PayloadWriter::add_filter(const ValueSpec& spec, std::string bytes) {
  return add_typed(spec, add_bytes(std::move(bytes), spec.external_file, sparse_dtype_of(spec.datatype)), kInvalidId,
                   0);
}

uint32_t PayloadWriter::add_typed(const ValueSpec& spec, uint32_t constant, uint32_t external_id, uint32_t flags) {
  const uint32_t id = next_id_++;
  std::vector<uint32_t> description{kDims};
  description.insert(description.end(), spec.dims.begin(), spec.dims.end());
  const flatbuffers::Offset<flatbuffers::Vector<uint32_t>> dims =
      shared(std::move(description), [&] { return builder.CreateVector(spec.dims); });
  const auto tensor = payload::CreateTensorValue(builder, spec.datatype, static_cast<uint32_t>(spec.dims.size()), dims,
                                                 constant, external_id, flags, id);
  const QuantSpec& quant = spec.quant;
  auto type = payload::QuantParams_NONE;
  flatbuffers::Offset<void> params;
  switch (spec.datatype) {
    case payload::Datatype_qint8:
    case payload::Datatype_quint8:
    case payload::Datatype_qint32:
      type = payload::QuantParams_PerTensorQuant;
      params = shared({kPerTensor, bits_of(quant.scale), static_cast<uint32_t>(quant.zero_point)},
                      [&] { return payload::CreatePerTensorQuant(builder, quant.scale, quant.zero_point); });
      break;
    case payload::Datatype_qcint8:
    case payload::Datatype_qcint4:
    case payload::Datatype_qcint32: {
      type = payload::QuantParams_PerChannelQuant;
      const uint32_t scales = add_numbers(quant.channel_scales, spec.external_file);
      const auto num_scales = static_cast<uint32_t>(quant.channel_scales.size());
      params = shared({kPerChannel, static_cast<uint32_t>(quant.channel_dim), scales, num_scales}, [&] {
        return payload::CreatePerChannelQuantDirect(builder, nullptr, quant.channel_dim, scales, num_scales);
      });
      break;
    }
    case payload::Datatype_qbint4: {
      type = payload::QuantParams_PerChannelGroupQuant;
      const uint32_t scales = add_numbers(quant.group_scales, spec.external_file);
      const auto num_scales = static_cast<uint32_t>(quant.group_scales.size());
      const auto group_size = static_cast<uint32_t>(quant.group_size);
      params = shared({kPerGroup, static_cast<uint32_t>(quant.channel_dim), group_size, scales, num_scales}, [&] {
        return payload::CreatePerChannelGroupQuantDirect(builder, nullptr, quant.channel_dim, quant.group_size, nullptr,
                                                         scales, num_scales);
      });
      break;
    }
    case payload::Datatype_qdint8:
      type = payload::QuantParams_PerTokenDynamicQuant;
      params = shared({kDynamic, static_cast<uint32_t>(quant.num_nonbatch_dims)},
                      [&] { return payload::CreatePerTokenDynamicQuant(builder, quant.num_nonbatch_dims); });
      break;
    default: break;
  }
  if (type == payload::QuantParams_NONE) {
    values_.push_back(payload::CreateValue(builder, payload::ValueUnion_TensorValue, tensor.Union()));
  } else {
    const auto quantized = payload::CreateQuantizedTensorValue(builder, tensor, type, params);
    values_.push_back(payload::CreateValue(builder, payload::ValueUnion_QuantizedTensorValue, quantized.Union()));
  }
  return id;
}

uint32_t PayloadWriter::add_bytes(std::string bytes, const std::string& external_file,
                                  std::optional<ScalarType> sparse_dtype) {
  std::string key = ir::content_key(bytes);
  const auto [entry, is_new] = index_of_key_.emplace(key, static_cast<uint32_t>(constants_.size() + 1));
  if (is_new) {
    constants_.push_back({std::move(key), std::move(bytes), sparse_dtype, external_file});
  } else {
    constants_[entry->second - 1].share(sparse_dtype, external_file);
  }
  return entry->second;
}

void PayloadWriter::add_union(payload::NodeUnion type, flatbuffers::Offset<void> table, uint32_t debug_handle,
                              const Clamp* clamp) {
  handles_.insert(debug_handle);
  flatbuffers::Offset<payload::OutputMinMax> range;
  if (clamp != nullptr) {
    range = shared({kClamp, bits_of(clamp->min), bits_of(clamp->max)},
                   [&] { return payload::CreateOutputMinMax(builder, clamp->min, clamp->max); });
  }
  nodes_.push_back(payload::CreateNode(builder, type, table, debug_handle, range));
}

void PayloadWriter::finish(const std::vector<uint32_t>& inputs, const std::vector<uint32_t>& outputs,
                           passes::BackendPayload& out) {
  std::vector<flatbuffers::Offset<payload::ConstantDataOffset>> constants;
  constants.push_back(payload::CreateConstantDataOffsetDirect(builder, 0, 0, ""));  // reserved
  for (const ir::NamedData& constant : constants_) {
    const auto key = builder.CreateString(constant.key);
    const std::string& file = constant.external_file;
    constants.push_back(payload::CreateConstantDataOffset(builder, kIsNamed, constant.bytes.size(), key,
                                                          file.empty() ? 0 : builder.CreateSharedString(file)));
  }
  const auto root = payload::CreateGraphDirect(builder, "0", &nodes_, &values_, num_external_, &inputs, &outputs,
                                               nullptr, nullptr, &constants);
  payload::FinishGraphBuffer(builder, root);

  const uint32_t graph_offset = (kHeaderSize + kAlignment - 1) / kAlignment * kAlignment;
  const uint32_t graph_size = builder.GetSize();
  const uint32_t end = (graph_offset + graph_size + kAlignment - 1) / kAlignment * kAlignment;
  out.bytes.assign(end, '\0');
  out.bytes.replace(4, 4, "XH00");
  put(out.bytes, 8, kHeaderSize);
  put(out.bytes, 10, graph_offset);
  put(out.bytes, 14, graph_size);
  put(out.bytes, 18, end);  // no constants behind the graph
  put(out.bytes, 22, uint64_t{0});
  std::memcpy(&out.bytes[graph_offset], builder.GetBufferPointer(), graph_size);
  for (ir::NamedData& constant : constants_) {
    out.named_data.push_back(std::move(constant));
  }
}

}  // namespace et::backends::xnnpack
