#include "emit/flat_tensor.h"

#include "emit/data_pool.h"
#include "emit/file_head.h"
#include "schema/flat_tensor_generated.h"
#include "schema/pte_header.h"

namespace et::emit {

Error lay_out_flat_tensor(const ExternalEntries& entries, uint64_t alignment, File& file) {
  namespace ft = schema::flat_tensor;
  flatbuffers::FlatBufferBuilder builder;
  SegmentPool segments(alignment);
  std::vector<flatbuffers::Offset<ft::NamedData>> named;
  for (const auto& [key, entry] : entries) {
    const uint32_t segment = segments.add_shared(entry.data, entry.nbytes);
    flatbuffers::Offset<ft::TensorLayout> layout;
    if (entry.tensor != nullptr) {
      const ir::TensorType& type = entry.tensor->type;
      std::vector<int32_t> sizes;
      for (const ir::Dim& dim : type.dims) {
        sizes.push_back(static_cast<int32_t>(dim.max));
      }
      layout =
          ft::CreateTensorLayoutDirect(builder, static_cast<schema::ScalarType>(type.dtype), &sizes, &type.dim_order);
      file.keep_alive.push_back(entry.tensor->keep_alive);
    }
    named.push_back(ft::CreateNamedDataDirect(builder, key.c_str(), segment, layout));
  }
  std::vector<flatbuffers::Offset<ft::DataSegment>> table;
  for (const SegmentPool::Segment& segment : segments.segments()) {
    table.push_back(ft::CreateDataSegment(builder, segment.offset, segment.nbytes));
  }
  ft::FinishFlatTensorBuffer(builder, ft::CreateFlatTensorDirect(builder, 0, &table, &named));

  ET_RETURN_IF_ERROR(insert_header(builder, schema::kFlatTensorHeaderLength, file.head));
  schema::FileLayout layout;
  layout.flatbuffer_size = file.head.size();
  layout.segment_base_offset = align_up(file.head.size(), alignment);
  layout.segment_data_size = segments.nbytes();
  schema::write_flat_tensor_header(layout, file.head.data() + schema::kHeaderOffset);
  append_segments(segments, layout.segment_base_offset, file);
  return Error::Ok;
}

}  // namespace et::emit
