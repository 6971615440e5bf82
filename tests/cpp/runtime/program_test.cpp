// Program::load: every trap that a file can hold is a clear error.
#include <cstdio>
#include <fstream>

#include "method_fixture.h"
#include "runtime/flat_tensor_data_map.h"
#include "runtime/host/sparse_data.h"
#include "schema/flat_tensor_generated.h"

namespace et::test {
namespace {

class ProgramTest : public MethodTest {
 protected:
  ProgramTest() {
    x_ = b_.input(b_.tensor({2, 3}));
    w_ = b_.constant<float>({2, 3}, {1, 2, 3, 4, 5, 6});
    y_ = b_.output(b_.tensor({2, 3}));
    b_.kernel("test::add", "out", {x_, w_, y_, y_});
  }

  fb::TensorT& tensor(int index) { return *b_.plan().values[static_cast<size_t>(index)]->val.AsTensor(); }
  void expect_refused(const std::string& message) {
    EXPECT_EQ(load_error(b_), Error::InvalidProgram);
    said(message);
  }

  ProgramBuilder b_;
  int x_, w_, y_;
};

TEST_F(ProgramTest, GoodProgramsLoad) { EXPECT_EQ(load_error(b_), Error::Ok); }

#define ET_TRAP(name, damage, message) \
  TEST_F(ProgramTest, name) {          \
    damage;                            \
    expect_refused(message);           \
  }

ET_TRAP(Version, b_.program().version = 1, "version 1, this runtime reads version 0")
ET_TRAP(NoMethods, b_.program().execution_plan.clear(), "0 methods")
ET_TRAP(MethodNameMissing, b_.plan().name.clear(), "method 0 has no name")
ET_TRAP(MethodNameNotUtf8, b_.plan().name = "\xff\xfe", "not UTF-8")
ET_TRAP(MethodTwice, b_.add_method("forward"), "two methods of this name")
ET_TRAP(OldConstants, b_.program().constant_buffer.push_back(std::make_unique<fb::BufferT>()), "constant_buffer")
ET_TRAP(OpIndex, b_.chain().instructions[0]->instr_args.AsKernelCall()->op_index = 1, "op_index 1, there are 1")
ET_TRAP(OpIndexNegative, b_.chain().instructions[0]->instr_args.AsKernelCall()->op_index = -1, "op_index -1")
ET_TRAP(ArgumentIndex, b_.chain().instructions[0]->instr_args.AsKernelCall()->args[2] = 99, "is value 99")
ET_TRAP(ArgumentNegative, b_.chain().instructions[0]->instr_args.AsKernelCall()->args[0] = -1, "is value -1")
ET_TRAP(InputIndex, b_.plan().inputs[0] = 50, "inputs[0] is value 50")
ET_TRAP(OutputIndex, b_.plan().outputs[0] = -5, "outputs[0] is value -5")
ET_TRAP(InputIsConstant, b_.plan().inputs[0] = w_, "is a constant")
ET_TRAP(InstructionUnset, b_.chain().instructions.push_back(std::make_unique<fb::InstructionT>()),
        "method 'forward': instruction 1: not set")
ET_TRAP(ValueUnset, b_.plan().values.push_back(std::make_unique<fb::EValueT>()), "not set (kind 0)")
ET_TRAP(JumpTooFar, b_.jump_false(b_.boolean(false), 3), "jump to 3, there are 2 instructions")
ET_TRAP(JumpNegative, b_.jump_false(b_.boolean(false), -1), "jump to -1")
ET_TRAP(JumpOnInt, b_.jump_false(b_.integer(0), 0), "neither a Bool nor a bool tensor")
ET_TRAP(JumpOnFloatTensor, b_.jump_false(x_, 0), "neither a Bool nor a bool tensor")
ET_TRAP(MoveKinds, b_.move(b_.integer(1), x_), "must be equal")
ET_TRAP(MoveDtypes, b_.move(b_.tensor({2, 3}, ScalarType::Int), x_), "another dtype")
ET_TRAP(MoveSizes, b_.move(b_.tensor({3, 2}), x_), "another dtype, rank, dim_order or larger size")
ET_TRAP(MoveLists, b_.move(b_.int_list({}), b_.int_list({})), "no list")
ET_TRAP(MoveIndex, b_.move(77, x_), "moves value 77")
ET_TRAP(FreeNumber, b_.free(b_.integer(1)), "which is no tensor")
ET_TRAP(ListOfItself, b_.int_list({static_cast<int64_t>(b_.plan().values.size())}), "of the list is of kind 7")
ET_TRAP(ListIndex, b_.int_list({1000}), "item 0 of the list is value 1000")
ET_TRAP(ListIndexHuge, b_.int_list({INT64_MAX}), "item 0 of the list is value 9223372036854775807")
ET_TRAP(TensorListOfInts, b_.tensor_list({b_.integer(1)}), "item 0 of the list is of kind 2")
ET_TRAP(OptionalListNegative, b_.optional_tensor_list({-2}), "item 0 of the list is value -2")
ET_TRAP(Dtype, tensor(x_).scalar_type = fb::ScalarType_QInt8,
        "method 'forward': tensor value 0: dtype 12 is not supported")
ET_TRAP(StorageOffset, tensor(x_).storage_offset = 4, "storage_offset 4")
ET_TRAP(NegativeSize, tensor(x_).sizes[1] = -1, "size -1 of dimension 1 is negative")
ET_TRAP(HugeSize, (tensor(x_).sizes = {INT32_MAX, INT32_MAX, INT32_MAX}, tensor(x_).dim_order = {0, 1, 2}),
        "does not fit the address space")
ET_TRAP(HugeEmptySize, (tensor(x_).sizes = {0, INT32_MAX, INT32_MAX, INT32_MAX}, tensor(x_).dim_order = {0, 1, 2, 3}),
        "does not fit the address space")
ET_TRAP(DimOrderTwice, (tensor(x_).dim_order = {0, 0}), "not a permutation")
ET_TRAP(DimOrderOutside, (tensor(x_).dim_order = {0, 200}), "not a permutation")
ET_TRAP(DimOrderShort, (tensor(x_).dim_order = {0}), "2 sizes and 1 entries of dim_order")
ET_TRAP(Rank, (tensor(x_).sizes.assign(17, 1), tensor(x_).dim_order.assign(17, 0)), "at most 16")
ET_TRAP(Dynamism, tensor(x_).shape_dynamism = static_cast<fb::TensorShapeDynamism>(9), "shape_dynamism 9")
ET_TRAP(MemoryId, tensor(x_).allocation_info->memory_id = 2, "memory_id 2, must be 1 to 1")
ET_TRAP(MemoryIdZero, tensor(x_).allocation_info->memory_id = 0, "memory_id 0")
ET_TRAP(ArenaOverrun, tensor(y_).allocation_info->memory_offset_low = 64, "not inside")
ET_TRAP(ArenaOffsetHigh, tensor(y_).allocation_info->memory_offset_high = 0xffffffff, "not inside")
ET_TRAP(ArenaMisaligned, tensor(x_).allocation_info->memory_offset_low = 2, "not aligned")
ET_TRAP(ArenaNegative, b_.plan().non_const_buffer_sizes[1] = -64, "-64 bytes")
ET_TRAP(ConstantIndex, tensor(w_).data_buffer_idx = 2, "data_buffer_idx 2, there are 2 entries")
ET_TRAP(ConstantOverrun, b_.program().constant_segment->offsets[1] = 8, "not inside the segment of 24 bytes")
ET_TRAP(ConstantOffset, b_.program().constant_segment->offsets[1] = UINT64_MAX, "entry 1 is at 18446744073709551615")
ET_TRAP(ConstantSegment, b_.program().constant_segment->segment_index = 9, "segment 9")
ET_TRAP(MutableSegment, (tensor(x_).data_buffer_idx = 1, b_.plan().inputs.clear()),
        "data_buffer_idx 1, there are 0 entries")
ET_TRAP(External,
        (tensor(w_).extra_tensor_info = std::make_unique<fb::ExtraTensorInfoT>(),
         tensor(w_).extra_tensor_info->location = fb::TensorDataLocation_EXTERNAL),
        "location 1 without a name")
ET_TRAP(Device,
        (tensor(x_).extra_tensor_info = std::make_unique<fb::ExtraTensorInfoT>(),
         tensor(x_).extra_tensor_info->device_type = fb::DeviceType_CUDA),
        "another device")
ET_TRAP(OperatorName, b_.plan().operators[0]->name.clear(), "operator 0 has no name")
ET_TRAP(OperatorNameWithNul, b_.plan().operators[0]->name.push_back('\0'), "operator 0 has no name")
ET_TRAP(OperatorNameLong, b_.plan().operators[0]->name.assign(500, 'x'), "over 200 bytes")
ET_TRAP(StringNotUtf8, b_.string("\xc0\x80"), "not UTF-8")
ET_TRAP(Chains, b_.plan().chains.push_back(std::make_unique<fb::ChainT>()), "2 chains")
ET_TRAP(DelegateIndex,
        (b_.delegate("B", "x", {x_}), b_.chain().instructions[1]->instr_args.AsDelegateCall()->delegate_index = 1),
        "delegate_index 1")
ET_TRAP(DelegatePayload, (b_.delegate("B", "x", {x_}), b_.plan().delegates[0]->processed->index = 40), "payload 40")
ET_TRAP(DelegateNoPayload, (b_.delegate("B", "x", {x_}), b_.plan().delegates[0]->processed.reset()),
        "delegate 0: no payload")
ET_TRAP(DelegateNoName, (b_.delegate("", "x", {x_})), "delegate 0: no backend name")
ET_TRAP(NamedDataSegment, (b_.named_data("k", "v"), b_.program().named_data[0]->segment_index = 17), "segment 17")
ET_TRAP(NamedDataKey, b_.named_data("", "v"), "named data 0 has no key")
ET_TRAP(DebugDamaged, b_.named_data("executorch_py.debug", std::string(40, '\x7f')), "not a well-formed table")
ET_TRAP(ShapesDamaged, b_.named_data("executorch_py.shapes", "short"), "not a well-formed table")

TEST_F(ProgramTest, DebugOfAnotherLengthIsRefused) {
  fb::debug::DebugInfoT debug;
  debug.strings = {""};
  debug.methods.push_back(std::make_unique<fb::debug::MethodInfoT>());
  debug.methods[0]->name = "forward";
  b_.named_data("executorch_py.debug",
                ProgramBuilder::pack<fb::debug::DebugInfo>(debug, fb::debug::DebugInfoIdentifier()));
  expect_refused("another number of instructions");
}

const std::vector<std::string> kStrings{"", "op"};

ET_TRAP(DebugOfAnUnknownVersion, b_.packed_debug({}, kStrings, 2), "has version 2, this runtime reads 0 and 1")
ET_TRAP(PackedDebugNoUtf8, b_.packed_debug({}, {"", "\xff"}), "string 1 is not UTF-8")
ET_TRAP(PackedDebugTooShort, b_.packed_debug({}, kStrings), "another number of instructions")
ET_TRAP(PackedDebugTooLong, b_.packed_debug({1, 1, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0}, kStrings),
        "another number of instructions")
ET_TRAP(PackedDebugCutOff, b_.packed_debug({1, 1, 0, 0, 0, 0}, kStrings), "another number of instructions")
ET_TRAP(PackedDebugBytesBehind, b_.packed_debug({1, 1, 0, 0, 0, 0, 0, 0}, kStrings), "another number of instructions")
ET_TRAP(PackedDebugOp, b_.packed_debug({2, 1, 0, 0, 0, 0, 0}, kStrings), "names no string")
ET_TRAP(PackedDebugNode, b_.packed_debug({1, 2, 0, 0, 0, 0, 0}, kStrings), "names no string")
ET_TRAP(PackedDebugModule, b_.packed_debug({1, 1, 2, 0, 0, 0, 0}, kStrings), "names no string")
ET_TRAP(PackedDebugFile, b_.packed_debug({1, 1, 0, 2, 0, 0, 0}, kStrings), "names no string")
ET_TRAP(PackedDebugMoreHandlesThanBytes, b_.packed_debug({1, 1, 0, 0, 0, 0, 3, 0, 0}, kStrings),
        "another number of instructions")
ET_TRAP(PackedDebugNumberWithoutEnd, b_.packed_debug({1, 1, 0, 0, 0, 0x80}, kStrings), "another number of instructions")
ET_TRAP(PackedDebugNumberTooLarge, b_.packed_debug({1, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x1f, 0}, kStrings),
        "another number of instructions")
ET_TRAP(PackedDebugNumberTooLong, b_.packed_debug({1, 1, 0, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x80, 0, 0}, kStrings),
        "another number of instructions")

TEST_F(ProgramTest, ShapesOfUnknownDimensionsAreRefused) {
  fb::shapes::ShapesT shapes;
  shapes.methods.push_back(std::make_unique<fb::shapes::MethodShapesT>());
  shapes.methods[0]->name = "forward";
  shapes.methods[0]->symbols.push_back(std::make_unique<fb::shapes::SymbolT>());
  shapes.methods[0]->inputs = {fb::shapes::SizeRelation(0, 2, 0, 0, 1, 0)};
  b_.named_data("executorch_py.shapes",
                ProgramBuilder::pack<fb::shapes::Shapes>(shapes, fb::shapes::ShapesIdentifier()));
  expect_refused("names no value, dimension or symbol");
}

TEST_F(ProgramTest, EveryTruncationIsRefused) {
  bytes_ = b_.build();
  for (size_t size = 0; size < bytes_.size(); ++size) {
    const std::vector<uint8_t> cut(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(size));
    const std::shared_ptr<const uint8_t> aligned = aligned_copy(cut);
    BufferLoader loader(aligned.get(), cut.size());
    EXPECT_FALSE(Program::load(&loader).ok()) << size << " of " << bytes_.size();
  }
}

TEST_F(ProgramTest, OtherKindsOfFilesAreRefused) {
  alignas(16) const char text[64] = "PK\x03\x04 this is a zip file, not a program";
  BufferLoader loader(text, sizeof(text));
  EXPECT_EQ(Program::load(&loader).error(), Error::InvalidProgram);
  said("a .pte has 'ET12' there");
}

TEST_F(ProgramTest, MisalignedMemoryIsRefusedByTheCoreAndCopiedByTheHost) {
  bytes_ = b_.build();
  std::vector<uint8_t> shifted(bytes_.size() + 1);
  std::copy(bytes_.begin(), bytes_.end(), shifted.begin() + 1);
  BufferLoader loader(shifted.data() + 1, bytes_.size());
  EXPECT_EQ(Program::load(&loader).error(), Error::InvalidArgument);
  EXPECT_TRUE(HostProgram::from_buffer(nullptr, shifted.data() + 1, bytes_.size(), options_).ok());
}

TEST_F(ProgramTest, NamedDataMayBeSparse) {
  const std::string dense = std::string(300, '\0') + "weight";
  const Span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(dense.data()), dense.size());
  const SparseLayout layout = sparse_layout(bytes, ScalarType::Char);
  std::string entry(layout.nbytes, '\0');
  write_sparse_bytes(layout, bytes, reinterpret_cast<uint8_t*>(entry.data()));
  b_.named_data("dense", "bytes");
  b_.named_data("sparse:both", entry);
  b_.named_data("both", "bytes");
  b_.named_data("sparse:one", entry);
  b_.named_data("sparse:damaged", entry.substr(1));
  auto host = load(b_);
  const NamedDataMap& map = host->program().named_data();
  const auto text = [&map](const char* key) {
    const auto found = get_dense(map, key);
    EXPECT_TRUE(found.ok()) << key;
    return found.ok() ? std::string(reinterpret_cast<const char*>(found->data()), found->size()) : std::string();
  };
  EXPECT_EQ(text("dense"), "bytes");
  EXPECT_EQ(text("both"), "bytes");
  EXPECT_EQ(text("one"), dense);
  EXPECT_FALSE(get_dense(map, "one")->is_borrowed()) << "its address will be another's";
  EXPECT_EQ(get_dense(map, "damaged").error(), Error::InvalidProgram);
  EXPECT_EQ(get_dense(map, "missing").error(), Error::NotFound);
  EXPECT_EQ(get_stored(map, "one")->nbytes(), dense.size());
}

TEST_F(ProgramTest, NamedDataIsFound) {
  for (const char* const key : {"weights", "a", "weights", "zebra", "bias", "weight"}) {
    b_.named_data(key, std::string(key) + std::to_string(b_.program().named_data.size()));
  }
  auto host = load(b_);
  const std::shared_ptr<const uint8_t> aligned = aligned_copy(bytes_);
  BufferLoader loader(aligned.get(), bytes_.size());
  auto walking = Program::load(&loader);  // without an order of its keys, as on a machine without a heap
  ASSERT_TRUE(walking.ok());
  for (const Program* program : {&host->program(), static_cast<const Program*>(&*walking)}) {
    const NamedDataMap& map = program->named_data();
    EXPECT_EQ(map.num_entries(), 6u);
    for (const std::string found : {"weights0", "a1", "zebra3", "bias4", "weight5"}) {
      auto bytes = map.get(found.substr(0, found.size() - 1));
      ASSERT_TRUE(bytes.ok()) << found;
      EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size()), found) << "of two, the first";
    }
    for (const char* const missing : {"", "A", "b", "weights ", "zz"}) {
      EXPECT_EQ(map.get(missing).error(), Error::NotFound);
      EXPECT_FALSE(map.find(missing, nullptr));
    }
  }
}

/// A `.ptd` with one tensor entry.
std::vector<uint8_t> external_file(const std::string& key, const std::vector<float>& elements,
                                   std::vector<int32_t> sizes) {
  namespace ft = schema::flat_tensor;
  ft::FlatTensorT tables;
  tables.segments.push_back(std::make_unique<ft::DataSegmentT>());
  tables.segments[0]->size = elements.size() * sizeof(float);
  tables.named_data.push_back(std::make_unique<ft::NamedDataT>());
  tables.named_data[0]->key = key;
  tables.named_data[0]->tensor_layout = std::make_unique<ft::TensorLayoutT>();
  tables.named_data[0]->tensor_layout->scalar_type = fb::ScalarType_Float;
  for (size_t d = 0; d < sizes.size(); ++d) {
    tables.named_data[0]->tensor_layout->dim_order.push_back(static_cast<uint8_t>(d));
  }
  tables.named_data[0]->tensor_layout->sizes = std::move(sizes);
  const std::string body = ProgramBuilder::pack<ft::FlatTensor>(tables, ft::FlatTensorIdentifier());
  uint32_t root;
  std::memcpy(&root, body.data(), 4);
  root += fb::kFlatTensorHeaderLength;
  std::vector<uint8_t> file(48);
  std::memcpy(file.data(), &root, 4);
  std::memcpy(file.data() + 4, body.data() + 4, 4);
  file.insert(file.end(), body.begin() + 8, body.end());
  fb::FileLayout layout;
  layout.flatbuffer_size = file.size();
  file.resize((file.size() + 127) / 128 * 128);
  layout.segment_base_offset = file.size();
  layout.segment_data_size = elements.size() * sizeof(float);
  fb::write_flat_tensor_header(layout, file.data() + 8);
  const auto* data = reinterpret_cast<const uint8_t*>(elements.data());
  file.insert(file.end(), data, data + layout.segment_data_size);
  return file;
}

TEST_F(ProgramTest, ExternalWeightsComeFromThePtd) {
  tensor(w_).data_buffer_idx = 0;
  tensor(w_).extra_tensor_info = std::make_unique<fb::ExtraTensorInfoT>();
  tensor(w_).extra_tensor_info->location = fb::TensorDataLocation_EXTERNAL;
  tensor(w_).extra_tensor_info->fully_qualified_name = "w";
  EXPECT_EQ(method_error(b_), Error::InvalidExternalData);
  said("tensor 'w' from a .ptd file");
  const std::string path = ::testing::TempDir() + "external.ptd";
  const auto write = [&](const std::vector<uint8_t>& bytes) {
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  };
  options_.data_files = {path};
  write(external_file("w", {1, 2, 3, 4, 5, 6}, {3, 2}));
  EXPECT_EQ(method_error(b_), Error::InvalidExternalData);
  said("do not belong together");
  write(external_file("w", {1, 2, 3, 4, 5, 6}, {2, 2}));
  EXPECT_EQ(load_error(b_), Error::InvalidExternalData);
  const std::vector<uint8_t> good = external_file("w", {1, 2, 3, 4, 5, 6}, {2, 3});
  for (size_t size = 0; size < good.size(); size += 7) {
    write({good.begin(), good.begin() + static_cast<std::ptrdiff_t>(size)});
    EXPECT_EQ(load_error(b_), Error::InvalidExternalData) << size;
  }
  for (const LoadMode mode : {LoadMode::kMmap, LoadMode::kFile}) {
    write(good);
    options_.mode = mode;
    auto m = method(b_);
    TestTensor x({2, 3});
    ASSERT_EQ(m->method().set_input(x.value(), 0), Error::Ok);
    ASSERT_EQ(m->method().execute(), Error::Ok);
    EXPECT_EQ(floats(m->method().get_output(0))[5], 6);
  }
  std::remove(path.c_str());
}

TEST_F(ProgramTest, FilesLoadInAllModes) {
  const std::vector<uint8_t> bytes = b_.build();
  const std::string path = ::testing::TempDir() + "program.pte";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  for (const LoadMode mode : {LoadMode::kMmap, LoadMode::kFile, LoadMode::kMmapTryLocked}) {
    options_.mode = mode;
    auto program = HostProgram::from_file(path, options_);
    ASSERT_TRUE(program.ok()) << messages();
    auto m = method(*program);
    TestTensor x({2, 3}, {1, 1, 1, 1, 1, 1});
    ASSERT_EQ(m->method().set_input(x.value(), 0), Error::Ok);
    ASSERT_EQ(m->method().execute(), Error::Ok);
    EXPECT_EQ(floats(m->method().get_output(0))[5], 7);
    EXPECT_EQ((*program)->load_method("nothing").error(), Error::NotFound);
  }
  EXPECT_EQ(HostProgram::from_file(path + ".missing", options_).error(), Error::AccessFailed);
  said("No such file or directory");
  EXPECT_EQ(HostProgram::from_file(::testing::TempDir(), options_).error(), Error::AccessFailed);
  std::remove(path.c_str());
}

TEST_F(ProgramTest, ListsThatAreSharedTooOftenAreRefused) {
  // One long list of arguments in a plan, used by many instructions through the same vector: small file, endless work.
  flatbuffers::FlatBufferBuilder builder;
  const std::vector<int32_t> zeros(20000, 0);
  const auto args = builder.CreateVector(zeros);
  std::vector<flatbuffers::Offset<fb::Instruction>> instructions;
  for (int i = 0; i < 1000; ++i) {
    const auto call = fb::CreateKernelCall(builder, 0, args);
    instructions.push_back(fb::CreateInstruction(builder, fb::InstructionArguments_KernelCall, call.Union()));
  }
  const auto chain = fb::CreateChain(builder, 0, 0, builder.CreateVector(instructions));
  const auto value = fb::CreateEValue(builder, fb::KernelTypes_Null, fb::CreateNull(builder).Union());
  const auto op = fb::CreateOperator(builder, builder.CreateString("a"));
  const auto plan = fb::CreateExecutionPlan(builder, builder.CreateString("forward"), 0, builder.CreateVector({value}),
                                            0, 0, builder.CreateVector({chain}), builder.CreateVector({op}));
  builder.Finish(fb::CreateProgram(builder, 0, builder.CreateVector({plan})), fb::ProgramIdentifier());
  std::vector<uint8_t> file(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
  const std::shared_ptr<const uint8_t> aligned = aligned_copy(file);
  BufferLoader loader(aligned.get(), file.size());
  EXPECT_EQ(Program::load(&loader).error(), Error::InvalidProgram);
  said("again and again");
}

TEST_F(ProgramTest, StringsThatAreSharedTooOftenAreRefused) {
  flatbuffers::FlatBufferBuilder builder;
  const auto text = builder.CreateString(std::string(200000, 'x'));
  std::vector<flatbuffers::Offset<fb::EValue>> values;
  for (int i = 0; i < 10000; ++i) {
    values.push_back(fb::CreateEValue(builder, fb::KernelTypes_String, fb::CreateString(builder, text).Union()));
  }
  const auto plan = fb::CreateExecutionPlan(builder, builder.CreateString("forward"), 0, builder.CreateVector(values));
  builder.Finish(fb::CreateProgram(builder, 0, builder.CreateVector({plan})), fb::ProgramIdentifier());
  std::vector<uint8_t> file(builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize());
  const std::shared_ptr<const uint8_t> aligned = aligned_copy(file);
  BufferLoader loader(aligned.get(), file.size());
  EXPECT_EQ(Program::load(&loader).error(), Error::InvalidProgram);
  said("again and again");
}

}  // namespace
}  // namespace et::test
