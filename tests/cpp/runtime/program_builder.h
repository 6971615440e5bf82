/// Builds `.pte` bytes by hand, for tests: no compiler, no torch.
///
///     ProgramBuilder b;
///     const int x = b.input(b.tensor({2, 3}));
///     const int y = b.output(b.tensor({2, 3}));
///     b.kernel("test::relu", "out", {x, y, y});
///     const std::vector<uint8_t> bytes = b.build();
///
/// Tensors are planned one after the other in memory id 1 unless said otherwise. `plan()` and `program()` give the
/// tables, so that a test can damage them.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "schema/debug_info_generated.h"
#include "schema/program_generated.h"
#include "schema/pte_header.h"
#include "schema/shapes_generated.h"

namespace et::test {

namespace fb = schema;

class ProgramBuilder {
 public:
  ProgramBuilder() {
    program_.constant_segment = std::make_unique<fb::SubsegmentOffsetsT>();
    program_.constant_segment->offsets.push_back(0);
    add_method("forward");
  }

  fb::ProgramT& program() { return program_; }
  fb::ExecutionPlanT& plan() { return *program_.execution_plan.back(); }
  fb::ChainT& chain() { return *plan().chains[0]; }

  /// The calls that follow build this method.
  void add_method(const std::string& name) {
    program_.execution_plan.push_back(std::make_unique<fb::ExecutionPlanT>());
    plan().name = name;
    plan().chains.push_back(std::make_unique<fb::ChainT>());
    plan().non_const_buffer_sizes = {0, 0};
  }

  template <typename Table>
  int value(Table table) {
    auto v = std::make_unique<fb::EValueT>();
    v->val.Set(std::move(table));
    plan().values.push_back(std::move(v));
    return static_cast<int>(plan().values.size()) - 1;
  }
  int none() { return value(fb::NullT()); }
  int integer(int64_t i) {
    fb::IntT t;
    t.int_val = i;
    return value(std::move(t));
  }
  int real(double d) {
    fb::DoubleT t;
    t.double_val = d;
    return value(std::move(t));
  }
  int boolean(bool b) {
    fb::BoolT t;
    t.bool_val = b;
    return value(std::move(t));
  }
  int string(const std::string& s) {
    fb::StringT t;
    t.string_val = s;
    return value(std::move(t));
  }
  int int_list(std::vector<int64_t> indices) {
    fb::IntListT t;
    t.items = std::move(indices);
    return value(std::move(t));
  }
  int tensor_list(std::vector<int32_t> indices) {
    fb::TensorListT t;
    t.items = std::move(indices);
    return value(std::move(t));
  }
  int optional_tensor_list(std::vector<int32_t> indices) {
    fb::OptionalTensorListT t;
    t.items = std::move(indices);
    return value(std::move(t));
  }

  static fb::TensorT describe(std::vector<int32_t> sizes, ScalarType dtype, fb::TensorShapeDynamism dynamism) {
    fb::TensorT t;
    t.scalar_type = static_cast<fb::ScalarType>(dtype);
    t.sizes = std::move(sizes);
    for (size_t d = 0; d < t.sizes.size(); ++d) {
      t.dim_order.push_back(static_cast<uint8_t>(d));
    }
    t.shape_dynamism = dynamism;
    return t;
  }
  /// A planned tensor.
  int tensor(std::vector<int32_t> sizes, ScalarType dtype = ScalarType::Float,
             fb::TensorShapeDynamism dynamism = fb::TensorShapeDynamism_STATIC, uint32_t memory_id = 1,
             const std::string& name = "") {
    fb::TensorT t = describe(std::move(sizes), dtype, dynamism);
    place(&t, memory_id, name);
    return value(std::move(t));
  }
  /// One without memory in the file: an unplanned input or output.
  int open_tensor(std::vector<int32_t> sizes, ScalarType dtype = ScalarType::Float,
                  fb::TensorShapeDynamism dynamism = fb::TensorShapeDynamism_STATIC) {
    return value(describe(std::move(sizes), dtype, dynamism));
  }
  /// A constant with these elements.
  template <typename T>
  int constant(std::vector<int32_t> sizes, const std::vector<T>& elements) {
    fb::TensorT t = describe(std::move(sizes), dtype_of<T>, fb::TensorShapeDynamism_STATIC);
    constants_.resize((constants_.size() + 15) / 16 * 16);
    program_.constant_segment->offsets.push_back(constants_.size());
    t.data_buffer_idx = static_cast<uint32_t>(program_.constant_segment->offsets.size() - 1);
    append(&constants_, elements.data(), elements.size() * sizeof(T));
    return value(std::move(t));
  }
  /// A tensor whose bytes stand elsewhere under a name.
  int external(std::vector<int32_t> sizes, const std::string& name) {
    fb::TensorT t = describe(std::move(sizes), ScalarType::Float, fb::TensorShapeDynamism_STATIC);
    t.extra_tensor_info = std::make_unique<fb::ExtraTensorInfoT>();
    t.extra_tensor_info->fully_qualified_name = name;
    t.extra_tensor_info->location = fb::TensorDataLocation_EXTERNAL;
    return value(std::move(t));
  }
  /// A mutable buffer in memory id 2, with an initial value unless `elements` is empty.
  int state(std::vector<int32_t> sizes, const std::vector<float>& elements, const std::string& name,
            uint32_t memory_id = 2) {
    fb::TensorT t = describe(std::move(sizes), ScalarType::Float, fb::TensorShapeDynamism_STATIC);
    place(&t, memory_id, name);
    if (!elements.empty()) {
      if (mutable_offsets_.empty()) {
        mutable_offsets_.push_back(0);
      }
      mutable_offsets_.push_back(mutable_.size());
      t.data_buffer_idx = static_cast<uint32_t>(mutable_offsets_.size() - 1);
      append(&mutable_, elements.data(), elements.size() * sizeof(float));
    }
    return value(std::move(t));
  }

  int input(int index) {
    plan().inputs.push_back(index);
    return index;
  }
  int output(int index) {
    plan().outputs.push_back(index);
    return index;
  }

  void kernel(const std::string& name, const std::string& overload, std::vector<int32_t> args) {
    auto op = std::make_unique<fb::OperatorT>();
    op->name = name;
    op->overload = overload;
    plan().operators.push_back(std::move(op));
    fb::KernelCallT call;
    call.op_index = static_cast<int32_t>(plan().operators.size()) - 1;
    call.args = std::move(args);
    instruction(std::move(call));
  }
  void move(int from, int to) {
    fb::MoveCallT call;
    call.move_from = from;
    call.move_to = to;
    instruction(call);
  }
  void jump_false(int condition, int destination) {
    fb::JumpFalseCallT call;
    call.cond_value_index = condition;
    call.destination_instruction = destination;
    instruction(call);
  }
  void free(int index) {
    fb::FreeCallT call;
    call.value_index = index;
    instruction(call);
  }
  /// A delegate with its payload in a segment, and a call of it.
  void delegate(const std::string& backend, const std::string& payload, std::vector<int32_t> args) {
    auto d = std::make_unique<fb::BackendDelegateT>();
    d->id = backend;
    d->processed = std::make_unique<fb::BackendDelegateDataReferenceT>();
    d->processed->location = fb::DataLocation_SEGMENT;
    d->processed->index = static_cast<uint32_t>(2 + extra_segments_.size());
    extra_segments_.push_back(payload);
    plan().delegates.push_back(std::move(d));
    fb::DelegateCallT call;
    call.delegate_index = static_cast<int32_t>(plan().delegates.size()) - 1;
    call.args = std::move(args);
    instruction(std::move(call));
  }
  void named_data(const std::string& key, const std::string& bytes) {
    auto entry = std::make_unique<fb::NamedDataT>();
    entry->key = key;
    entry->segment_index = static_cast<uint32_t>(2 + extra_segments_.size());
    extra_segments_.push_back(bytes);
    program_.named_data.push_back(std::move(entry));
  }
  /// Version 1 of the debug information of the method "forward": MethodInfo.origins and DebugInfo.strings.
  void packed_debug(std::vector<uint8_t> origins, std::vector<std::string> strings, uint32_t version = 1) {
    fb::debug::DebugInfoT debug;
    debug.version = version;
    debug.strings = std::move(strings);
    debug.methods.push_back(std::make_unique<fb::debug::MethodInfoT>());
    debug.methods[0]->name = "forward";
    debug.methods[0]->origins = std::move(origins);
    named_data("executorch_py.debug", pack<fb::debug::DebugInfo>(debug, fb::debug::DebugInfoIdentifier()));
  }
  /// Packs an object of the FlatBuffers object API, for named_data.
  template <typename Table, typename Object>
  static std::string pack(const Object& object, const char* identifier) {
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(Table::Pack(builder, &object), identifier);
    return std::string(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
  }
  template <typename Call>
  void instruction(Call call) {
    auto i = std::make_unique<fb::InstructionT>();
    i->instr_args.Set(std::move(call));
    chain().instructions.push_back(std::move(i));
  }

  /// Segments: 0 constants, 1 initial values, then payloads and named data in the order of the calls.
  std::vector<uint8_t> build() {
    std::vector<std::string> segments = {constants_, mutable_};
    segments.insert(segments.end(), extra_segments_.begin(), extra_segments_.end());
    program_.segments.clear();
    uint64_t offset = 0;
    std::string data;
    for (const std::string& segment : segments) {
      auto table = std::make_unique<fb::DataSegmentT>();
      table->offset = offset;
      table->size = segment.size();
      program_.segments.push_back(std::move(table));
      data += segment;
      data.resize((data.size() + fb::kDefaultSegmentAlignment - 1) / fb::kDefaultSegmentAlignment *
                  fb::kDefaultSegmentAlignment);
      offset = data.size();
    }
    program_.mutable_data_segments.clear();
    if (!mutable_offsets_.empty()) {
      auto table = std::make_unique<fb::SubsegmentOffsetsT>();
      table->segment_index = 1;
      table->offsets = mutable_offsets_;
      program_.mutable_data_segments.push_back(std::move(table));
    }
    return assemble(data);
  }

 private:
  static void append(std::string* bytes, const void* data, size_t nbytes) {
    bytes->append(static_cast<const char*>(data), nbytes);
  }
  void place(fb::TensorT* t, uint32_t memory_id, const std::string& name) {
    int64_t nbytes = static_cast<int64_t>(element_size(static_cast<ScalarType>(t->scalar_type)));
    for (const int32_t size : t->sizes) {
      nbytes *= size;
    }
    std::vector<int64_t>& buffers = plan().non_const_buffer_sizes;
    if (buffers.size() <= memory_id) {
      buffers.resize(memory_id + 1);
    }
    t->allocation_info = std::make_unique<fb::AllocationDetailsT>();
    t->allocation_info->memory_id = memory_id;
    t->allocation_info->memory_offset_low = static_cast<uint32_t>(buffers[memory_id]);
    buffers[memory_id] += (nbytes + 15) / 16 * 16;
    if (!name.empty()) {
      t->extra_tensor_info = std::make_unique<fb::ExtraTensorInfoT>();
      t->extra_tensor_info->fully_qualified_name = name;
    }
  }
  std::vector<uint8_t> assemble(const std::string& data) const {
    flatbuffers::FlatBufferBuilder builder;
    builder.Finish(fb::Program::Pack(builder, &program_), fb::ProgramIdentifier());
    const uint8_t* body = builder.GetBufferPointer();
    std::vector<uint8_t> file(body, body + 8);
    uint32_t root;
    std::memcpy(&root, body, 4);
    root += fb::kPteHeaderLength;
    std::memcpy(file.data(), &root, 4);
    file.resize(8 + fb::kPteHeaderLength);
    file.insert(file.end(), body + 8, body + builder.GetSize());
    fb::FileLayout layout;
    layout.flatbuffer_size = file.size();
    file.resize((file.size() + fb::kDefaultSegmentAlignment - 1) / fb::kDefaultSegmentAlignment *
                fb::kDefaultSegmentAlignment);
    layout.segment_base_offset = file.size();
    layout.segment_data_size = data.size();
    fb::write_pte_header(layout, file.data() + 8);
    file.insert(file.end(), data.begin(), data.end());
    return file;
  }

  fb::ProgramT program_;
  std::string constants_;
  std::string mutable_;
  std::vector<uint64_t> mutable_offsets_;
  std::vector<std::string> extra_segments_;
};

}  // namespace et::test
