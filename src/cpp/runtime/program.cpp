#include "runtime/program.h"

#include <cstring>

#include "base/checked_math.h"
#include "runtime/external_data.h"
#include "runtime/flatbuffer_views.h"
#include "runtime/program_verifier.h"
#include "schema/debug_info_layout.h"
#include "schema/program_layout.h"
#include "schema/shapes_layout.h"

namespace et::runtime {
namespace {

namespace fb = schema;

/// What the tables and segments must be aligned to in memory.
constexpr size_t kFileAlignment = 16;

/// A build for one model in flash, whose checksum was verified when it was built and is verified before each load.
#ifdef ET_TRUSTS_MODELS
constexpr bool kVerifies = false;
#else
constexpr bool kVerifies = true;
#endif

bool is_file_aligned(const FreeableBuffer& bytes) {
  return reinterpret_cast<uintptr_t>(bytes.data()) % kFileAlignment == 0;
}

bool are_tables(const FreeableBuffer& bytes, const schema::TableLayouts& layouts) {
  return !kVerifies || schema::verify_tables({bytes.data(), bytes.size()}, layouts);
}

/// True when methods may have state in memory 2, as those of the official exporter's files do.
bool may_share_memory(const fb::Program& program) {
  uint32_t num_plans = 0;
  for (uint32_t i = 0; i < count(program.execution_plan()); ++i) {
    num_plans += count(program.execution_plan()->Get(i)->non_const_buffer_sizes()) > 2 ? 1 : 0;
  }
  return num_plans > 1;
}

/// Loads one of our named data entries and verifies that it is a table of its kind. `*bytes` stays empty when there is
/// none.
Error load_annotation(const NamedDataMap& map, const char* key, const schema::TableLayouts& layouts,
                      FreeableBuffer* bytes) {
  if (!map.find(key, nullptr)) {
    return Error::Ok;
  }
  ET_TRY(*bytes, map.get(key));
  ET_CHECK_OR_RETURN(is_file_aligned(*bytes) && are_tables(*bytes, layouts), InvalidProgram,
                     "named data '%s' is not a well-formed table of its kind", key);
  return Error::Ok;
}

}  // namespace

Result<Program> Program::load(DataLoader* loader, Verification) {
  const size_t file_size = loader->size();
  const size_t prefix_size = file_size < schema::kHeaderPrefixSize ? file_size : schema::kHeaderPrefixSize;
  ET_TRY(const FreeableBuffer prefix, loader->load(0, prefix_size));
  ET_TRY(const schema::FileLayout layout, schema::parse_pte_header({prefix.data(), prefix.size()}, file_size));

  Program program;
  program.loader_ = loader;
  ET_TRY(program.bytes_, loader->load(0, static_cast<size_t>(layout.flatbuffer_size)));
  ET_CHECK_OR_RETURN(is_file_aligned(program.bytes_), InvalidArgument,
                     "the program stands at address %p, which is not a multiple of %zu; copy it to an aligned buffer",
                     static_cast<const void*>(program.bytes_.data()), kFileAlignment);
  ET_CHECK_OR_RETURN(are_tables(program.bytes_, fb::kProgramLayouts), InvalidProgram,
                     "the tables of the program are damaged (an offset or length points outside of %" PRIu64
                     " bytes); the file is cut off or was changed",
                     layout.flatbuffer_size);
  program.tables_ = fb::GetProgram(program.bytes_.data());
  ET_RETURN_IF_ERROR(kVerifies ? verify_program(*program.tables_, layout) : Error::Ok);
  program.named_data_.tables = program.tables_;
  program.named_data_.loader = loader;
  program.named_data_.segment_base = layout.segment_base_offset;

  const fb::SubsegmentOffsets* constants = program.tables_->constant_segment();
  if (constants != nullptr && count(constants->offsets()) > 1) {
    ET_TRY(program.constants_, program.load_segment(constants->segment_index()));
  }
  ET_RETURN_IF_ERROR(!has(Feature::kDebugInfo) ? Error::Ok
                                               : load_annotation(program.named_data_, "executorch_py.debug",
                                                                 fb::debug::kDebugInfoLayouts, &program.debug_bytes_));
  ET_RETURN_IF_ERROR(!has(Feature::kDynamicShapes)
                         ? Error::Ok
                         : load_annotation(program.named_data_, "executorch_py.shapes", fb::shapes::kShapesLayouts,
                                           &program.shapes_bytes_));
  if (has(Feature::kDebugInfo) && program.debug_bytes_.size() != 0) {  // verified tables have bytes
    program.debug_ = fb::debug::GetDebugInfo(program.debug_bytes_.data());
    ET_RETURN_IF_ERROR(!kVerifies ? Error::Ok
                                  : verify_debug_info(*program.debug_, program.debug_bytes_.size(), *program.tables_));
  }
  if (has(Feature::kDynamicShapes) && program.shapes_bytes_.size() != 0) {
    program.shapes_ = fb::shapes::GetShapes(program.shapes_bytes_.data());
    ET_RETURN_IF_ERROR(!kVerifies ? Error::Ok
                                  : verify_shapes(*program.shapes_, program.shapes_bytes_.size(), *program.tables_));
  }
  ET_CHECK_OR_RETURN(has(Feature::kKeptMemory) || !may_share_memory(*program.tables_), NotSupported,
                     "the program's methods may share memory, which this build leaves out (runtime/features.h)");
  program.state_memory_ = has(Feature::kKeptMemory) ? find_state_memory(*program.tables_) : 0;
  return program;
}

size_t Program::num_methods() const { return count(tables_->execution_plan()); }

std::string_view Program::method_name(size_t i) const {
  return view(tables_->execution_plan()->Get(static_cast<uint32_t>(i))->name());
}

const fb::ExecutionPlan* Program::find_plan(std::string_view name, size_t* index) const {
  size_t found = 0;
  if (const fb::ExecutionPlan* plan = runtime::find_plan(*tables_, name, &found)) {
    if (index != nullptr) {
      *index = found;
    }
    return plan;
  }
  char names[200];
  size_t length = 0;
  for (size_t i = 0; kHasMessages && i < num_methods(); ++i) {
    const std::string_view other = method_name(i);
    if (length + other.size() + 8 > sizeof(names)) {
      names[length++] = '.';
      names[length++] = '.';
      break;
    }
    if (i > 0) {
      names[length++] = ',';
      names[length++] = ' ';
    }
    length += other.copy(names + length, other.size());
  }
  ET_LOG_ERROR("the program has no method '%.*s'; it has: %.*s", static_cast<int>(name.size()), name.data(),
               static_cast<int>(length), names);
  return nullptr;
}

Result<MethodMeta> Program::method_meta(std::string_view name) const {
  const fb::ExecutionPlan* plan = find_plan(name, nullptr);
  if (plan == nullptr) {
    return Error::NotFound;
  }
  const fb::shapes::MethodShapes* shapes = nullptr;
  for (uint32_t i = 0; has(Feature::kDynamicShapes) && shapes_ != nullptr && i < count(shapes_->methods()); ++i) {
    if (view(shapes_->methods()->Get(i)->name()) == name) {
      shapes = shapes_->methods()->Get(i);
    }
  }
  return MethodMeta(this, plan, shapes);
}

uint64_t Program::state_memory_size(uint32_t memory_id) const {
  int64_t size = 0;
  for (size_t i = 0; i < num_methods(); ++i) {
    const Span<const int64_t> sizes =
        span(tables_->execution_plan()->Get(static_cast<uint32_t>(i))->non_const_buffer_sizes());
    size = memory_id < sizes.size() && sizes[memory_id] > size ? sizes[memory_id] : size;
  }
  return static_cast<uint64_t>(size);
}

namespace {

/// The verified segment `index` of a file whose segments begin at `base`.
Result<FreeableBuffer> load_segment_from(DataLoader* loader, const fb::Program& tables, uint64_t base, uint32_t index) {
  const fb::DataSegment* segment = tables.segments()->Get(index);
  if (segment->size() == 0) {
    return FreeableBuffer();
  }
  size_t offset;
  size_t nbytes;
  ET_CHECK_OR_RETURN(!narrow_overflow(base + segment->offset(), &offset) && !narrow_overflow(segment->size(), &nbytes),
                     NotSupported, "segment %u does not fit this machine's address space", index);
  return loader->load(offset, nbytes);
}

}  // namespace

Result<FreeableBuffer> Program::load_segment(uint32_t index) const {
  return load_segment_from(loader_, *tables_, named_data_.segment_base, index);
}

const uint8_t* Program::constant_data(uint32_t index) const {
  return constants_.data() + span(tables_->constant_segment()->offsets())[index];
}

Error Program::write_initial_value(const fb::Tensor& tensor, const NamedDataMap* external_data,
                                   uint8_t* destination) const {
  const size_t nbytes = static_cast<size_t>(tensor_nbytes(tensor));
  if (is_external(tensor)) {
    ET_TRY(const FreeableBuffer value, load_external_tensor(external_data, tensor));
    std::memcpy(destination, value.data(), nbytes);
  } else if (tensor.data_buffer_idx() != 0 && nbytes != 0) {
    const uint64_t table_index =
        tensor.extra_tensor_info() == nullptr ? 0 : tensor.extra_tensor_info()->mutable_data_segments_idx();
    const fb::SubsegmentOffsets* table = tables_->mutable_data_segments()->Get(static_cast<uint32_t>(table_index));
    ET_TRY(const FreeableBuffer segment, load_segment(table->segment_index()));
    std::memcpy(destination, segment.data() + span(table->offsets())[tensor.data_buffer_idx()], nbytes);
  }
  return Error::Ok;
}

Result<FreeableBuffer> Program::SegmentMap::get(std::string_view key) const {
  const int64_t index = index_of(key);
  ET_CHECK_OR_RETURN(index >= 0, NotFound, "the program has no named data '%.*s'", static_cast<int>(key.size()),
                     key.data());
  return load_segment_from(loader, *tables, segment_base,
                           tables->named_data()->Get(static_cast<uint32_t>(index))->segment_index());
}

size_t Program::SegmentMap::num_entries() const { return count(tables->named_data()); }

NamedDataEntry Program::SegmentMap::entry(size_t i) const {
  const fb::NamedData* data = tables->named_data()->Get(static_cast<uint32_t>(i));
  NamedDataEntry entry;
  entry.key = view(data->key());
  entry.nbytes = tables->segments()->Get(data->segment_index())->size();
  return entry;
}

}  // namespace et::runtime
