// Moves, jumps, loops, views: what is decided while a method runs.
#include "method_fixture.h"

namespace et::test {
namespace {

/// if p: out = x + 1 else: out = x + x
ProgramBuilder cond_program(bool open_output) {
  ProgramBuilder b;
  const int p = b.input(b.tensor({}, ScalarType::Bool));
  const int x = b.input(b.tensor({2}));
  const int out = b.output(open_output ? b.open_tensor({2}) : b.tensor({2}));
  const int a = b.tensor({2});
  const int c = b.tensor({2});
  const int never = b.boolean(false);
  b.jump_false(p, 4);
  b.kernel("test::add_scalar", "out", {x, b.real(1), a, a});
  b.move(a, out);
  b.jump_false(never, 6);
  b.kernel("test::add", "out", {x, x, c, c});
  b.move(c, out);
  return b;
}

TEST_F(MethodTest, BranchesMoveTheirResult) {
  for (const bool open_output : {false, true}) {
    ProgramBuilder b = cond_program(open_output);
    auto m = method(b);
    bool p = true;
    const uint8_t order = 0;
    TensorImpl predicate(ScalarType::Bool, 0, nullptr, nullptr, &order, &p, 1);
    TestTensor x({2}, {5, 6});
    float out[2];
    for (const bool value : {true, false, true}) {
      p = value;
      ASSERT_EQ(m->method().set_output_data_ptr(out, sizeof(out), 0), Error::Ok);
      ASSERT_EQ(m->method().set_inputs({EValue(Tensor(&predicate)), x.value()}), Error::Ok) << messages();
      ASSERT_EQ(m->method().execute(), Error::Ok) << messages();
      EXPECT_EQ(out[1], value ? 7 : 12);
      EXPECT_EQ(floats(m->method().get_output(0))[0], value ? 6 : 10);
    }
  }
}

/// i = 0; do { i += 1; done = i == n } while (!done)
ProgramBuilder loop_program(int64_t n) {
  ProgramBuilder b;
  const int i = b.output(b.integer(0));
  const int start = b.integer(0);
  const int one = b.integer(1);
  const int limit = b.integer(n);
  const int done = b.boolean(false);
  const int zero = b.integer(0);
  b.kernel("executorch_prim::add", "Scalar", {start, zero, i});
  b.kernel("executorch_prim::add", "Scalar", {i, one, i});
  b.kernel("executorch_prim::eq", "Scalar", {i, limit, done});
  b.jump_false(done, 1);
  return b;
}

TEST_F(MethodTest, LoopsRunAndAreLimited) {
  ProgramBuilder b = loop_program(1000);
  auto m = method(b);
  ASSERT_EQ(m->method().execute(), Error::Ok) << messages();
  EXPECT_EQ(m->method().get_output(0).to_int(), 1000);
  method_options_.max_backward_jumps = 10;
  auto limited = method(b);
  EXPECT_EQ(limited->method().execute(), Error::OutOfResources);
  said("raise max_backward_jumps");
}

TEST_F(MethodTest, DynamicViewsShowTheSameBytes) {
  ProgramBuilder b;
  const int x = b.input(b.tensor({4, 2}, ScalarType::Float, kBound));
  const int n = b.integer(0);
  const int flat = b.integer(0);
  const int view = b.open_tensor({8}, ScalarType::Float, kBound);
  const int out = b.output(b.tensor({8}, ScalarType::Float, kBound));
  b.kernel("aten::sym_size", "int", {x, b.integer(0), n});
  b.kernel("executorch_prim::mul", "Scalar", {n, b.integer(2), flat});
  b.kernel("executorch_prim::et_view", "default", {x, b.int_list({flat}), view});
  b.kernel("test::add", "out", {view, view, out, out});
  auto m = method(b);
  for (const int64_t rows : {2, 4, 1}) {
    TestTensor input({rows, 2}, std::vector<float>(static_cast<size_t>(rows) * 2, 3));
    ASSERT_EQ(m->method().set_input(input.value(), 0), Error::Ok);
    ASSERT_EQ(m->method().execute(), Error::Ok) << messages();
    EXPECT_EQ(floats(m->method().get_output(0)), std::vector<float>(static_cast<size_t>(rows) * 2, 6));
  }
}

TEST_F(MethodTest, AViewOfAConstantIsNotWritten) {
  ProgramBuilder b;
  const int w = b.constant<float>({2}, {1, 2});
  const int two = b.integer(2);
  const int view = b.open_tensor({2}, ScalarType::Float, kBound);
  b.kernel("executorch_prim::et_view", "default", {w, b.int_list({two}), view});
  b.kernel("test::add", "out", {view, view, view, view});
  auto m = method(b);
  EXPECT_EQ(m->method().execute(), Error::InvalidArgument);
  said("read-only");
}

TEST_F(MethodTest, AViewThatIsUsedBeforeItIsMadeIsAnError) {
  ProgramBuilder b;
  const int x = b.input(b.tensor({2}));
  const int view = b.open_tensor({2}, ScalarType::Float, kBound);
  const int out = b.output(b.tensor({2}));
  b.kernel("test::add", "out", {view, view, out, out});
  b.kernel("executorch_prim::et_view", "default", {x, b.int_list({b.integer(2)}), view});
  auto m = method(b);
  TestTensor input({2});
  for (int run = 0; run < 2; ++run) {
    ASSERT_EQ(m->method().set_input(input.value(), 0), Error::Ok);
    EXPECT_EQ(m->method().execute(), Error::InvalidState);
    said("nothing has computed it yet");
  }
}

TEST_F(MethodTest, AMovedConstantIsNotWritten) {
  ProgramBuilder b;
  const int w = b.constant<float>({2}, {1, 2});
  const int t = b.tensor({2});
  b.move(w, t);
  b.kernel("test::add", "out", {t, t, t, t});
  auto m = method(b);
  EXPECT_EQ(m->method().execute(), Error::InvalidArgument);
  said("read-only");
}

TEST_F(MethodTest, MapCopiesItemsOneByOne) {
  ProgramBuilder b;
  const int x = b.input(b.tensor({2}));
  const int out = b.output(b.tensor({3, 2}, ScalarType::Float, kBound));
  const int i = b.integer(0);
  const int done = b.boolean(false);
  const int one = b.integer(1);
  b.kernel("executorch_prim::et_copy_index", "tensor", {out, x, i});
  b.kernel("executorch_prim::add", "Scalar", {i, one, i});
  b.kernel("executorch_prim::eq", "Scalar", {i, b.integer(3), done});
  b.jump_false(done, 0);
  b.kernel("executorch_prim::sub", "Scalar", {i, b.integer(3), i});
  auto m = method(b);
  TestTensor input({2}, {1, 2});
  for (int run = 0; run < 2; ++run) {
    ASSERT_EQ(m->method().set_input(input.value(), 0), Error::Ok);
    ASSERT_EQ(m->method().execute(), Error::Ok) << messages();
    EXPECT_EQ(floats(m->method().get_output(0)), (std::vector<float>{1, 2, 1, 2, 1, 2}));
  }
}

TEST_F(MethodTest, FreedTensorsAreEmpty) {
  ProgramBuilder b;
  const int x = b.input(b.tensor({2}));
  const int t = b.open_tensor({2}, ScalarType::Float, fb::TensorShapeDynamism_DYNAMIC_UNBOUND);
  const int out = b.output(b.tensor({2}, ScalarType::Float, kBound));
  b.kernel("test::positive", "out", {x, t, t});
  b.free(t);
  b.kernel("test::add", "out", {t, t, out, out});
  auto m = method(b);
  TestTensor input({2}, {1, 2});
  ASSERT_EQ(m->method().set_input(input.value(), 0), Error::Ok);
  ASSERT_EQ(m->method().execute(), Error::Ok) << messages();
  EXPECT_EQ(m->method().get_output(0).to_tensor().numel(), 0);
}

/// Runs one primitive operator on numbers.
class PrimTest : public MethodTest {
 protected:
  Result<EValue> run(const char* name, const std::vector<EValue>& operands, const char* overload = "Scalar") {
    std::vector<EValue> values = operands;
    values.emplace_back(int64_t{0});
    std::vector<EValue*> args;
    for (EValue& value : values) {
      args.push_back(&value);
    }
    const Kernel* found[1] = {};
    EXPECT_EQ(kernels_.find(std::string("executorch_prim::") + name + "." + overload, found), 1u);
    KernelContext context(nullptr, nullptr, nullptr, nullptr, nullptr);
    const Error error = found[0]->run(context, args, nullptr);
    if (error != Error::Ok) {
      return error;
    }
    return values.back();
  }
  static EValue i(int64_t value) { return EValue(value); }
  static EValue d(double value) { return EValue(value); }
};

TEST_F(PrimTest, NumbersFollowPython) {
  EXPECT_EQ(run("floordiv", {i(-7), i(2)})->to_int(), -4);
  EXPECT_EQ(run("mod", {i(-7), i(2)})->to_int(), 1);
  EXPECT_EQ(run("mod", {i(7), i(-2)}, "int")->to_int(), -1);
  EXPECT_EQ(run("floordiv", {i(INT64_MIN), i(-1)}, "int")->to_int(), INT64_MIN);
  EXPECT_EQ(run("floordiv", {d(-7), i(2)})->to_double(), -4.0);
  EXPECT_EQ(run("truediv", {i(7), i(2)})->to_double(), 3.5);
  EXPECT_EQ(run("add", {i(INT64_MAX), i(1)})->to_int(), INT64_MIN);
  EXPECT_EQ(run("mul", {i(3), d(0.5)})->to_double(), 1.5);
  EXPECT_EQ(run("sub", {i(3), i(5)})->to_int(), -2);
  EXPECT_EQ(run("sym_max", {i(3), i(5)})->to_int(), 5);
  EXPECT_EQ(run("sym_min", {i(3), d(2.5)})->to_double(), 2.5);
  EXPECT_TRUE(run("eq", {i(3), d(3)})->to_bool());
  EXPECT_TRUE(run("gt", {i(4), i(3)})->to_bool());
  EXPECT_TRUE(run("ge", {i(3), i(3)})->to_bool());
  EXPECT_FALSE(run("lt", {i(4), i(3)})->to_bool());
  EXPECT_FALSE(run("le", {i(4), i(3)})->to_bool());
  EXPECT_EQ(run("neg", {i(4)})->to_int(), -4);
  EXPECT_TRUE(run("sym_not", {EValue(false)})->to_bool());
  EXPECT_EQ(run("sym_ite", {EValue(false), i(1), d(2)})->to_double(), 2.0);
  EXPECT_EQ(run("sym_float", {i(4)})->to_double(), 4.0);
  EXPECT_EQ(run("sym_int", {d(-2.7)})->to_int(), -2);
  EXPECT_EQ(run("ceil", {d(2.1)})->to_int(), 3);
  EXPECT_EQ(run("trunc", {d(-2.9)})->to_int(), -2);
  EXPECT_EQ(run("round", {d(2.5)})->to_int(), 2);
  EXPECT_EQ(run("round", {d(3.5)})->to_int(), 4);
  EXPECT_EQ(run("round", {d(-2.5)})->to_int(), -2);
  EXPECT_EQ(run("round", {d(-2.6)})->to_int(), -3);
  EXPECT_EQ(run("floordiv", {i(1), i(0)}).error(), Error::InvalidArgument);
  EXPECT_EQ(run("mod", {d(1), d(0)}).error(), Error::InvalidArgument);
  EXPECT_EQ(run("sym_int", {d(1e300)}).error(), Error::InvalidArgument);
}

}  // namespace
}  // namespace et::test
