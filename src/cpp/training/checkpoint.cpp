#include "training/checkpoint.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/checked_math.h"
#include "base/tensor_text.h"
#include "runtime/flat_tensor_data_map.h"
#include "runtime/host/file_loader.h"
#include "runtime/host/out_of_memory.h"
#include "schema/file_head.h"
#include "schema/flat_tensor_generated.h"

namespace et::training {

using runtime::Tensor;

namespace {

namespace ft = schema::flat_tensor;

/// The tables of a file, and where each tensor's bytes go behind them.
struct Layout {
  std::vector<uint8_t> head;
  std::vector<uint64_t> offsets;  // of each tensor, from the end of the aligned head
};

Result<Layout> lay_out(const NamedTensors& tensors) {
  constexpr uint64_t kAlignment = schema::kDefaultSegmentAlignment;
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<ft::DataSegment>> segments;
  std::vector<flatbuffers::Offset<ft::NamedData>> entries;
  Layout layout;
  uint64_t end = 0;
  for (const auto& [name, tensor] : tensors) {
    const std::vector<int32_t> sizes(tensor.sizes().begin(), tensor.sizes().end());
    const std::vector<uint8_t> order(dim_order(tensor).begin(), dim_order(tensor).end());
    const auto type =
        ft::CreateTensorLayoutDirect(builder, static_cast<schema::ScalarType>(tensor.scalar_type()), &sizes, &order);
    entries.push_back(ft::CreateNamedDataDirect(builder, name.c_str(), static_cast<uint32_t>(segments.size()), type));
    const uint64_t offset = (end + kAlignment - 1) / kAlignment * kAlignment;
    segments.push_back(ft::CreateDataSegment(builder, offset, tensor.nbytes()));
    layout.offsets.push_back(offset);
    end = offset + tensor.nbytes();
  }
  ft::FinishFlatTensorBuffer(builder, ft::CreateFlatTensorDirect(builder, 0, &segments, &entries));
  ET_RETURN_IF_ERROR(schema::insert_header(builder, schema::kFlatTensorHeaderLength, layout.head));
  schema::FileLayout file;
  file.flatbuffer_size = layout.head.size();
  file.segment_base_offset = (layout.head.size() + kAlignment - 1) / kAlignment * kAlignment;
  file.segment_data_size = end;
  schema::write_flat_tensor_header(file, layout.head.data() + schema::kHeaderOffset);
  layout.head.resize(file.segment_base_offset);
  return layout;
}

bool write_all(std::FILE* file, const Layout& layout, const NamedTensors& tensors) {
  const auto write = [file](const void* data, size_t nbytes) {
    return nbytes == 0 || std::fwrite(data, 1, nbytes, file) == nbytes;
  };
  static constexpr uint8_t kZeros[schema::kDefaultSegmentAlignment] = {};
  bool good = write(layout.head.data(), layout.head.size());
  uint64_t end = 0;
  size_t i = 0;
  for (const auto& [name, tensor] : tensors) {
    good = good && write(kZeros, layout.offsets[i] - end) && write(tensor.const_data_ptr(), tensor.nbytes());
    end = layout.offsets[i++] + tensor.nbytes();
  }
  return good && std::fflush(file) == 0 && fsync(fileno(file)) == 0;
}

std::string keys_of(const runtime::NamedDataMap& map) {
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(map.num_entries(), 8); ++i) {
    text += (i == 0 ? "" : ", ") + std::string(map.entry(i).key);
  }
  return map.num_entries() > 8 ? text + " and " + std::to_string(map.num_entries() - 8) + " more" : text;
}

/// Whether an entry of a file is a tensor of this type.
bool has_type(const runtime::NamedDataEntry& entry, const Tensor& tensor) {
  const auto equal = [](auto a, auto b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); };
  return entry.is_tensor && entry.layout.dtype == tensor.scalar_type() && equal(entry.layout.sizes, tensor.sizes()) &&
         equal(entry.layout.dim_order, dim_order(tensor)) && entry.nbytes == tensor.nbytes();
}

std::string type_of_entry(const runtime::NamedDataEntry& entry) {
  return entry.is_tensor ? TensorText(entry.layout.dtype, entry.layout.sizes).text : "no tensor";
}

}  // namespace

Error save_ptd(const std::string& path, const NamedTensors& tensors) try {
  for (const auto& [name, tensor] : tensors) {
    const bool fits =
        std::all_of(tensor.sizes().begin(), tensor.sizes().end(), [](int64_t n) { return n <= INT32_MAX; });
    ET_CHECK_OR_RETURN(fits, OutOfResources, "'%s' is %s; a .ptd file holds sizes up to 2^31 - 1", name.c_str(),
                       type_of(tensor).c_str());
  }
  ET_TRY(const Layout layout, lay_out(tensors));
  const std::string temporary = path + "." + std::to_string(getpid()) + ".tmp";
  std::FILE* const file = std::fopen(temporary.c_str(), "wb");
  ET_CHECK_OR_RETURN(file != nullptr || errno != ENOMEM, MemoryAllocationFailed,
                     "no memory for a small object of the checkpoint '%s'", path.c_str());
  ET_CHECK_OR_RETURN(file != nullptr, AccessFailed, "'%s' cannot be written: %s", path.c_str(), std::strerror(errno));
  const bool written = write_all(file, layout, tensors);
  const bool closed = std::fclose(file) == 0;
  if (!written || !closed || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const int reason = errno;
    std::remove(temporary.c_str());
    return ET_ERROR_WITH_MESSAGE(AccessFailed, "'%s' cannot be written: %s", path.c_str(), std::strerror(reason));
  }
  return Error::Ok;
}
ET_NO_MEMORY("the checkpoint '%s'", path.c_str())

Error load_ptd(const std::string& path, const NamedTensors& tensors) try {
  ET_TRY(const std::unique_ptr<runtime::FileLoader> loader, runtime::FileLoader::open(path));
  ET_TRY(const runtime::FlatTensorDataMap map, runtime::FlatTensorDataMap::load(loader.get()));
  for (const auto& [name, tensor] : tensors) {
    runtime::NamedDataEntry entry;
    ET_CHECK_OR_RETURN(map.find(name, &entry), InvalidExternalData,
                       "'%s' has no '%s', so it is the checkpoint of another model; it has %s", path.c_str(),
                       name.c_str(), keys_of(map).c_str());
    ET_CHECK_OR_RETURN(has_type(entry, tensor), InvalidExternalData,
                       "'%s' in '%s' is %s, here it is %s, so the file is the checkpoint of another model",
                       name.c_str(), path.c_str(), type_of_entry(entry).c_str(), type_of(tensor).c_str());
  }
  std::vector<std::pair<Tensor, runtime::FreeableBuffer>> pieces;
  for (const auto& [name, tensor] : tensors) {
    ET_TRY(runtime::FreeableBuffer bytes, map.get(name));
    pieces.emplace_back(tensor, std::move(bytes));
  }
  for (const auto& [tensor, bytes] : pieces) {
    if (tensor.nbytes() != 0) {
      std::memcpy(tensor.mutable_data_ptr(), bytes.data(), tensor.nbytes());
    }
  }
  return Error::Ok;
}
ET_NO_MEMORY("the checkpoint '%s'", path.c_str())

}  // namespace et::training
