// Which memory the arguments of a kernel may have: what is written lies apart from what is read, and is not a constant.
#include "method_fixture.h"
#include "runtime/overlapped_kernel.h"

namespace et::test {
namespace {

TEST(KernelTest, OnlyPrepareLetsAnOutputOverlapAnInput) {
  float memory[8] = {};
  int64_t sizes[] = {4};
  uint8_t order[] = {0};
  int64_t strides[1];
  TensorImpl in(ScalarType::Float, 1, sizes, strides, order, memory, 4 * sizeof(float));
  TensorImpl out(ScalarType::Float, 1, sizes, strides, order, memory + 1, 4 * sizeof(float));
  TensorImpl dynamic(ScalarType::Float, 1, sizes, strides, order, memory, 4 * sizeof(float),
                     TensorShapeDynamism::kDynamicBound);
  const auto overlaps = [](bool is_before_prepare, const char* signature, TensorImpl* from, TensorImpl* to) {
    EValue values[] = {EValue(Tensor(from)), EValue(Tensor(to))};
    EValue* args[] = {&values[0], &values[1]};
    Overlap found;
    return is_before_prepare ? find_overlap_before_prepare(signature, args, &found)
                             : find_overlap(signature, args, &found);
  };
  EXPECT_FALSE(overlaps(true, "xo", &in, &out)) << "prepare looks at it";
  EXPECT_TRUE(overlaps(true, "To", &in, &out));
  EXPECT_TRUE(overlaps(true, "eo", &in, &out)) << "not where both begin";
  EXPECT_TRUE(overlaps(false, "xo", &in, &out)) << "nobody looks at it";
  EXPECT_TRUE(overlaps(true, "xo", &dynamic, &out)) << "it may be another one at the call";
  EXPECT_TRUE(overlaps(true, "xo", &in, &in)) << "one tensor";
}

TEST(KernelTest, OutputsLieApartFromOtherTensors) {
  float memory[8] = {};
  int64_t sizes[] = {2};
  uint8_t order[] = {0};
  int64_t strides[1];
  const auto at = [&](size_t i) {
    return TensorImpl(ScalarType::Float, 1, sizes, strides, order, memory + i, 2 * sizeof(float));
  };
  TensorImpl a = at(0), b = at(1), c = at(2), again = at(0);
  const auto check = [](const char* signature, std::vector<EValue> values) {
    std::vector<EValue*> args;
    for (EValue& value : values) {
      args.push_back(&value);
    }
    return check_written_apart(signature, {args.data(), args.size()}, Error::InvalidProgram) == Error::Ok;
  };
  const EValue va((Tensor(&a))), vb((Tensor(&b))), vc((Tensor(&c))), vagain((Tensor(&again)));
  EXPECT_TRUE(check("To", {va, vc}));
  EXPECT_FALSE(check("To", {va, vb}));
  EXPECT_FALSE(check("To", {vb, va}));
  EXPECT_FALSE(check("To", {va, vagain}));
  EXPECT_TRUE(check("eo", {va, vagain}));
  EXPECT_TRUE(check("Eo", {EValue(), va}));
  EXPECT_FALSE(check("eo", {va, vb}));
  EXPECT_FALSE(check("To", {va, va}));
  EXPECT_TRUE(check("eo", {va, va}));
  EXPECT_FALSE(check("oo", {va, vagain})) << "two outputs in one place";
  EXPECT_TRUE(check("oo", {va, vc}));
  EXPECT_TRUE(check("Tp", {va, vagain})) << "the kernel gives p its memory";
  a.set_data(nullptr, 0);
  EXPECT_TRUE(check("oo", {va, vagain})) << "no memory yet: it gets its own";
  EXPECT_FALSE(check("oo", {va, va})) << "no memory yet, but one tensor";
  EXPECT_FALSE(check("To", {va, va}));
  TensorImpl none(ScalarType::Float, 1, sizes, strides, order, memory + 1, 0);
  a.set_data(memory, 2 * sizeof(float));
  EXPECT_TRUE(check("oo", {EValue(Tensor(&none)), va})) << "inside the other, but empty";
  EXPECT_TRUE(check("oo", {va, EValue(Tensor(&none))}));
  // Lists: a kernel's outputs when it has no o, else its inputs.
  const auto list_of = [](EValue* first, EValue* second, EValue** items, Tensor* cache) {
    items[0] = first;
    items[1] = second;
    return BoxedList<Tensor>{items, cache, 2, false};
  };
  EValue items[] = {va, vb, vc};
  EValue* pointers[2][2];
  Tensor cache[4] = {Tensor(&a), Tensor(&a), Tensor(&a), Tensor(&a)};
  BoxedList<Tensor> apart = list_of(&items[0], &items[2], pointers[0], cache);
  BoxedList<Tensor> tangled = list_of(&items[0], &items[1], pointers[1], cache + 2);
  EXPECT_FALSE(check("vo", {EValue(&apart), va}));
  EXPECT_FALSE(check("vo", {EValue(&apart), vb}));

  EXPECT_TRUE(check("vl", {EValue(&tangled), EValue()})) << "outputs of one list";
  EXPECT_FALSE(check("Tv", {vc, EValue(&apart)}));
}

TEST_F(MethodTest, TensorsOfOneShapeShareWhatNeverChanges) {
  ProgramBuilder b;
  const int x = b.input(b.tensor({2, 2}));
  const int y = b.output(b.tensor({2, 2}));
  const int dynamic = b.input(b.tensor({2, 2}, ScalarType::Float, schema::TensorShapeDynamism_DYNAMIC_BOUND));
  const int z = b.output(b.tensor({2, 2}, ScalarType::Float, schema::TensorShapeDynamism_DYNAMIC_BOUND));
  b.kernel("test::add", "out", {x, x, y, y});
  b.kernel("test::add", "out", {dynamic, dynamic, z, z});
  auto m = method(b);
  const auto sizes_of = [&](const EValue& value) { return value.to_tensor().sizes().data(); };
  EXPECT_EQ(sizes_of(m->method().get_input(0)), sizes_of(m->method().get_output(0)));
  EXPECT_NE(sizes_of(m->method().get_input(0)), sizes_of(m->method().get_input(1)));
  EXPECT_NE(sizes_of(m->method().get_input(1)), sizes_of(m->method().get_output(1)));
  TestTensor whole({2, 2}, {1, 2, 3, 4}), part({1, 2}, {5, 6});
  ASSERT_EQ(m->method().set_input(whole.value(), 0), Error::Ok);
  ASSERT_EQ(m->method().set_input(part.value(), 1), Error::Ok);
  ASSERT_EQ(m->method().execute(), Error::Ok) << messages();
  EXPECT_EQ(floats(m->method().get_output(0)), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(floats(m->method().get_output(1)), (std::vector<float>{10, 12}));
}

TEST_F(MethodTest, ConstantsAreNotWritten) {
  ProgramBuilder b;
  const int x = b.input(b.tensor({1}));
  const int w = b.constant<float>({1}, {1});
  b.kernel("test::add", "out", {x, x, w, w});
  EXPECT_EQ(method_error(b), Error::InvalidProgram);
  said("is a constant, but an operator writes to it");
}

TEST_F(MethodTest, WhatIsWrittenLiesApartFromWhatIsRead) {
  // The input has bytes 0 to 12; test::add may work in place, test::positive may not.
  struct Case {
    std::string op;
    uint32_t offset;
    bool fits;
  };
  for (const Case& c :
       {Case{"test::add", 0, true}, Case{"test::add", 16, true}, Case{"test::add", 4, false},
        Case{"test::positive", 16, true}, Case{"test::positive", 0, false}, Case{"test::positive", 8, false}}) {
    ProgramBuilder b;
    const int x = b.input(b.tensor({3}));
    const int y = b.output(b.tensor({3}));
    b.plan().values[static_cast<size_t>(y)]->val.AsTensor()->allocation_info->memory_offset_low = c.offset;
    b.kernel(c.op, "out", c.op == "test::add" ? std::vector<int32_t>{x, x, y} : std::vector<int32_t>{x, y});
    messages().clear();
    EXPECT_EQ(method_error(b), c.fits ? Error::Ok : Error::InvalidProgram) << c.op << " at " << c.offset;
    EXPECT_TRUE(c.fits || said("lies over argument 0, which the operator still reads then"));
  }
}

TEST_F(MethodTest, ATensorThatIsReadAndWrittenHasFixedSizes) {
  for (const auto dynamism : {fb::TensorShapeDynamism_STATIC, fb::TensorShapeDynamism_DYNAMIC_BOUND}) {
    ProgramBuilder b;
    const int x = b.input(b.tensor({3}, ScalarType::Float, dynamism));
    b.kernel("test::add", "out", {x, x, x});
    EXPECT_EQ(method_error(b), dynamism == fb::TensorShapeDynamism_STATIC ? Error::Ok : Error::InvalidProgram);
  }
}

TEST_F(MethodTest, ATensorWithoutMemoryYetIsNotReadAndWritten) {
  for (const auto dynamism : {fb::TensorShapeDynamism_STATIC, fb::TensorShapeDynamism_DYNAMIC_BOUND,
                              fb::TensorShapeDynamism_DYNAMIC_UNBOUND}) {
    ProgramBuilder b;
    const int y = b.output(b.open_tensor({3}, ScalarType::Float, dynamism));
    b.kernel("test::positive", "out", {y, y});
    EXPECT_EQ(method_error(b), Error::InvalidProgram);
  }
}

TEST_F(MethodTest, AnotherKernelWorksInPlaceWhereTheBestOneDoesNot) {
  const Kernel best[] = {make_kernel<&add_out>("test::add.out", kPriorityUser)};
  ASSERT_EQ(kernels_.add(best), Error::Ok);
  for (const bool in_place : {false, true}) {
    ProgramBuilder b;
    const int x = b.input(b.tensor({3}));
    const int y = in_place ? x : b.tensor({3});
    b.output(y);
    b.kernel("test::add", "out", {x, x, y});
    auto m = method(b);
    ASSERT_NE(m, nullptr);
    EXPECT_EQ(m->method().kernel(0)->priority, in_place ? kPriorityPortable : kPriorityUser);
  }
}

TEST_F(MethodTest, AKernelThatRefusesDoesNotRunForOneThatOverlaps) {
  Kernel refusing = make_kernel<&add_out, 0b11>("test::sum.out");
  refusing.prepare = [](PrepareContext&, Span<EValue* const>, void**) { return Error::NotSupported; };
  const Kernel table[] = {refusing, make_kernel<&add_out>("test::sum.out", kPriorityUser)};
  ASSERT_EQ(kernels_.add(table), Error::Ok);
  ProgramBuilder b;
  const int x = b.input(b.tensor({3}));
  b.kernel("test::sum", "out", {x, x, x});
  EXPECT_EQ(method_error(b), Error::InvalidProgram);
  said("what argument 2 is written to lies over argument 0");
}

TEST_F(MethodTest, AnUndefinedTensorIsNoInput) {
  for (const bool planned : {false, true}) {
    ProgramBuilder b;
    const int x = b.input(planned ? b.tensor({3}) : b.open_tensor({3}));
    b.kernel("test::add", "out", {x, x, b.output(b.tensor({3}))});
    auto m = method(b);
    EXPECT_EQ(m->method().set_input(EValue(Tensor()), 0), Error::InvalidArgument);
  }
}

TEST_F(MethodTest, AnInputDoesNotLieInTheMethodsOwnMemory) {
  ProgramBuilder b;
  const int x = b.input(b.tensor({3}));
  const int y = b.output(b.tensor({3}));
  b.kernel("test::add", "out", {x, x, y});
  auto m = method(b);
  TestTensor input({3}, {1, 2, 3});
  ASSERT_EQ(m->method().set_input(input.value(), 0), Error::Ok);
  ASSERT_EQ(m->method().execute(), Error::Ok) << messages();
  EXPECT_EQ(m->method().set_input(m->method().get_output(0), 0), Error::InvalidArgument);
  said("copy it first");
  ASSERT_EQ(m->method().set_input(input.value(), 0), Error::Ok);
  EXPECT_EQ(m->method().execute(), Error::Ok) << messages();
}

TEST_F(MethodTest, LongListsAreLookedAtBeforeTheyAreUsed) {
  ProgramBuilder b;
  std::vector<int32_t> parts;
  for (int i = 0; i < 100; ++i) {
    parts.push_back(b.tensor({1}));
  }
  const int list = b.tensor_list(parts);
  b.output(parts[70]);
  b.kernel("test::count", "out", {list, parts[70]});
  auto m = method(b);
  ASSERT_NE(m, nullptr);
  EXPECT_EQ(m->method().execute(), Error::InvalidArgument);
  said("what argument 1 is written to lies over argument 0");
}

TEST_F(MethodTest, MemoryOfTheCallersThatIsWrittenLiesApart) {
  ProgramBuilder b;
  const int x = b.input(b.open_tensor({3}));
  const int y = b.input(b.open_tensor({3}));
  b.kernel("test::add", "out", {x, y, x});
  auto m = method(b);
  TestTensor memory({5}, {1, 2, 3, 4, 5});
  int64_t sizes[] = {3};
  uint8_t order[] = {0};
  for (const size_t shift : {0, 1}) {
    int64_t strides[2] = {};
    TensorImpl first(ScalarType::Float, 1, sizes, strides, order, memory.elements().data(), 3 * sizeof(float));
    TensorImpl second(ScalarType::Float, 1, sizes, strides + 1, order, memory.elements().data() + shift,
                      3 * sizeof(float));
    ASSERT_EQ(m->method().set_input(EValue(Tensor(&first)), 0), Error::Ok);
    ASSERT_EQ(m->method().set_input(EValue(Tensor(&second)), 1), Error::Ok);
    EXPECT_EQ(m->method().execute(), shift == 0 ? Error::Ok : Error::InvalidArgument) << messages();
    EXPECT_EQ(memory.elements(), (std::vector<float>{2, 4, 6, 4, 5}));
  }
  said("what argument 2 is written to lies over argument 1");
}

TEST_F(MethodTest, OutputsAreMadeApartWhereTheCallersMemoryIsShared) {
  // An output over an input by a kernel that reads it again, and two outputs in one place: each is made elsewhere and
  // copied.
  ProgramBuilder b;
  const int x = b.input(b.open_tensor({4}));
  const int y = b.output(b.open_tensor({3}, ScalarType::Float, fb::TensorShapeDynamism_DYNAMIC_BOUND));
  const int z = b.output(b.open_tensor({4}));
  b.kernel("test::positive", "out", {x, y});
  b.kernel("test::add", "out", {x, x, z});
  auto m = method(b);
  TestTensor input({4}, {-1, 2, -3, 4});
  float* const memory = input.elements().data();
  ASSERT_EQ(m->method().set_output_data_ptr(memory, 3 * sizeof(float), 0), Error::Ok);
  ASSERT_EQ(m->method().set_output_data_ptr(memory, 4 * sizeof(float), 1), Error::Ok);
  ASSERT_EQ(m->method().set_input(input.value(), 0), Error::Ok);
  ASSERT_EQ(m->method().execute(), Error::Ok) << messages();
  EXPECT_EQ(floats(m->method().get_output(0)), (std::vector<float>{2, 4}));
  EXPECT_EQ(floats(m->method().get_output(1)), (std::vector<float>{-2, 4, -6, 8}));
  EXPECT_EQ(input.elements(), (std::vector<float>{-2, 4, -6, 8})) << "of two, the last one stays";
}

/// Floats up to the end of a page.
class PageEnd {
 public:
  explicit PageEnd(size_t count) : memory_(3 * kPage / sizeof(float)), count_(count) {}
  float* data() {
    const auto begin = reinterpret_cast<uintptr_t>(memory_.data());
    return reinterpret_cast<float*>((begin / kPage + 2) * kPage) - count_;
  }
  size_t nbytes() const { return count_ * sizeof(float); }

 private:
  static constexpr size_t kPage = 4096;
  std::vector<float> memory_;
  size_t count_;
};

TEST_F(MethodTest, AnOutputAtTheEndOfAPageIsTheNextInput) {
  // What a kernel reads again is made elsewhere, and is in the caller's memory when the execution is over.
  ProgramBuilder b;
  const int x = b.input(b.open_tensor({4}));
  const int y = b.output(b.open_tensor({4}));
  const int z = b.output(b.open_tensor({4}));
  b.kernel("test::add", "out", {x, x, y});
  b.kernel("test::add", "out", {y, x, z});
  auto m = method(b);
  PageEnd memory(4);
  ASSERT_EQ(m->method().set_output_data_ptr(memory.data(), memory.nbytes(), 0), Error::Ok);
  TestTensor input({4}, {1, 2, 3, 4});
  ASSERT_EQ(m->method().set_input(input.value(), 0), Error::Ok);
  ASSERT_EQ(m->method().execute(), Error::Ok) << messages();
  EXPECT_EQ(m->method().get_output(0).to_tensor().const_data_ptr(), memory.data());
  EXPECT_EQ(floats(m->method().get_output(0)), (std::vector<float>{2, 4, 6, 8}));
  EXPECT_EQ(floats(m->method().get_output(1)), (std::vector<float>{3, 6, 9, 12}));
  ASSERT_EQ(m->method().set_input(m->method().get_output(0), 0), Error::Ok);
  ASSERT_EQ(m->method().execute(), Error::Ok) << messages();
  EXPECT_EQ(floats(m->method().get_output(1)), (std::vector<float>{6, 12, 18, 24}));
}

/// What the last kernel below read.
const void* seen = nullptr;

Error look_out(KernelContext& context, const Tensor& self, Tensor& out) {
  seen = self.const_data_ptr();
  return resize_tensor(context, out, self.sizes());
}

TEST_F(MethodTest, InputsAtTheEndOfAPageAreCopiedForWhatReadsPastThem) {
  Kernel kernels[] = {make_kernel<&look_out>("test::look.out", kPriorityLibrary),
                      make_kernel<&look_out>("test::look_past.out")};
  kernels[1].reads_past = true;
  ASSERT_EQ(kernels_.add(kernels), Error::Ok);
  for (const char* const name : {"test::look", "test::look_past"}) {
    for (const bool is_planned : {false, true}) {
      for (const bool is_viewed : {false, true}) {
        ProgramBuilder b;
        const int x = b.input(is_planned ? b.tensor({4}) : b.open_tensor({4}));
        const int view = is_viewed ? b.open_tensor({4}) : x;
        if (is_viewed) {
          b.kernel("executorch_prim::et_view", "default", {x, b.int_list({b.integer(4)}), view});
        }
        b.kernel(name, "out", {view, b.output(b.tensor({4}))});
        auto m = method(b);
        PageEnd memory(4);
        TestTensor inside({4}), at_end({4});
        at_end.impl().set_data(memory.data(), memory.nbytes());
        for (TestTensor* const input : {&at_end, &inside, &at_end}) {
          ASSERT_EQ(m->method().set_input(input->value(), 0), Error::Ok);
          ASSERT_EQ(m->method().execute(), Error::Ok) << messages();
          const bool is_moved = seen != input->impl().data();
          EXPECT_EQ(is_moved, input == &at_end && (is_viewed || name == std::string("test::look_past")))
              << name << (is_planned ? " planned" : "") << (is_viewed ? " viewed" : "");
        }
      }
    }
  }
}

TEST_F(MethodTest, TensorsWithoutMemoryAreRefused) {
  ProgramBuilder b;
  const int x = b.open_tensor({1});
  const int y = b.output(b.tensor({1}));
  b.kernel("test::add", "out", {x, x, y, y});
  EXPECT_EQ(method_error(b), Error::InvalidProgram);
  said("nothing gives it memory");
}

}  // namespace
}  // namespace et::test
