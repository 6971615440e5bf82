// Delegates that fail at init, or in the middle of an execution: what is given back, what state is then, and that the
// next call is right. In static memory, as firmware has it, and in the host layer's.
#include <cmath>

#include "method_fixture.h"

namespace et::test {
namespace {

/// An AddBackend whose n-th init or execute fails, having taken memory and, in execute, written half of its output.
class FailingBackend final : public BackendInterface {
 public:
  bool is_available() const override { return true; }
  Result<DelegateHandle*> init(BackendInitContext& context, FreeableBuffer* processed,
                               Span<const CompileSpec> specs) const override {
    ET_CHECK_OR_RETURN(context.allocator->allocate(32) != nullptr, MemoryAllocationFailed, "no memory");
    ET_CHECK_OR_RETURN(++inits != fail_init_at, AccessFailed, "the device does not answer");
    return inner.init(context, processed, specs);
  }
  Error execute(BackendExecutionContext& context, DelegateHandle* handle, Span<EValue* const> args) const override {
    ET_TRY(void* const scratch, context.kernel.allocate_temp(64));
    static_cast<void>(scratch);
    args[1]->to_tensor().mutable_data_ptr<float>()[0] = NAN;
    ET_CHECK_OR_RETURN(++executions != fail_execute_at, DelegateInvalidHandle, "the device hangs");
    return inner.execute(context, handle, args);
  }
  void destroy(DelegateHandle* handle) const override { inner.destroy(handle); }

  AddBackend inner;
  int fail_init_at = 0, fail_execute_at = 0;
  mutable int inits = 0, executions = 0;
};

/// Counts what was loaded and not given back.
class CountingLoader final : public DataLoader {
 public:
  CountingLoader(const uint8_t* data, size_t size) : inner_(data, size) {}
  Result<FreeableBuffer> load(size_t offset, size_t nbytes) override {
    ET_TRY(const FreeableBuffer bytes, inner_.load(offset, nbytes));
    ++live;
    return FreeableBuffer(
        bytes.data(), nbytes, [](void* count, const void*, size_t) { --*static_cast<int*>(count); }, &live);
  }
  size_t size() const override { return inner_.size(); }

  int live = 0;

 private:
  BufferLoader inner_;
};

/// s += x; a = s + 3 by a delegate; s += a; y = s + 4 by another. From s = 5 and x = 1: y = 19, then 39.
ProgramBuilder adding_program() {
  ProgramBuilder b;
  const int x = b.input(b.tensor({1}));
  const int s = b.state({1}, {5}, "sum");
  const int a = b.tensor({1});
  const int y = b.output(b.tensor({1}));
  b.kernel("test::add", "out", {s, x, s, s});
  b.delegate("FailingBackend", "3", {s, a});
  b.kernel("test::add", "out", {s, a, s, s});
  b.delegate("FailingBackend", "4", {s, y});
  return b;
}

class FailingDelegateTest : public MethodTest {
 protected:
  FailingDelegateTest() {
    EXPECT_EQ(backends_.add("FailingBackend", &failing_), Error::Ok);
    static_options_.kernels = &kernels_;
    static_options_.backends = &backends_;
  }
  /// The n-th init or execute from here on fails; 0: none does.
  void fail(int init_at, int execute_at = 0) {
    failing_.fail_init_at = init_at;
    failing_.fail_execute_at = execute_at;
    failing_.inits = failing_.executions = 0;
  }
  Error execute(Method& m) {
    TestTensor one({1}, {1});
    ET_RETURN_IF_ERROR(m.set_input(one.value(), 0));
    return m.execute();
  }
  void expect_output(Method& m, float y) {
    ASSERT_EQ(execute(m), Error::Ok) << messages();
    EXPECT_EQ(floats(m.get_output(0))[0], y);
  }
  static float state_of(Method& m) { return m.attribute(0).tensor.const_data_ptr<float>()[0]; }

  /// The n-th execution of a delegate fails: what method.h and docs/reference/faults.md say.
  void expect_failure_in_the_middle(Method& m, int n) {
    ASSERT_EQ(m.reset_state(), Error::Ok);
    fail(0, n);
    EXPECT_EQ(execute(m), Error::DelegateInvalidHandle);
    EXPECT_TRUE(m.failure().in_instruction);
    EXPECT_EQ(m.failure().instruction, n == 1 ? 1u : 3u);
    EXPECT_EQ(m.failure().operator_name, "FailingBackend");
    EXPECT_EQ(state_of(m), n == 1 ? 6 : 15) << "what was written before the error";
  }

  FailingBackend failing_;
  MethodOptions static_options_;
};

TEST_F(FailingDelegateTest, StaticMemory) {
  ProgramBuilder b = adding_program();
  bytes_ = b.build();
  const std::shared_ptr<const uint8_t> aligned = aligned_copy(bytes_);
  CountingLoader loader(aligned.get(), bytes_.size());
  auto program = Program::load(&loader);
  ASSERT_TRUE(program.ok()) << messages();
  const int live_of_program = loader.live;
  alignas(16) uint8_t arena[64];
  alignas(16) uint8_t state[16];
  alignas(16) uint8_t pool[8192];
  alignas(64) uint8_t scratch[256];
  MemoryAllocator method_pool(pool, sizeof(pool)), temp_pool(scratch, sizeof(scratch));
  const Span<uint8_t> planned[] = {{arena, sizeof(arena)}, {state, sizeof(state)}};
  const MemoryManager memory{&method_pool, planned, &temp_pool, nullptr};

  for (const int n : {1, 2}) {
    fail(n);
    EXPECT_EQ(program->load_method("forward", &memory, static_options_).error(), Error::AccessFailed);
    said("backend 'FailingBackend' cannot make delegate " + std::to_string(n - 1));
    EXPECT_EQ(failing_.inner.live, 0) << "the delegate before it is destroyed";
    EXPECT_EQ(loader.live, live_of_program) << "payloads are given back";
    EXPECT_EQ(temp_pool.used(), 0u);
    fail(0);
    method_pool.reset();
    auto again = program->load_method("forward", &memory, static_options_);
    ASSERT_TRUE(again.ok()) << messages();
    expect_output(*again, 19);
    expect_output(*again, 39);
    method_pool.reset();
  }

  auto m = program->load_method("forward", &memory, static_options_);
  ASSERT_TRUE(m.ok()) << messages();
  const size_t used = method_pool.used();
  for (const int n : {1, 2}) {
    expect_failure_in_the_middle(*m, n);
    EXPECT_EQ(temp_pool.used(), 0u);
    EXPECT_EQ(method_pool.used(), used);
    fail(0);
    expect_output(*m, n == 1 ? 21 : 39);  // goes on from the state that the error left: 6 or 15
    ASSERT_EQ(m->reset_state(), Error::Ok);
    expect_output(*m, 19);
  }
}

TEST_F(FailingDelegateTest, HostLayer) {
  ProgramBuilder b = adding_program();
  b.add_method("read");
  const int s = b.state({1}, {}, "sum");
  const int y = b.output(b.tensor({1}));
  b.kernel("test::add_scalar", "out", {s, b.real(0), y, y});
  auto program = load(b);
  auto reader = method(program, "read");
  auto m = method(program);
  expect_output(m->method(), 19);

  for (const int n : {1, 2}) {
    fail(n);
    EXPECT_EQ(program->load_method("forward", nullptr, method_options_).error(), Error::AccessFailed);
    EXPECT_EQ(failing_.inner.live, 2) << "those of the method that was loaded before";
    fail(0);
    ASSERT_EQ(reader->method().execute(), Error::Ok) << messages();
    EXPECT_EQ(floats(reader->method().get_output(0))[0], 15) << "a load that fails leaves the session's state alone";
    auto again = method(program);
    expect_output(again->method(), 39);
    ASSERT_EQ(again->method().reset_state(), Error::Ok);
    expect_output(m->method(), 19);
  }

  for (const int n : {1, 2}) {
    expect_failure_in_the_middle(m->method(), n);
    fail(0);
    ASSERT_EQ(reader->method().execute(), Error::Ok) << "the state is free: " << messages();
    EXPECT_EQ(floats(reader->method().get_output(0))[0], n == 1 ? 6 : 15);
    expect_output(m->method(), n == 1 ? 21 : 39);
    ASSERT_EQ(m->method().reset_state(), Error::Ok);
    expect_output(m->method(), 19);
  }
  m.reset();
  EXPECT_EQ(failing_.inner.live, 0);
}

}  // namespace
}  // namespace et::test
