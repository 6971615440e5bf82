#include "emit/flat_tensor.h"

#include "emit/data_pool.h"
#include "emit/file_head.h"
#include "schema/flat_tensor_generated.h"
#include "schema/pte_header.h"

namespace et::emit {

Error lay_out_flat_tensor(const ExternalConstants& constants, uint64_t alignment, File& file) {
  namespace ft = schema::flat_tensor;
  flatbuffers::FlatBufferBuilder builder;
  SegmentPool segments(alignment);
  std::vector<flatbuffers::Offset<ft::NamedData>> entries;
  for (const auto& [key, constant] : constants) {
    const uint32_t segment = segments.add_shared(constant->data, static_cast<uint64_t>(constant->type.max_nbytes()));
    std::vector<int32_t> sizes;
    for (const ir::Dim& dim : constant->type.dims) {
      sizes.push_back(static_cast<int32_t>(dim.max));
    }
    const auto layout = ft::CreateTensorLayoutDirect(builder, static_cast<schema::ScalarType>(constant->type.dtype),
                                                     &sizes, &constant->type.dim_order);
    entries.push_back(ft::CreateNamedDataDirect(builder, key.c_str(), segment, layout));
    file.keep_alive.push_back(constant->keep_alive);
  }
  std::vector<flatbuffers::Offset<ft::DataSegment>> table;
  for (const SegmentPool::Segment& segment : segments.segments()) {
    table.push_back(ft::CreateDataSegment(builder, segment.offset, segment.nbytes));
  }
  ft::FinishFlatTensorBuffer(builder, ft::CreateFlatTensorDirect(builder, 0, &table, &entries));

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
