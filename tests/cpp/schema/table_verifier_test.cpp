// One loop over layouts accepts and refuses what the verifiers that FlatBuffers generates do: in files that have every
// field of their schema, whatever single byte or word is damaged, wherever they are cut off.
#include "schema/table_verifier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "schema/bundled_program_generated.h"
#include "schema/bundled_program_layout.h"
#include "schema/debug_info_generated.h"
#include "schema/debug_info_layout.h"
#include "schema/flat_tensor_generated.h"
#include "schema/flat_tensor_layout.h"
#include "schema/program_generated.h"
#include "schema/program_layout.h"
#include "schema/shapes_generated.h"
#include "schema/shapes_layout.h"

namespace et::schema {
namespace {

using Bytes = std::vector<uint8_t>;

template <typename Table>
bool generated_accepts(const Bytes& bytes, const char* identifier) {
  flatbuffers::Verifier::Options options;
  options.max_depth = 16;
  options.max_tables = static_cast<flatbuffers::uoffset_t>(bytes.size() + 65536);
  return flatbuffers::Verifier(bytes.data(), bytes.size(), options).VerifyBuffer<Table>(identifier);
}

template <typename Table>
Bytes packed(const typename Table::NativeTableType& table, const char* identifier) {
  flatbuffers::FlatBufferBuilder builder;
  builder.ForceDefaults(true);
  builder.Finish(Table::Pack(builder, &table), identifier);
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

template <typename T>
std::vector<std::unique_ptr<T>> some(T first) {
  std::vector<std::unique_ptr<T>> list;
  list.push_back(std::make_unique<T>(std::move(first)));
  list.push_back(std::make_unique<T>());
  return list;
}

template <typename T>
EValueT value_of(T content) {
  EValueT value;
  value.val.Set(std::move(content));
  return value;
}

template <typename T>
std::unique_ptr<InstructionT> instruction_of(T content) {
  auto instruction = std::make_unique<InstructionT>();
  instruction->instr_args.Set(std::move(content));
  return instruction;
}

/// A plan with a value and an instruction of every kind.
ExecutionPlanT plan() {
  ExecutionPlanT plan;
  plan.name = "forward";
  plan.container_meta_type = std::make_unique<ContainerMetadataT>();
  plan.container_meta_type->encoded_inp_str = "in";
  plan.container_meta_type->encoded_out_str = "out";
  const auto add = [&plan](auto content) {
    plan.values.push_back(std::make_unique<EValueT>(value_of(std::move(content))));
  };
  TensorT tensor;
  tensor.sizes = {2, 3};
  tensor.dim_order = {0, 1};
  tensor.allocation_info = std::make_unique<AllocationDetailsT>();
  tensor.extra_tensor_info = std::make_unique<ExtraTensorInfoT>();
  tensor.extra_tensor_info->fully_qualified_name = "weight";
  add(std::move(tensor));
  StringT text;
  text.string_val = "text";
  add(std::move(text));
  IntListT ints;
  ints.items = {1, 2};
  add(std::move(ints));
  DoubleListT doubles;
  doubles.items = {0.5};
  add(std::move(doubles));
  BoolListT bools;
  bools.items = {1, 0, 1};
  add(std::move(bools));
  TensorListT tensors;
  tensors.items = {0};
  add(std::move(tensors));
  OptionalTensorListT optional;
  optional.items = {0, -1};
  add(std::move(optional));
  add(NullT());
  add(IntT());
  add(BoolT());
  add(DoubleT());
  plan.inputs = {0};
  plan.outputs = {0, 1};
  ChainT chain;
  chain.inputs = {0};
  chain.outputs = {0};
  KernelCallT kernel;
  kernel.args = {0, 1};
  DelegateCallT delegate;
  delegate.args = {0};
  chain.instructions.push_back(instruction_of(std::move(kernel)));
  chain.instructions.push_back(instruction_of(std::move(delegate)));
  chain.instructions.push_back(instruction_of(MoveCallT()));
  chain.instructions.push_back(instruction_of(JumpFalseCallT()));
  chain.instructions.push_back(instruction_of(FreeCallT()));
  FrameT frame;
  frame.filename = "a.py";
  frame.name = "f";
  frame.context = "c";
  FrameListT frames;
  frames.items = some(std::move(frame));
  chain.stacktrace = some(std::move(frames));
  plan.chains = some(std::move(chain));
  OperatorT op;
  op.name = "aten::add";
  op.overload = "out";
  plan.operators = some(std::move(op));
  BackendDelegateT backend;
  backend.id = "Backend";
  backend.processed = std::make_unique<BackendDelegateDataReferenceT>();
  CompileSpecT spec;
  spec.key = "key";
  spec.value = {1, 2, 3};
  backend.compile_specs = some(std::move(spec));
  plan.delegates = some(std::move(backend));
  plan.non_const_buffer_sizes = {0, 64};
  plan.non_const_buffer_device = some(NonConstBufferDeviceT());
  return plan;
}

Bytes program() {
  ProgramT program;
  program.execution_plan = some(plan());
  BufferT buffer;
  buffer.storage = {1, 2};
  program.constant_buffer = some(std::move(buffer));
  BackendDelegateInlineDataT inline_data;
  inline_data.data = {1, 2, 3};
  program.backend_delegate_data = some(std::move(inline_data));
  program.segments = some(DataSegmentT());
  program.constant_segment = std::make_unique<SubsegmentOffsetsT>();
  program.constant_segment->offsets = {0, 16};
  program.mutable_data_segments = some(SubsegmentOffsetsT(*program.constant_segment));
  NamedDataT named;
  named.key = "key";
  program.named_data = some(std::move(named));
  return packed<Program>(program, ProgramIdentifier());
}

Bytes flat_tensor_file() {
  flat_tensor::FlatTensorT file;
  file.segments = some(flat_tensor::DataSegmentT());
  flat_tensor::NamedDataT entry;
  entry.key = "key";
  entry.tensor_layout = std::make_unique<flat_tensor::TensorLayoutT>();
  entry.tensor_layout->sizes = {1, 2};
  entry.tensor_layout->dim_order = {0, 1};
  file.named_data = some(std::move(entry));
  return packed<flat_tensor::FlatTensor>(file, flat_tensor::FlatTensorIdentifier());
}

Bytes shapes_file() {
  shapes::ShapesT file;
  shapes::MethodShapesT method;
  method.name = "forward";
  shapes::SymbolT symbol;
  symbol.name = "batch";
  method.symbols = some(std::move(symbol));
  method.inputs = {shapes::SizeRelation(0, 0, 0, 0, 1, 0)};
  method.outputs = method.inputs;
  method.input_names = {"x", "y"};
  method.output_names = {"z"};
  file.methods = some(std::move(method));
  return packed<shapes::Shapes>(file, shapes::ShapesIdentifier());
}

Bytes debug_file() {
  debug::DebugInfoT file;
  file.strings = {"", "op", "node"};
  debug::MethodInfoT method;
  method.name = "forward";
  method.instructions = {debug::InstructionInfo(1, 2, 0, 0, 5, 0, 1)};
  method.debug_handles = {9};
  method.origins = {1, 2, 3};
  debug::DelegateInfoT delegate;
  delegate.ids = {1};
  delegate.origins = {4, 5};
  method.delegates = some(std::move(delegate));
  file.methods = some(std::move(method));
  return packed<debug::DebugInfo>(file, debug::DebugInfoIdentifier());
}

Bytes bundle() {
  bundled::BundledProgramT file;
  bundled::BundledMethodTestCaseT test_case;
  const auto add = [&test_case](auto content) {
    auto value = std::make_unique<bundled::ValueT>();
    value->val.Set(std::move(content));
    test_case.inputs.push_back(std::move(value));
  };
  bundled::TensorT tensor;
  tensor.sizes = {2};
  tensor.data = {1, 2, 3};
  tensor.dim_order = {0};
  add(std::move(tensor));
  add(bundled::IntT());
  add(bundled::BoolT());
  add(bundled::DoubleT());
  test_case.expected_outputs = some(bundled::ValueT());
  bundled::BundledMethodTestSuiteT suite;
  suite.method_name = "forward";
  suite.test_cases = some(std::move(test_case));
  file.method_test_suites = some(std::move(suite));
  file.program = {1, 2, 3, 4};
  return packed<bundled::BundledProgram>(file, bundled::BundledProgramIdentifier());
}

/// Both verifiers on `file`, on every damage of one byte or word of it, on every beginning of it, and on random damage
/// of several words.
template <typename Table>
void expect_the_same(const Bytes& file, const TableLayouts& layouts) {
  ASSERT_TRUE(verify_tables({file.data(), file.size()}, layouts));
  size_t num_accepted = 0;
  size_t num_refused = 0;
  const auto compare = [&](const Bytes& bytes) {
    const bool accepted = verify_tables({bytes.data(), bytes.size()}, layouts);
    ++(accepted ? num_accepted : num_refused);
    return accepted == generated_accepts<Table>(bytes, layouts.identifier);
  };
  for (size_t size = 0; size <= file.size(); ++size) {
    ASSERT_TRUE(compare(Bytes(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size)))) << size;
  }
  const auto nbytes = static_cast<uint32_t>(file.size());
  Bytes bytes = file;
  for (size_t at = 0; at < file.size(); ++at) {
    for (int value = 0; value < 256; value += at % 4 == 0 ? 1 : 15) {
      bytes[at] = static_cast<uint8_t>(value);
      ASSERT_TRUE(compare(bytes)) << "byte " << at << " is " << value;
    }
    bytes[at] = file[at];
  }
  const auto words = {nbytes,
                      nbytes - 4,
                      UINT32_C(0x7fffffff),
                      UINT32_C(0x80000000),
                      UINT32_C(0xffffffff),
                      UINT32_C(0x40000000),
                      UINT32_C(0x1fffffff),
                      UINT32_C(0xfffffffc)};
  for (size_t at = 0; at + 4 <= file.size(); at += 2) {
    for (const uint32_t word : words) {
      std::memcpy(&bytes[at], &word, 4);
      ASSERT_TRUE(compare(bytes)) << "word " << at << " is " << word;
    }
    std::memcpy(&bytes[at], &file[at], 4);
  }
  std::mt19937 random(20261127);
  for (int i = 0; i < 20000; ++i) {
    Bytes damaged = file;
    for (size_t k = 0; k <= random() % 3; ++k) {
      const uint16_t value = static_cast<uint16_t>(random() % 2 == 0 ? random() % 64 : random());
      std::memcpy(&damaged[random() % (file.size() / 2) * 2], &value, 2);
    }
    ASSERT_TRUE(compare(damaged)) << "random damage " << i;
  }
  EXPECT_GT(num_accepted, file.size());
  EXPECT_GT(num_refused, file.size());
}

TEST(TableVerifier, Programs) { expect_the_same<Program>(program(), kProgramLayouts); }
TEST(TableVerifier, DataFiles) {
  expect_the_same<flat_tensor::FlatTensor>(flat_tensor_file(), flat_tensor::kFlatTensorLayouts);
}
TEST(TableVerifier, Shapes) { expect_the_same<shapes::Shapes>(shapes_file(), shapes::kShapesLayouts); }
TEST(TableVerifier, DebugInfo) { expect_the_same<debug::DebugInfo>(debug_file(), debug::kDebugInfoLayouts); }
TEST(TableVerifier, Bundles) { expect_the_same<bundled::BundledProgram>(bundle(), bundled::kBundledProgramLayouts); }

/// Half of the file is tables that refer to one vector of strings, which takes the other half.
TEST(TableVerifier, SharedStringsTakeNoLongTime) {
  constexpr size_t kStrings = 100000;
  constexpr size_t kTables = 10000;
  flatbuffers::FlatBufferBuilder builder;
  const auto text = builder.CreateString("x");
  const auto names = builder.CreateVector(std::vector<flatbuffers::Offset<flatbuffers::String>>(kStrings, text));
  std::vector<flatbuffers::Offset<shapes::MethodShapes>> methods;
  for (size_t i = 0; i < kTables; ++i) {
    methods.push_back(shapes::CreateMethodShapes(builder, text, 0, 0, 0, names));
  }
  builder.Finish(shapes::CreateShapes(builder, 0, builder.CreateVector(methods)), shapes::ShapesIdentifier());
  EXPECT_FALSE(verify_tables({builder.GetBufferPointer(), builder.GetSize()}, shapes::kShapesLayouts));
}

}  // namespace
}  // namespace et::schema
