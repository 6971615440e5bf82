// Method: inputs, outputs, binding of kernels and delegates, errors that leave it usable.
#include <map>
#include <thread>

#include "../base/needs.h"
#include "method_fixture.h"

namespace et::test {
namespace {

using Dynamism = fb::TensorShapeDynamism;
constexpr Dynamism kUnbound = fb::TensorShapeDynamism_DYNAMIC_UNBOUND;

/// y = x + w
ProgramBuilder add_program() {
  ProgramBuilder b;
  const int x = b.input(b.tensor({2, 2}));
  const int w = b.constant<float>({2, 2}, {10, 20, 30, 40});
  const int y = b.output(b.tensor({2, 2}));
  b.kernel("test::add", "out", {x, w, y, y});
  return b;
}

TEST_F(MethodTest, RunsAKernelOnAConstant) {
  ProgramBuilder b = add_program();
  auto m = method(b);
  TestTensor x({2, 2}, {1, 2, 3, 4});
  for (int run = 0; run < 3; ++run) {
    ASSERT_EQ(m->method().set_input(x.value(), 0), Error::Ok);
    ASSERT_EQ(m->method().execute(), Error::Ok) << messages();
    EXPECT_EQ(floats(m->method().get_output(0)), (std::vector<float>{11, 22, 33, 44}));
  }
}

TEST_F(MethodTest, WrongInputsAreNamedAndLeaveTheMethodUsable) {
  ProgramBuilder b = add_program();
  auto m = method(b);
  TestTensor wrong_rank({4});
  TestTensor wrong_size({2, 3});
  TestTensor good({2, 2}, {1, 1, 1, 1});
  EXPECT_EQ(m->method().set_input(wrong_rank.value(), 0), Error::InvalidArgument);
  said("input 0: rank 1 was given, the method takes rank 2");
  EXPECT_EQ(m->method().set_input(wrong_size.value(), 0), Error::InvalidArgument);
  said("input 0: size 3 of dimension 1 was given, the method takes 2");
  EXPECT_EQ(m->method().set_input(EValue(int64_t{1}), 0), Error::InvalidType);
  said("input 0: Int was given, the method takes Tensor");
  EXPECT_EQ(m->method().set_input(good.value(), 1), Error::InvalidArgument);
  said("takes 1 inputs");
  EXPECT_EQ(m->method().set_inputs({}), Error::InvalidArgument);
  EXPECT_EQ(m->method().execute(), Error::InvalidState);
  said("input 0 of method 'forward' has not been set");
  int64_t sizes[] = {2, 2};
  int64_t strides[2];
  const uint8_t order[] = {0, 1};
  int32_t ints[4] = {};
  TensorImpl wrong_dtype(ScalarType::Int, 2, sizes, strides, order, ints, sizeof(ints));
  EXPECT_EQ(m->method().set_input(EValue(Tensor(&wrong_dtype)), 0), Error::InvalidType);
  said("input 0: dtype torch.int32 was given, the method takes torch.float32");
  const uint8_t transposed[] = {1, 0};
  TensorImpl wrong_order(ScalarType::Float, 2, sizes, strides, transposed, good.impl().data(), 16);
  EXPECT_EQ(m->method().set_input(EValue(Tensor(&wrong_order)), 0), Error::InvalidArgument);
  said("another order");
  ASSERT_EQ(m->method().set_input(good.value(), 0), Error::Ok);
  ASSERT_EQ(m->method().execute(), Error::Ok);
  EXPECT_EQ(floats(m->method().get_output(0)), (std::vector<float>{11, 21, 31, 41}));
}

TEST_F(MethodTest, UnplannedInputsAndOutputsAreUsedInPlace) {
  ProgramBuilder b;
  const int x = b.input(b.open_tensor({3}));
  const int y = b.output(b.open_tensor({3}));
  b.kernel("test::add", "out", {x, x, y, y});
  auto m = method(b);
  TestTensor input({3}, {1, 2, 3});
  float out[3] = {};
  ASSERT_EQ(m->method().set_output_data_ptr(out, sizeof(out), 0), Error::Ok);
  ASSERT_EQ(m->method().set_input(input.value(), 0), Error::Ok);
  ASSERT_EQ(m->method().execute(), Error::Ok) << messages();
  EXPECT_EQ(out[2], 6);
  EXPECT_EQ(m->method().get_output(0).to_tensor().const_data_ptr(), out);
  // Without memory of the caller's, the data allocator's is used.
  ASSERT_EQ(m->method().set_output_data_ptr(nullptr, 0, 0), Error::Ok);
  ASSERT_EQ(m->method().set_input(input.value(), 0), Error::Ok);
  ASSERT_EQ(m->method().execute(), Error::Ok) << messages();
  EXPECT_EQ(floats(m->method().get_output(0)), (std::vector<float>{2, 4, 6}));
  // Too small.
  ASSERT_EQ(m->method().set_output_data_ptr(out, 8, 0), Error::Ok);
  ASSERT_EQ(m->method().set_input(input.value(), 0), Error::Ok);
  EXPECT_EQ(m->method().execute(), Error::OutOfResources);
  said("needs 12 bytes, set_output_data_ptr was given 8");
}

TEST_F(MethodTest, PlannedOutputsAreCopiedToTheCaller) {
  ProgramBuilder b = add_program();
  auto m = method(b);
  TestTensor x({2, 2}, {1, 2, 3, 4});
  float out[4] = {};
  ASSERT_EQ(m->method().set_output_data_ptr(out, sizeof(out), 0), Error::Ok);
  ASSERT_EQ(m->method().set_input(x.value(), 0), Error::Ok);
  ASSERT_EQ(m->method().execute(), Error::Ok);
  EXPECT_EQ(out[3], 44);
  ASSERT_EQ(m->method().set_output_data_ptr(out, 8, 0), Error::Ok);
  ASSERT_EQ(m->method().set_input(x.value(), 0), Error::Ok);
  EXPECT_EQ(m->method().execute(), Error::OutOfResources);
}

TEST_F(MethodTest, DynamicSizesFollowTheInputUpToTheBound) {
  ProgramBuilder b;
  const int x = b.input(b.tensor({4, 2}, ScalarType::Float, kBound));
  const int y = b.output(b.tensor({4, 2}, ScalarType::Float, kBound));
  b.kernel("test::add", "out", {x, x, y, y});
  auto m = method(b);
  for (const int64_t rows : {3, 4, 0, 1}) {
    TestTensor input({rows, 2});
    ASSERT_EQ(m->method().set_input(input.value(), 0), Error::Ok) << messages();
    ASSERT_EQ(m->method().execute(), Error::Ok) << messages();
    EXPECT_EQ(m->method().get_output(0).to_tensor().size(0), rows);
  }
  TestTensor large({5, 2});
  EXPECT_EQ(m->method().set_input(large.value(), 0), Error::InvalidArgument);
  said("size 5 of dimension 0 was given, the method was exported for 0 to 4");
}

TEST_F(MethodTest, ASmallOutputBufferIsNotOverrunAfterALargerOne) {
  ProgramBuilder b;
  const int x = b.input(b.tensor({4}, ScalarType::Float, kBound));
  const int y = b.output(b.open_tensor({4}, ScalarType::Float, kBound));
  b.kernel("test::add", "out", {x, x, y, y});
  auto m = method(b);
  float large[4];
  float small[2];
  TestTensor four({4});
  ASSERT_EQ(m->method().set_output_data_ptr(large, sizeof(large), 0), Error::Ok);
  ASSERT_EQ(m->method().set_input(four.value(), 0), Error::Ok);
  ASSERT_EQ(m->method().execute(), Error::Ok);
  ASSERT_EQ(m->method().set_output_data_ptr(small, sizeof(small), 0), Error::Ok);
  ASSERT_EQ(m->method().set_input(four.value(), 0), Error::Ok);
  EXPECT_EQ(m->method().execute(), Error::OutOfResources);
  TestTensor two({2}, {1, 2});
  ASSERT_EQ(m->method().set_input(two.value(), 0), Error::Ok);
  ASSERT_EQ(m->method().execute(), Error::Ok) << messages();
  EXPECT_EQ(small[1], 4);
}

TEST_F(MethodTest, LowerBoundsAndEqualSizesAreEnforced) {
  ProgramBuilder b;
  const int x = b.input(b.tensor({8, 6}, ScalarType::Float, kBound));
  const int y = b.input(b.tensor({8, 6}, ScalarType::Float, kBound));
  const int z = b.output(b.tensor({8, 6}, ScalarType::Float, kBound));
  b.kernel("test::add", "out", {x, y, z, z});
  fb::shapes::ShapesT shapes;
  shapes.methods.push_back(std::make_unique<fb::shapes::MethodShapesT>());
  auto& s = *shapes.methods[0];
  s.name = "forward";
  s.symbols.push_back(std::make_unique<fb::shapes::SymbolT>());
  s.symbols[0]->name = "batch";
  s.symbols[0]->lower = 2;
  s.symbols[0]->upper = 4;
  s.inputs = {fb::shapes::SizeRelation(0, 0, 0, 0, 2, 0), fb::shapes::SizeRelation(1, 0, 0, 0, 2, 0)};
  s.input_names = {"left", "right"};
  b.named_data("executorch_py.shapes",
               ProgramBuilder::pack<fb::shapes::Shapes>(shapes, fb::shapes::ShapesIdentifier()));
  auto m = method(b);
  EXPECT_EQ(m->meta().input_bounds(0, 0).lower, 4);
  EXPECT_EQ(m->meta().input_bounds(0, 0).upper, 8);
  EXPECT_EQ(m->meta().input_bounds(0, 0).symbol, "batch");
  EXPECT_EQ(m->meta().input_name(1), "right");
  const auto run = [&](int64_t left, int64_t right) {
    messages().clear();
    TestTensor a({left, 6});
    TestTensor c({right, 6});
    const Error error = m->method().set_input(a.value(), 0);
    if (error != Error::Ok) {
      return error;
    }
    EXPECT_EQ(m->method().set_input(c.value(), 1), Error::Ok);
    return m->method().execute();
  };
  EXPECT_EQ(run(4, 4), Error::Ok) << messages();
  EXPECT_EQ(run(8, 8), Error::Ok);
  EXPECT_EQ(run(2, 2), Error::InvalidArgument);
  said("input 0 ('left'): size 2 of dimension 0 was given, which makes batch 1; the method was exported for 2 to 4");
  EXPECT_EQ(run(5, 5), Error::InvalidArgument);
  said("must be 2 * batch + 0");
  EXPECT_EQ(run(4, 6), Error::InvalidArgument);
  said("input 1 ('right'): size 6 of dimension 0 makes batch 3, another input makes it 2");
  EXPECT_EQ(run(6, 6), Error::Ok);
  TestTensor narrow({4, 5});
  EXPECT_EQ(m->method().set_input(narrow.value(), 0), Error::InvalidArgument);
  said("size 5 of dimension 1 was given, the method takes 6");
}

TEST_F(MethodTest, DataDependentOutputsTakeMemoryOfTheAllocator) {
  ProgramBuilder b;
  const int x = b.input(b.tensor({4}));
  const int y = b.output(b.open_tensor({4}, ScalarType::Float, kUnbound));
  b.kernel("test::positive", "out", {x, y, y});
  auto m = method(b);
  TestTensor input({4}, {1, -1, 2, 3});
  for (int run = 0; run < 2; ++run) {
    ASSERT_EQ(m->method().set_input(input.value(), 0), Error::Ok);
    ASSERT_EQ(m->method().execute(), Error::Ok) << messages();
    EXPECT_EQ(floats(m->method().get_output(0)), (std::vector<float>{1, 2, 3}));
  }
  input.elements() = {-1, -1, -1, -1};
  ASSERT_EQ(m->method().set_input(input.value(), 0), Error::Ok);
  ASSERT_EQ(m->method().execute(), Error::Ok);
  EXPECT_EQ(m->method().get_output(0).to_tensor().numel(), 0);
}

TEST_F(MethodTest, MissingOperatorsAreNamedTogether) {
  ProgramBuilder b;
  const int x = b.input(b.tensor({1}));
  b.kernel("aten::foo", "out", {x, x});
  b.kernel("aten::bar", "", {x, x});
  EXPECT_EQ(method_error(b), Error::OperatorMissing);
  said("aten::foo.out, aten::bar");
}

TEST_F(MethodTest, ArgumentsMustFitTheSignature) {
  ProgramBuilder b;
  const int x = b.input(b.tensor({1}));
  b.kernel("test::add", "out", {x, b.integer(1), x, x});
  EXPECT_EQ(method_error(b), Error::InvalidProgram);
  said("argument 1 (Int) does not fit its signature 'eeo'");
  ProgramBuilder few;
  const int y = few.input(few.tensor({1}));
  few.kernel("test::add", "out", {y, y});
  EXPECT_EQ(method_error(few), Error::InvalidProgram);
}

TEST_F(MethodTest, AnErrorNamesOperatorModuleAndLine) {
  ProgramBuilder b;
  const int x = b.input(b.tensor({1}));
  b.kernel("test::fail", "out", {x, x, x});
  fb::debug::DebugInfoT debug;
  debug.strings = {"", "aten.embedding.default", "embedding", "encoder.embeddings", "model.py"};
  debug.methods.push_back(std::make_unique<fb::debug::MethodInfoT>());
  debug.methods[0]->name = "forward";
  debug.methods[0]->instructions = {fb::debug::InstructionInfo(1, 2, 3, 4, 42, 0, 1)};
  debug.methods[0]->debug_handles = {7};
  b.named_data("executorch_py.debug",
               ProgramBuilder::pack<fb::debug::DebugInfo>(debug, fb::debug::DebugInfoIdentifier()));
  auto m = method(b);
  TestTensor input({1});
  ASSERT_EQ(m->method().set_input(input.value(), 0), Error::Ok);
  EXPECT_EQ(m->method().execute(), Error::InvalidArgument);
  said("index 7 is out of range");
  said("instruction 0, test::fail.out (handle 7): InvalidArgument; module 'encoder.embeddings', model.py:42");
  EXPECT_EQ(m->method().failure().source_line, 42u);
  EXPECT_EQ(m->method().failure().module_path, "encoder.embeddings");
}

TEST_F(MethodTest, AnErrorNamesItsPackedOrigin) {
  ProgramBuilder b;
  const int x = b.input(b.tensor({1}));
  const int y = b.tensor({1});
  b.kernel("test::add", "out", {x, x, y, y});
  b.kernel("test::fail", "out", {x, x, x});
  b.packed_debug({1, 2, 0, 0, 0, 0, 0, /**/ 1, 2, 3, 4, 0xac, 0x02, 4, 2, 14, 7}, {"", "aten", "f", "enc", "a.py"});
  auto m = method(b);
  TestTensor input({1});
  ASSERT_EQ(m->method().set_input(input.value(), 0), Error::Ok);
  EXPECT_EQ(m->method().execute(), Error::InvalidArgument);
  said("instruction 1, test::fail.out (handle 7): InvalidArgument; module 'enc', a.py:300");
}

TEST_F(MethodTest, NumbersFixedAtExportMustBeTheSameAgain) {
  ProgramBuilder b;
  b.input(b.integer(3));
  const int used = b.input(b.integer(1));
  b.input(b.string("relu"));
  b.input(b.none());
  const int sum = b.output(b.integer(0));
  b.kernel("executorch_prim::add", "Scalar", {used, used, sum});
  auto m = method(b);
  const std::string_view relu = "relu";
  const std::string_view gelu = "gelu";
  EXPECT_EQ(m->method().set_input(EValue(int64_t{4}), 0), Error::InvalidArgument);
  said("export again");
  EXPECT_EQ(m->method().set_input(EValue(&gelu), 2), Error::InvalidArgument);
  ASSERT_EQ(m->method().set_inputs({EValue(int64_t{3}), EValue(int64_t{20}), EValue(&relu), EValue()}), Error::Ok)
      << messages();
  ASSERT_EQ(m->method().execute(), Error::Ok);
  EXPECT_EQ(m->method().get_output(0).to_int(), 40);
}

TEST_F(MethodTest, DelegatesRunAndAreDestroyed) {
  ProgramBuilder b;
  const int x = b.input(b.tensor({2}));
  const int y = b.output(b.tensor({2}));
  b.delegate("AddBackend", "3", {x, y});
  {
    auto m = method(b);
    TestTensor input({2}, {1, 2});
    ASSERT_EQ(m->method().set_input(input.value(), 0), Error::Ok);
    ASSERT_EQ(m->method().execute(), Error::Ok) << messages();
    EXPECT_EQ(floats(m->method().get_output(0)), (std::vector<float>{4, 5}));
    EXPECT_EQ(backend_.live, 1);
  }
  EXPECT_EQ(backend_.live, 0);
  backend_.available = false;
  EXPECT_EQ(method_error(b), Error::NotSupported);
  b.plan().delegates[0]->id = "Nobody";
  EXPECT_EQ(method_error(b), Error::NotFound);
  said("'Nobody', which is not registered");
}

TEST_F(MethodTest, ADelegateThatRefusesItsPayloadLeaksNothing) {
  ProgramBuilder b;
  const int x = b.input(b.tensor({2}));
  const int y = b.output(b.tensor({2}));
  b.delegate("AddBackend", "3", {x, y});
  b.delegate("AddBackend", "too long", {x, y});
  EXPECT_EQ(method_error(b), Error::DelegateInvalidCompatibility);
  EXPECT_EQ(backend_.live, 0);
}

TEST_F(MethodTest, KernelsGetTheArgumentsOfTheirSignatureOnly) {
  static size_t prepared_with = 0, run_with = 0;
  static const Kernel kLibrary[] = {{"test::add.out", "TTo",
                                     [](KernelContext&, Span<EValue* const> args, void*) {
                                       run_with = args.size();
                                       return Error::Ok;
                                     },
                                     [](PrepareContext&, Span<EValue* const> args, void**) {
                                       prepared_with = args.size();
                                       return Error::Ok;
                                     },
                                     nullptr, kPriorityLibrary}};
  ASSERT_EQ(kernels_.add(kLibrary), Error::Ok);
  ProgramBuilder b;
  const int x = b.input(b.tensor({1}));
  const int y = b.output(b.tensor({1}));
  // Where the returned value is to be once more there may be anything: a constant, which must not be written; a number.
  b.kernel("test::add", "out", {x, x, y, b.constant<float>({1}, {1}), b.integer(7)});
  auto m = method(b);
  TestTensor input({1}, {5});
  ASSERT_EQ(m->method().set_input(input.value(), 0), Error::Ok);
  ASSERT_EQ(m->method().execute(), Error::Ok);
  EXPECT_EQ(prepared_with, 3u);
  EXPECT_EQ(run_with, 3u);
}

int g_prepared = 0;

TEST_F(MethodTest, TheBestKernelThatAcceptsTheArgumentsRuns) {
  static const Kernel kLibrary[] = {{"test::add.out", "TTo",
                                     [](KernelContext&, Span<EValue* const> args, void* state) {
                                       *args[2]->to_tensor().mutable_data_ptr<float>() = *static_cast<float*>(state);
                                       return Error::Ok;
                                     },
                                     [](PrepareContext& context, Span<EValue* const> args, void** state) {
                                       if (args[0]->to_tensor().numel() != 1) {
                                         return Error::NotSupported;
                                       }
                                       EXPECT_TRUE(context.is_constant(*args[1]));
                                       EXPECT_FALSE(context.is_constant(*args[0]));
                                       ++g_prepared;
                                       *state = new float(99);
                                       return Error::Ok;
                                     },
                                     [](void* state) {
                                       --g_prepared;
                                       delete static_cast<float*>(state);
                                     },
                                     kPriorityLibrary}};
  ASSERT_EQ(kernels_.add(kLibrary), Error::Ok);
  ProgramBuilder one;
  const int x = one.input(one.tensor({1}));
  const int y = one.output(one.tensor({1}));
  one.kernel("test::add", "out", {x, one.constant<float>({1}, {1}), y, y});
  {
    auto m = method(one);
    EXPECT_EQ(g_prepared, 1);
    TestTensor input({1}, {5});
    ASSERT_EQ(m->method().set_input(input.value(), 0), Error::Ok);
    ASSERT_EQ(m->method().execute(), Error::Ok);
    EXPECT_EQ(floats(m->method().get_output(0)), std::vector<float>{99});
  }
  EXPECT_EQ(g_prepared, 0);
  ProgramBuilder many = add_program();
  auto m = method(many);
  EXPECT_EQ(g_prepared, 0);
  TestTensor input({2, 2}, {1, 2, 3, 4});
  ASSERT_EQ(m->method().set_input(input.value(), 0), Error::Ok);
  ASSERT_EQ(m->method().execute(), Error::Ok);
  EXPECT_EQ(floats(m->method().get_output(0))[0], 11);
}

TEST_F(MethodTest, StepRunsOneInstruction) {
  ProgramBuilder b;
  const int x = b.input(b.tensor({1}));
  const int y = b.output(b.tensor({1}));
  b.kernel("test::add", "out", {x, x, y, y});
  b.kernel("test::add", "out", {y, x, y, y});
  auto m = method(b);
  TestTensor input({1}, {1});
  for (int run = 0; run < 2; ++run) {
    ASSERT_EQ(m->method().set_input(input.value(), 0), Error::Ok);
    EXPECT_EQ(m->method().step(), Error::Ok);
    EXPECT_EQ(m->method().execute(), Error::InvalidState);
    EXPECT_EQ(m->method().step(), Error::Ok);
    EXPECT_EQ(m->method().step(), Error::EndOfMethod);
    EXPECT_EQ(floats(m->method().get_output(0)), std::vector<float>{3});
  }
}

TEST_F(MethodTest, ReadOnlyInputsAreNotWritten) {
  for (const bool planned : {false, true}) {
    ProgramBuilder b;
    const int x = b.input(planned ? b.tensor({1}) : b.open_tensor({1}));
    b.kernel("test::add", "out", {x, x, x, x});
    auto m = method(b);
    TestTensor input({1}, {2});
    ASSERT_EQ(m->method().set_input(input.value(), 0), Error::Ok);
    ASSERT_EQ(m->method().execute(), Error::Ok);
    EXPECT_EQ(input.elements()[0], 4) << "a mutated input is written back";
    input.impl().set_read_only(true);
    Error error = m->method().set_input(input.value(), 0);
    error = error == Error::Ok ? m->method().execute() : error;
    EXPECT_EQ(error, Error::InvalidArgument);
    EXPECT_EQ(input.elements()[0], 4);
  }
}

TEST_F(MethodTest, TooLittleMemoryIsAnError) {
  ProgramBuilder b = add_program();
  bytes_ = b.build();
  const std::shared_ptr<const uint8_t> aligned = aligned_copy(bytes_);
  BufferLoader loader(aligned.get(), bytes_.size());
  auto program = Program::load(&loader);
  ASSERT_TRUE(program.ok());
  MethodOptions options;
  options.kernels = &kernels_;
  alignas(16) uint8_t arena[32];
  const Span<uint8_t> planned[] = {{arena, sizeof(arena)}};
  bool succeeded = false;
  for (size_t size = 0; size < 4096; size += 64) {
    std::vector<uint8_t> pool(size + 1);
    MemoryAllocator allocator(pool.data(), size);
    MemoryManager memory{&allocator, planned, nullptr, nullptr};
    auto m = program->load_method("forward", &memory, options);
    succeeded = m.ok();
    if (succeeded) {
      break;
    }
    EXPECT_EQ(m.error(), Error::MemoryAllocationFailed);
  }
  EXPECT_TRUE(succeeded);
  std::vector<uint8_t> pool(8192);
  MemoryAllocator allocator(pool.data(), pool.size());
  const Span<uint8_t> small[] = {{arena, 16}};
  MemoryManager memory{&allocator, small, nullptr, nullptr};
  EXPECT_EQ(program->load_method("forward", &memory, options).error(), Error::InvalidArgument);
  said("needs planned buffer 1 of 32 bytes");
  EXPECT_EQ(program->load_method("predict", &memory, options).error(), Error::NotFound);
  said("no method 'predict'; it has: forward");
}

TEST_F(MethodTest, ACallFromTwoThreadsIsRefused) {
  ET_NEEDS_THREADS();
  static std::atomic<int> stage{0};
  static const Kernel kBlock[] = {{"test::block.out", "o", [](KernelContext& context, Span<EValue* const>, void*) {
                                     stage = 1;
                                     while (!context.cancelled()) {
                                     }
                                     return Error::Cancelled;
                                   }}};
  stage = 0;  // also when tests are repeated
  ASSERT_EQ(kernels_.add(kBlock), Error::Ok);
  ProgramBuilder b;
  const int y = b.output(b.tensor({1}));
  b.kernel("test::block", "out", {y, y});
  auto m = method(b);
  Error inner = Error::Ok;
  std::thread thread([&] { inner = m->method().execute(); });
  while (stage == 0) {
  }
  EXPECT_EQ(m->method().execute(), Error::InvalidState);
  EXPECT_EQ(m->method().reset_state(), Error::InvalidState);
  m->method().cancel();
  thread.join();
  EXPECT_EQ(inner, Error::Cancelled);
}

class Recorder final : public EventTracer {
 public:
  void record(const TraceEvent& event) override {
    names.emplace_back(event.name);
    EXPECT_LE(event.start_ns, event.end_ns);
  }
  void begin_execution(std::string_view method) override { names.emplace_back("begin " + std::string(method)); }
  void record_value(const TraceValue& value) override {
    names.emplace_back(value.is_output ? "output" : "value at " + std::to_string(value.position.instruction));
  }
  uint32_t add_allocator(std::string_view name) override {
    allocators.emplace_back(name);
    return static_cast<uint32_t>(allocators.size() - 1);
  }
  void record_allocation(uint32_t allocator, size_t nbytes) override { nbytes_of[allocators.at(allocator)] += nbytes; }
  std::vector<std::string> names;
  std::vector<std::string> allocators;
  std::map<std::string, size_t> nbytes_of;
};

TEST_F(MethodTest, ATracerSeesLoadsInstructionsAndTheirValues) {
  Recorder recorder;
  recorder.set_event_tracer_debug_level(EventTracerDebugLogLevel::kIntermediateOutputs);
  method_options_.tracer = &recorder;
  ProgramBuilder b = add_program();
  auto m = method(b);
  EXPECT_EQ(recorder.names, (std::vector<std::string>{"forward", "forward"}));  // init, load
  EXPECT_GT(recorder.nbytes_of["method"], 0u);
  EXPECT_EQ(recorder.nbytes_of["planned"], m->planned_nbytes());
  recorder.names.clear();
  TestTensor x({2, 2});
  ASSERT_EQ(m->method().set_input(x.value(), 0), Error::Ok);
  ASSERT_EQ(m->method().execute(), Error::Ok);
  EXPECT_EQ(recorder.names,
            (std::vector<std::string>{"begin forward", "value at 0", "test::add.out", "forward", "output"}));
}

TEST_F(MethodTest, ATracerCanLeaveInstructionsOut) {
  Recorder recorder;
  recorder.set_event_tracer_profiling_level(EventTracerProfilingLevel::kProfileMethodOnly);
  method_options_.tracer = &recorder;
  ProgramBuilder b = add_program();
  auto m = method(b);
  recorder.names.clear();
  TestTensor x({2, 2});
  ASSERT_EQ(m->method().set_input(x.value(), 0), Error::Ok);
  ASSERT_EQ(m->method().execute(), Error::Ok);
  EXPECT_EQ(recorder.names, (std::vector<std::string>{"begin forward", "forward"}));
}

TEST_F(MethodTest, ATracerRecordsOneExecutionAtATime) {
  Recorder recorder;
  method_options_.tracer = &recorder;
  ProgramBuilder b = add_program();
  auto m = method(b);
  TestTensor x({2, 2});
  ASSERT_EQ(m->method().set_input(x.value(), 0), Error::Ok);
  ASSERT_TRUE(recorder.try_acquire());  // as another method does
  EXPECT_EQ(m->method().execute(), Error::InvalidState);
  recorder.release();
  EXPECT_EQ(m->method().execute(), Error::Ok);
  ASSERT_EQ(m->method().set_input(x.value(), 0), Error::Ok);
  ASSERT_EQ(m->method().step(), Error::Ok);
  EXPECT_FALSE(recorder.try_acquire());
  m->method().reset_execution();
  EXPECT_TRUE(recorder.try_acquire());
  recorder.release();
}

TEST_F(MethodTest, ListsOfOutputsMustBeWritable) {
  ProgramBuilder b;
  const int w = b.constant<float>({1}, {1});
  const int list = b.tensor_list({w});
  b.kernel("test::count", "out", {list, b.output(b.tensor({1}))});
  auto m = method(b);  // reads the list
  ASSERT_EQ(m->method().execute(), Error::Ok);
  EXPECT_EQ(floats(m->method().get_output(0)), std::vector<float>{1});
}

TEST_F(MethodTest, MetaDescribesTheMethod) {
  ProgramBuilder b = add_program();
  b.add_method("other");
  b.output(b.integer(4));
  b.plan().non_const_buffer_sizes = {0};
  auto program = load(b);
  EXPECT_EQ(program->program().num_methods(), 2u);
  const auto meta = program->program().method_meta("forward");
  ASSERT_TRUE(meta.ok());
  EXPECT_EQ(meta->num_inputs(), 1u);
  EXPECT_EQ(meta->num_instructions(), 1u);
  EXPECT_EQ(meta->memory_planned_buffer_size(0), 32u);
  EXPECT_EQ(meta->input_tensor_info(0)->nbytes, 16u);
  EXPECT_FALSE(meta->input_tensor_info(1).ok());
  char buffer[64];
  EXPECT_EQ(meta->operator_name(0, buffer), "test::add.out");
  EXPECT_FALSE(meta->uses_state());
  auto constant = method(program, "other");
  ASSERT_EQ(constant->method().execute(), Error::Ok);
  EXPECT_EQ(constant->method().get_output(0).to_int(), 4);
}

}  // namespace
}  // namespace et::test
