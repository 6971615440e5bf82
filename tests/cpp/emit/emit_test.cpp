// What stands in the file: values, calls, segments, named data. That the file runs is the driver's test.
#include "emit/emit.h"

#include "emit/named_tables.h"
#include "emitted_file.h"
#include "runtime/debug_info.h"
#include "schema/debug_info_generated.h"
#include "schema/flat_tensor_generated.h"
#include "schema/pte_header.h"
#include "schema/shapes_generated.h"

namespace et::emit {
namespace {

using Lines = std::vector<std::string>;

EmitOptions without_debug() {
  EmitOptions options;
  options.debug_info = false;
  return options;
}

const schema::ExecutionPlan& plan(const EmittedFile& file, uint32_t index = 0) {
  return *file.program()->execution_plan()->Get(index);
}

const schema::Tensor& tensor(const EmittedFile& file, uint32_t value) {
  return *plan(file).values()->Get(value)->val_as_Tensor();
}

TEST(Emit, OutVariantsRepeatTheirOut) {
  const EmittedFile file = emit_text(R"(
method @forward(%x: f32[2, 3]) stage(lowered) {
  %y = aten::add.out(%x, %x, 1) : f32[2, 3]
  %z = aten::add.out(%y, %x, 1) : f32[2, 3]
  return %z, %y, 7
})",
                                     without_debug());
  ASSERT_EQ(file.error, Error::Ok);
  EXPECT_EQ(instructions(plan(file)), (Lines{"aten::add.out 0 0 1 2 2", "aten::add.out 2 0 1 3 3"}))
      << "the literal 1 is one value, the operator one entry";
  EXPECT_EQ(plan(file).operators()->size(), 1u);
  EXPECT_EQ(plan(file).outputs()->Get(0), 3);
  EXPECT_EQ(plan(file).values()->Get(static_cast<uint32_t>(plan(file).outputs()->Get(2)))->val_as_Int()->int_val(), 7);
}

/// The layout of a file without data: a plain flatbuffer, one empty segment.
TEST(Emit, WithoutDataThereIsNoHeader) {
  const EmittedFile file = emit_text(R"(
method @forward(%x: f32[2]) stage(lowered) {
  %y = aten::relu.out(%x) : f32[2]
  return %y
})",
                                     without_debug());
  ASSERT_EQ(file.error, Error::Ok);
  EXPECT_NE(std::string(file.bytes.begin() + 8, file.bytes.begin() + 12), "eh00");
  EXPECT_EQ(file.program()->segments()->size(), 1u);
  EXPECT_EQ(file.program()->constant_segment()->offsets()->size(), 1u);
}

TEST(Emit, SeveralOutsEndInAListOfThem) {
  const EmittedFile file = emit_text(R"(
method @forward(%x: f32[2, 3]) stage(lowered) {
  %v, %i = aten::max.dim_max(%x, 1, false) : f32[2], i64[2]
  %a, %b = aten::split_copy.Tensor_out(%x, 1, 0) : f32[1, 3], f32[1, 3]
  return %v, %i, %a, %b
})",
                                     without_debug());
  ASSERT_EQ(file.error, Error::Ok);
  EXPECT_EQ(instructions(plan(file)),
            (Lines{"aten::max.dim_max 0 1 2 3 4 5", "aten::split_copy.Tensor_out 0 1 6 9 9"}));
  EXPECT_EQ(plan(file).values()->Get(5)->val_as_TensorList()->items()->Get(1), 4);
  EXPECT_EQ(plan(file).values()->Get(9)->val_as_TensorList()->items()->Get(0), 7);
}

TEST(Emit, InPlaceCallsRepeatTheirSelfAndBuffersHaveStateInTheirOwnArena) {
  const EmittedFile file = emit_text(R"(
buffer @counter : f32[4] = [1.0, 2.0, 3.0, 4.0]
method @forward(%x: f32[4]) stage(lowered) {
  %b = buffer @counter : f32[4]
  %y = aten::add.out(%b, %x, 1) : f32[4]
  %c = aten::copy_(%b, %y, false) : f32[4] alias(%b)
  return %c, writes {buffer @counter = %c}
})",
                                     without_debug());
  ASSERT_EQ(file.error, Error::Ok);
  EXPECT_EQ(instructions(plan(file)), (Lines{"aten::add.out 1 0 2 3 3", "aten::copy_ 1 3 4 1"}));
  EXPECT_EQ(plan(file).outputs()->Get(0), 1);
  const schema::Tensor& state = tensor(file, 1);
  EXPECT_EQ(state.data_buffer_idx(), 1u);
  EXPECT_EQ(state.allocation_info()->memory_id(), 2u);
  EXPECT_EQ(state.extra_tensor_info()->fully_qualified_name()->str(), "counter");
  ASSERT_EQ(file.program()->mutable_data_segments()->size(), 1u);
  const schema::SubsegmentOffsets* mutables = file.program()->mutable_data_segments()->Get(0);
  EXPECT_EQ(mutables->segment_index(), 1u);
  const auto layout = schema::parse_pte_header(
      Span<const uint8_t>(file.bytes.data(), std::min<size_t>(file.bytes.size(), schema::kHeaderPrefixSize)),
      file.bytes.size());
  ASSERT_TRUE(layout.ok());
  float values[4];
  std::memcpy(values,
              file.bytes.data() + layout.get().segment_base_offset + file.program()->segments()->Get(1)->offset() +
                  mutables->offsets()->Get(1),
              sizeof(values));
  EXPECT_EQ(values[3], 4.0f);
}

TEST(Emit, ZeroStateIsNotStoredUnlessThePublishedRuntimeShallReadIt) {
  const std::string text = R"(
buffer @cache : f32[4] = [0.0, 0.0, 0.0, 0.0]
method @forward(%x: f32[4]) stage(lowered) {
  %b = buffer @cache : f32[4]
  %c = aten::copy_(%b, %x, false) : f32[4] alias(%b)
  return %c, writes {buffer @cache = %c}
})";
  EXPECT_EQ(tensor(emit_text(text, without_debug()), 1).data_buffer_idx(), 0u);
  EmitOptions options = without_debug();
  options.compatible = true;
  EXPECT_EQ(tensor(emit_text(text, options), 1).data_buffer_idx(), 1u);
}

TEST(Emit, EqualConstantsAreStoredOnce) {
  const EmittedFile file = emit_text(R"(
constant @a : f32[2] = [1.0, 2.0]
constant @b : f32[2] = [1.0, 2.0]
constant @c : f32[1] = [3.0]
method @forward(%x: f32[2]) stage(lowered) {
  %a = constant @a : f32[2]
  %b = constant @b : f32[2]
  %c = constant @c : f32[1]
  %v = alias(%a) : f32[1, 2] alias(%a)
  %y = aten::add.out(%a, %b, 1) : f32[2]
  %z = aten::mul.out(%y, %c) : f32[2]
  %w = aten::mul.out(%z, %v) : f32[1, 2]
  return %w
})",
                                     without_debug());
  ASSERT_EQ(file.error, Error::Ok);
  const auto* offsets = file.program()->constant_segment()->offsets();
  ASSERT_EQ(offsets->size(), 3u);
  EXPECT_EQ(offsets->Get(1), 0u);
  EXPECT_EQ(offsets->Get(2), 16u);
  EXPECT_EQ(file.program()->segments()->Get(0)->size(), 20u);
  EXPECT_EQ(tensor(file, 1).data_buffer_idx(), 1u);
  EXPECT_EQ(tensor(file, 2).data_buffer_idx(), 1u);
  uint32_t views = 0;
  for (const schema::EValue* value : *plan(file).values()) {
    const schema::Tensor* view = value->val_as_Tensor();
    views += view != nullptr && view->sizes()->size() == 2 && view->data_buffer_idx() == 1 ? 1 : 0;
  }
  EXPECT_EQ(views, 1u) << "the view of a constant is a second value of the same data";
}

TEST(Emit, StaticViewsAreSecondValuesOfTheSamePlace) {
  const EmittedFile file = emit_text(R"(
method @forward(%x: f32[2, 3]) stage(lowered) {
  %y = aten::relu.out(%x) : f32[2, 3]
  %v = alias(%y) : f32[6] alias(%y)
  %z = aten::neg.out(%v) : f32[6]
  return %z
})",
                                     without_debug());
  ASSERT_EQ(file.error, Error::Ok);
  EXPECT_EQ(instructions(plan(file)), (Lines{"aten::relu.out 0 1 1", "aten::neg.out 2 3 3"}));
  EXPECT_EQ(tensor(file, 1).allocation_info()->memory_offset_low(),
            tensor(file, 2).allocation_info()->memory_offset_low());
  EXPECT_EQ(tensor(file, 2).sizes()->size(), 1u);
}

TEST(Emit, DynamicShapesHaveTheirBoundAndComputedSizesTheirOwnValue) {
  const EmittedFile file = emit_text(R"(
method @forward(%x: f32[s0:{2..16}, 4]) stage(lowered) {
  %n = aten::sym_size.int(%x, 0) : int(s0:{2..16})
  %m = executorch_prim::mul.Scalar(%n, 4) : int(4*s0:{8..64})
  %v = aten::expand_copy.out(%x, [2, %n, 4], false) : f32[2, s0:{2..16}, 4]
  %w = executorch_prim::et_view(%v, [2, %m]) : f32[2, 4*s0:{8..64}] alias(%v)
  return %w
})",
                                     without_debug());
  ASSERT_EQ(file.error, Error::Ok);
  EXPECT_EQ(tensor(file, 0).shape_dynamism(), schema::TensorShapeDynamism_DYNAMIC_BOUND);
  EXPECT_EQ(tensor(file, 0).sizes()->Get(0), 16);
  const Lines lines = instructions(plan(file));
  EXPECT_EQ(lines[0], "aten::sym_size.int 0 1 2");
  EXPECT_EQ(lines[1], "executorch_prim::mul.Scalar 2 3 4");
  EXPECT_EQ(lines[3].substr(0, 32), "executorch_prim::et_view.default");
  EXPECT_EQ(std::count(lines[3].begin(), lines[3].end(), ' '), 3) << "self, sizes, out; not repeated";
}

TEST(Emit, CondIsTwoJumpsAndMoves) {
  const EmittedFile file = emit_text(R"(
method @forward(%p: bool, %x: f32[4]) stage(lowered) {
  %r = cond(%p, [%x]) : f32[4] {
    region @true(%a: f32[4]) {
      %t = aten::relu.out(%a) : f32[4]
      return %t
    }
    region @false(%b: f32[4]) {
      %f = aten::neg.out(%b) : f32[4]
      return %f
    }
  }
  %z = aten::neg.out(%r) : f32[4]
  return %z
})",
                                     without_debug());
  ASSERT_EQ(file.error, Error::Ok);
  EXPECT_EQ(instructions(plan(file)), (Lines{"jump 4 unless 0", "aten::relu.out 1 2 2", "move 2 3", "jump 6 unless 6",
                                             "aten::neg.out 1 4 4", "move 4 3", "aten::neg.out 3 5 5"}));
}

const uint8_t* named_data(const EmittedFile& file, const char* key) {
  for (const schema::NamedData* entry : *file.program()->named_data()) {
    if (entry->key()->str() == key) {
      const auto layout = schema::parse_pte_header(Span<const uint8_t>(file.bytes.data(), schema::kHeaderPrefixSize),
                                                   file.bytes.size());
      const schema::DataSegment* segment = file.program()->segments()->Get(entry->segment_index());
      return file.bytes.data() + layout.get().segment_base_offset + segment->offset();
    }
  }
  return nullptr;
}

TEST(Emit, NamedDataSayWhereInstructionsComeFromAndHowSizesRelate) {
  const EmittedFile file = emit_text(R"(
method @forward(%x: f32[2*s0:{4..32}], %k: int(s0:{2..16})) stage(lowered) {
  %y = aten::relu.out(%x) : f32[2*s0:{4..32}] handle(7, 3)  // fx: relu_3, in layers.0, model.py:12 forward
  return %y
})");
  ASSERT_EQ(file.error, Error::Ok);
  const uint8_t* debug_bytes = named_data(file, kDebugKey);
  ASSERT_NE(debug_bytes, nullptr);
  const schema::debug::DebugInfo* debug = schema::debug::GetDebugInfo(debug_bytes);
  ASSERT_EQ(debug->version(), 1u);
  const runtime::InstructionOrigin origin = runtime::OriginReader(*debug, *debug->methods()->Get(0)).next();
  EXPECT_EQ(origin.op, "aten.relu.default");
  EXPECT_EQ(origin.node, "relu");
  EXPECT_EQ(origin.node_number, 4u);
  EXPECT_EQ(origin.file, "model.py");
  EXPECT_EQ(origin.module_path, "layers.0");
  EXPECT_EQ(origin.line, 12u);
  const auto* origins = debug->methods()->Get(0)->origins();
  const std::vector<uint8_t> handles(origins->end() - 3, origins->end());
  EXPECT_EQ(handles, (std::vector<uint8_t>{2, 6, 8}));  // two: 3, and 4 more

  const uint8_t* shape_bytes = named_data(file, kShapesKey);
  ASSERT_NE(shape_bytes, nullptr);
  const schema::shapes::MethodShapes* shapes = schema::shapes::GetShapes(shape_bytes)->methods()->Get(0);
  ASSERT_EQ(shapes->symbols()->size(), 1u);
  EXPECT_EQ(shapes->symbols()->Get(0)->lower(), 2);
  EXPECT_EQ(shapes->symbols()->Get(0)->upper(), 16);
  ASSERT_EQ(shapes->inputs()->size(), 2u);
  EXPECT_EQ(shapes->inputs()->Get(0)->scale(), 2);
  EXPECT_EQ(shapes->inputs()->Get(1)->dim(), -1);
  EXPECT_EQ(shapes->input_names()->Get(0)->str(), "x");
}

TEST(Emit, PlansStandInOrderOfTheirNames) {
  const EmittedFile file = emit_text(R"(
constant @t : f32[1] = [3.0]
method @zeta(%x: f32[1]) stage(lowered) {
  return %x
}
method @alpha(%x: f32[1]) stage(lowered) {
  return %x
})",
                                     without_debug());
  ASSERT_EQ(file.error, Error::Ok);
  EXPECT_EQ(plan(file, 0).name()->str(), "alpha");
  EXPECT_EQ(plan(file, 1).name()->str(), "zeta");
}

TEST(Emit, ConstantMethodsHaveNoInstructions) {
  const auto program = planned("constant @t : f32[1] = [3.0]\n");
  ir::ConstantMethod method;
  method.name = "get_config";
  method.values = {{int64_t{42}}, {std::string("@t")}, {std::string("text")}};
  program->constant_methods.push_back(method);
  Emitted emitted;
  ir::Diagnostics diagnostics;
  ASSERT_EQ(emit(program, without_debug(), emitted, diagnostics), Error::Ok);
  const std::vector<uint8_t> bytes = bytes_of(emitted.program);
  const schema::ExecutionPlan* only = schema::GetProgram(bytes.data())->execution_plan()->Get(0);
  EXPECT_EQ(only->chains()->Get(0)->instructions()->size(), 0u);
  EXPECT_EQ(only->non_const_buffer_sizes()->size(), 1u);
  ASSERT_EQ(only->outputs()->size(), 3u);
  EXPECT_EQ(only->values()->Get(0)->val_as_Int()->int_val(), 42);
  EXPECT_EQ(only->values()->Get(1)->val_as_Tensor()->data_buffer_idx(), 1u);
}

TEST(Emit, ExternalConstantsGoToAnotherFile) {
  auto program = planned(R"(
constant @w : f32[2] = [1.0, 2.0]
method @forward(%x: f32[2]) stage(lowered) {
  %w = constant @w : f32[2]
  %y = aten::add.out(%x, %w, 1) : f32[2]
  return %y
})");
  program->constants.at("w").external_key = "layer.weight";
  program->constants.at("w").external_file = "weights";
  Emitted emitted;
  ir::Diagnostics diagnostics;
  ASSERT_EQ(emit(program, without_debug(), emitted, diagnostics), Error::Ok);
  const std::vector<uint8_t> bytes = bytes_of(emitted.program);
  const schema::Tensor* weight =
      schema::GetProgram(bytes.data())->execution_plan()->Get(0)->values()->Get(1)->val_as_Tensor();
  EXPECT_EQ(weight->extra_tensor_info()->location(), schema::TensorDataLocation_EXTERNAL);
  EXPECT_EQ(weight->extra_tensor_info()->fully_qualified_name()->str(), "layer.weight");
  const std::vector<uint8_t> external = bytes_of(emitted.externals.at("weights"));
  const auto layout = schema::parse_flat_tensor_header(Span<const uint8_t>(external.data(), schema::kHeaderPrefixSize),
                                                       external.size());
  ASSERT_TRUE(layout.ok());
  const auto* table = schema::flat_tensor::GetFlatTensor(external.data());
  EXPECT_EQ(table->named_data()->Get(0)->key()->str(), "layer.weight");
  float value;
  std::memcpy(&value, external.data() + layout.get().segment_base_offset + sizeof(float), sizeof(value));
  EXPECT_EQ(value, 2.0f);
}

TEST(Emit, ExternalNamedDataGoToAnotherFile) {
  auto program = planned(R"(
constant @w : f32[2] external("layer.weight", "weights") = [1.0, 2.0]
named_data "inside" = "here"
named_data "outside" external("weights") = "there"
method @forward(%x: f32[2]) stage(lowered) {
  %w = constant @w : f32[2]
  %y = aten::add.out(%x, %w, 1) : f32[2]
  return %y
})");
  Emitted emitted;
  ir::Diagnostics diagnostics;
  ASSERT_EQ(emit(program, without_debug(), emitted, diagnostics), Error::Ok);
  const std::vector<uint8_t> bytes = bytes_of(emitted.program);
  const auto& inside = *schema::GetProgram(bytes.data())->named_data();
  ASSERT_EQ(inside.size(), 1u);
  EXPECT_EQ(inside.Get(0)->key()->str(), "inside");
  ASSERT_EQ(emitted.externals.size(), 1u);
  const std::vector<uint8_t> external = bytes_of(emitted.externals.at("weights"));
  const auto layout = schema::parse_flat_tensor_header(Span<const uint8_t>(external.data(), schema::kHeaderPrefixSize),
                                                       external.size());
  ASSERT_TRUE(layout.ok());
  const auto* table = schema::flat_tensor::GetFlatTensor(external.data());
  ASSERT_EQ(table->named_data()->size(), 2u);
  EXPECT_NE(table->named_data()->Get(0)->tensor_layout(), nullptr);
  EXPECT_EQ(table->named_data()->Get(1)->key()->str(), "outside");
  EXPECT_EQ(table->named_data()->Get(1)->tensor_layout(), nullptr);
  const auto* segment = table->segments()->Get(table->named_data()->Get(1)->segment_index());
  const auto* data = reinterpret_cast<const char*>(external.data()) + layout.get().segment_base_offset;
  EXPECT_EQ(std::string(data + segment->offset(), segment->size()), "there");
}

TEST(Emit, DelegatesShareEqualPayloads) {
  auto program = planned(R"(
delegate "backend" = "same"
delegate "backend" spec("precision", "f16") = "same"
method @forward(%x: f32[2]) stage(lowered) {
  %y = delegate @0(%x) : f32[2]
  %z = delegate @1(%y) : f32[2]
  return %z
})");
  ASSERT_EQ(program->delegates.size(), 2u);
  Emitted emitted;
  ir::Diagnostics diagnostics;
  ASSERT_EQ(emit(program, without_debug(), emitted, diagnostics), Error::Ok);
  const std::vector<uint8_t> bytes = bytes_of(emitted.program);
  const schema::ExecutionPlan& only = *schema::GetProgram(bytes.data())->execution_plan()->Get(0);
  EXPECT_EQ(instructions(only), (Lines{"delegate 0 : 0 1", "delegate 1 : 1 2"}));
  EXPECT_EQ(only.delegates()->Get(0)->processed()->index(), 1u);
  EXPECT_EQ(only.delegates()->Get(1)->processed()->index(), 1u);
  EXPECT_EQ(schema::GetProgram(bytes.data())->segments()->size(), 2u);

  EmitOptions options = without_debug();
  options.inline_payloads = true;
  ASSERT_EQ(emit(program, options, emitted, diagnostics), Error::Ok);
  const std::vector<uint8_t> with_inline = bytes_of(emitted.program);
  const schema::Program* tables = schema::GetProgram(with_inline.data());
  ASSERT_EQ(tables->backend_delegate_data()->size(), 1u);
  const auto* data = tables->backend_delegate_data()->Get(0)->data();
  EXPECT_EQ(std::string(data->begin(), data->end()), "same");
  EXPECT_EQ(tables->execution_plan()->Get(0)->delegates()->Get(1)->processed()->location(),
            schema::DataLocation_INLINE);
}

TEST(Emit, CompatibleNamesEveryOperatorThatIsNotPublished) {
  EmitOptions options;
  options.compatible = true;
  const EmittedFile file = emit_text(R"(
method @forward(%x: f32[2]) stage(lowered) {
  %y = my::op.out(%x) : f32[2]  // fx: op, model.py:3 forward
  %z = my::other.out(%y) : f32[2]  // fx: other, model.py:4 forward
  %w = aten::relu.out(%z) : f32[2]
  return %w
})",
                                     options);
  EXPECT_EQ(file.error, Error::NotSupported);
  ASSERT_EQ(file.diagnostics.size(), 2u);
  EXPECT_EQ(file.diagnostics[0].op, "my::op.out");
  EXPECT_EQ(file.diagnostics[1].source.line, 4);
}

TEST(Emit, RefusesWhatItCannotSay) {
  Emitted emitted;
  ir::Diagnostics diagnostics;
  ir::ParseError error;
  Result<std::unique_ptr<ir::Program>> lowered =
      ir::parse("method @forward(%x: f32[2]) stage(lowered) {\n  return %x\n}", &error);
  ASSERT_TRUE(lowered.ok());
  EXPECT_EQ(emit(std::shared_ptr<ir::Program>(std::move(*lowered)), {}, emitted, diagnostics), Error::InvalidState);
  EmitOptions options;
  options.segment_alignment = 100;
  EXPECT_EQ(emit(planned("method @forward() stage(lowered) {\n  return\n}"), options, emitted, diagnostics),
            Error::InvalidArgument);
}

TEST(Emit, TheSameProgramGivesTheSameBytes) {
  const std::string text = R"(
constant @a : f32[2] = [1.0, 2.0]
method @forward(%x: f32[2]) stage(lowered) {
  %a = constant @a : f32[2]
  %y = aten::add.out(%x, %a, 1) : f32[2]  // fx: add, model.py:1 forward
  return %y
})";
  EXPECT_EQ(emit_text(text).bytes, emit_text(text).bytes);
}

}  // namespace
}  // namespace et::emit
