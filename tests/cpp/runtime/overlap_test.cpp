// Method: what is written lies apart from what is read, in the file's plan and in the caller's memory.
#include "method_fixture.h"

namespace et::test {
namespace {

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
  // An output over an input by a kernel that reads it again, and two outputs in one place: each is made elsewhere and copied.
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

}  // namespace
}  // namespace et::test
