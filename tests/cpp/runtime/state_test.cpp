// Mutable state: initial values, sessions, methods that share buffers.
#include <atomic>
#include <thread>

#include "../base/needs.h"
#include "method_fixture.h"

namespace et::test {
namespace {

/// Two methods over one buffer: "bump" adds its input to it, "read" gives it.
ProgramBuilder counter_program(bool named = true, bool initial = true) {
  ProgramBuilder b;
  b.program().execution_plan.clear();
  const char* name = named ? "counter" : "";
  const std::vector<float> value = initial ? std::vector<float>{5} : std::vector<float>{};
  b.add_method("bump");
  const int x = b.input(b.tensor({1}));
  const int s = b.state({1}, value, name);
  b.kernel("test::add", "out", {s, x, s, s});
  b.add_method("read");
  const int t = b.state({1}, value, name);
  const int y = b.output(b.tensor({1}));
  b.kernel("test::add_scalar", "out", {t, b.real(0), y, y});
  return b;
}

class StateTest : public MethodTest {
 protected:
  void bump(HostMethod& m, float by) {
    TestTensor x({1}, {by});
    ASSERT_EQ(m.method().set_input(x.value(), 0), Error::Ok);
    ASSERT_EQ(m.method().execute(), Error::Ok) << messages();
  }
  float read(HostMethod& m) {
    EXPECT_EQ(m.method().execute(), Error::Ok) << messages();
    return floats(m.method().get_output(0))[0];
  }
};

TEST_F(StateTest, MethodsOfASessionShareTheirBuffers) {
  ProgramBuilder b = counter_program();
  auto program = load(b);
  EXPECT_TRUE(program->program().is_state_memory(2));
  EXPECT_FALSE(program->program().is_state_memory(1));
  auto bump_method = method(program, "bump");
  auto read_method = method(program, "read");
  EXPECT_EQ(read(*read_method), 5);
  bump(*bump_method, 2);
  bump(*bump_method, 3);
  EXPECT_EQ(read(*read_method), 10);
  auto session = program->new_session();
  ASSERT_TRUE(session.ok());
  auto other = method(program, "read", session.get());
  EXPECT_EQ(read(*other), 5);
  ASSERT_EQ(bump_method->method().reset_state(), Error::Ok);
  EXPECT_EQ(read(*read_method), 5);
}

TEST_F(StateTest, StateOutlivesTheMethodsOfTheDefaultSession) {
  ProgramBuilder b = counter_program();
  auto program = load(b);
  bump(*method(program, "bump"), 1);
  EXPECT_EQ(read(*method(program, "read")), 6);
}

TEST_F(StateTest, AMethodKeepsItsProgramAlive) {
  ProgramBuilder b = counter_program();
  auto program = load(b);
  auto m = method(program, "read");
  program.reset();
  EXPECT_EQ(read(*m), 5);
}

TEST_F(StateTest, UnnamedBuffersOfTheOfficialExporterAreShared) {
  ProgramBuilder b = counter_program(/*named=*/false, /*initial=*/false);
  auto program = load(b);
  EXPECT_TRUE(program->program().is_state_memory(2));
  auto bump_method = method(program, "bump");
  auto read_method = method(program, "read");
  EXPECT_EQ(read(*read_method), 0);
  bump(*bump_method, 4);
  EXPECT_EQ(read(*read_method), 4);
}

TEST_F(StateTest, BuffersAmongActivationsBelongToTheirMethod) {
  ProgramBuilder b;
  const int x = b.input(b.tensor({1}));
  const int s = b.state({1}, {5}, "counter", /*memory_id=*/1);
  const int y = b.output(b.tensor({1}));
  b.kernel("test::add", "out", {s, x, s, s});
  b.kernel("test::add_scalar", "out", {s, b.real(0), y, y});
  auto program = load(b);
  EXPECT_FALSE(program->program().is_state_memory(1));
  auto a = method(program);
  auto c = method(program);
  bump(*a, 1);
  bump(*a, 1);
  bump(*c, 1);
  EXPECT_EQ(floats(a->method().get_output(0))[0], 7);
  EXPECT_EQ(floats(c->method().get_output(0))[0], 6);
  ASSERT_EQ(a->method().reset_state(), Error::Ok);
  bump(*a, 1);
  EXPECT_EQ(floats(a->method().get_output(0))[0], 6);
}

TEST_F(StateTest, WithoutASessionStateLiesInThePlannedBuffers) {
  ProgramBuilder b = counter_program();
  bytes_ = b.build();
  const std::shared_ptr<const uint8_t> aligned = aligned_copy(bytes_);
  BufferLoader loader(aligned.get(), bytes_.size());
  auto program = Program::load(&loader);
  ASSERT_TRUE(program.ok());
  alignas(16) uint8_t arena[64];
  alignas(16) uint8_t state[16];
  alignas(16) uint8_t pool[8192];
  MemoryAllocator allocator(pool, sizeof(pool));
  const Span<uint8_t> planned[] = {{arena, sizeof(arena)}, {state, sizeof(state)}};
  MemoryManager memory{&allocator, planned, nullptr, nullptr};
  MethodOptions options;
  options.kernels = &kernels_;
  auto m = program->load_method("read", &memory, options);
  ASSERT_TRUE(m.ok()) << messages();
  ASSERT_EQ(m->execute(), Error::Ok);
  EXPECT_EQ(floats(m->get_output(0))[0], 5);
}

TEST_F(StateTest, MethodsThatShareStateDoNotRunAtOnce) {
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
  ProgramBuilder b = counter_program();
  b.add_method("wait");
  const int s = b.state({1}, {}, "counter");
  b.kernel("test::block", "out", {s, s});
  auto program = load(b);
  auto wait = method(program, "wait");
  auto reader = method(program, "read");
  auto other = method(program, "read", program->new_session().get());
  std::thread thread([&] { EXPECT_EQ(wait->method().execute(), Error::Cancelled); });
  while (stage == 0) {
  }
  EXPECT_EQ(reader->method().execute(), Error::InvalidState);
  said("shares state with 'read'");
  EXPECT_EQ(reader->session()->reset(), Error::InvalidState);
  EXPECT_EQ(read(*other), 5) << "another session is free";
  wait->method().cancel();
  thread.join();
  EXPECT_EQ(read(*reader), 5);
}

TEST_F(StateTest, ThreadsWithSessionsOfTheirOwn) {
  ET_NEEDS_THREADS();
  ProgramBuilder b = counter_program();
  auto program = load(b);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      auto session = program->new_session();
      auto up = program->load_method("bump", session.get());
      auto get = program->load_method("read", session.get());
      ASSERT_TRUE(up.ok() && get.ok());
      for (int i = 0; i < 200; ++i) {
        bump(**up, 1);
      }
      EXPECT_EQ(read(**get), 205);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

/// Threads that load methods of one program, describe it and run them while others do the same. For ThreadSanitizer.
TEST_F(StateTest, ThreadsShareAProgram) {
  ET_NEEDS_THREADS();
  ProgramBuilder b = counter_program();
  b.add_method("stateless");
  const int x = b.input(b.tensor({1}));
  const int y = b.output(b.tensor({1}));
  b.kernel("test::add", "out", {x, b.constant<float>({1}, {2}), y, y});
  auto program = load(b);
  std::atomic<int> refused{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      TestTensor input({1}, {static_cast<float>(t)});
      for (int i = 0; i < 50; ++i) {
        auto own = program->load_method("stateless");
        ASSERT_TRUE(own.ok());
        ASSERT_EQ((*own)->method().set_input(input.value(), 0), Error::Ok);
        ASSERT_EQ((*own)->method().execute(), Error::Ok);
        EXPECT_EQ(floats((*own)->method().get_output(0))[0], static_cast<float>(t + 2));
        // The default session's state belongs to one at a time: the others are refused, and nothing is lost or torn.
        auto shared = program->load_method("bump");
        ASSERT_TRUE(shared.ok());
        TestTensor one({1}, {1});
        ASSERT_EQ((*shared)->method().set_input(one.value(), 0), Error::Ok);
        const Error error = (*shared)->method().execute();
        ASSERT_TRUE(error == Error::Ok || error == Error::InvalidState);
        refused += error == Error::InvalidState ? 1 : 0;
        EXPECT_EQ(program->program().num_methods(), 3u);
        EXPECT_FALSE(program->program().method_meta("nobody").ok());
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  auto reader = program->load_method("read");
  ASSERT_TRUE(reader.ok());
  EXPECT_EQ(read(**reader), 5 + 4 * 50 - refused.load());
}

}  // namespace
}  // namespace et::test
