// What a process has by default: messages on stderr, and kernels that its own files register.
#include "extension/process.h"

#include "../runtime/program_builder.h"
#include "extension/module/module.h"
#include "extension/published_macros.h"
#include "extension/tensor/tensor.h"
#include "messages.h"

namespace et::test {
namespace {

using namespace executorch::extension;  // NOLINT: as a user writes
using executorch::aten::optional;
using executorch::aten::Tensor;
using executorch::runtime::KernelRuntimeContext;
using executorch::runtime::resize_tensor;

Error triple_out(runtime::KernelContext& context, const Tensor& x, Tensor& out) {
  ET_RETURN_IF_ERROR(runtime::resize_tensor(context, out, x.sizes()));
  for (int64_t i = 0; i < x.numel(); ++i) {
    out.mutable_data_ptr<float>()[i] = 3 * x.const_data_ptr<float>()[i];
  }
  return Error::Ok;
}
EXECUTORCH_LIBRARY(mine, "triple.out", triple_out);

Tensor& scale_out(KernelRuntimeContext& context, const Tensor& x, double by, optional<int64_t> most, Tensor& out) {
  ET_KERNEL_CHECK_MSG(context, !most || x.numel() <= *most, InvalidArgument, out, "at most %d elements",
                      static_cast<int>(*most));
  ET_KERNEL_CHECK(context, resize_tensor(out, x.sizes()) == Error::Ok, InvalidArgument, out);
  const Result<void*> scratch = context.allocate_temp(64);
  ET_KERNEL_CHECK(context, scratch.ok(), MemoryAllocationFailed, out);
  for (int64_t i = 0; i < x.numel(); ++i) {
    out.mutable_data_ptr<float>()[i] = static_cast<float>(by) * x.const_data_ptr<float>()[i];
  }
  return out;
}
EXECUTORCH_LIBRARY(mine, "scale.out", scale_out);

void copy_out(const Tensor& x, Tensor& out) {
  if (resize_tensor(out, x.sizes()) == Error::Ok) {
    std::copy_n(x.const_data_ptr<float>(), x.numel(), out.mutable_data_ptr<float>());
  }
}
EXECUTORCH_LIBRARY(mine, "copy.out", &copy_out);

/// copy(scale(triple(x), 0.5, most)) of up to [4], with an output whose memory nobody planned.
std::vector<uint8_t> chain_program(int64_t most) {
  ProgramBuilder b;
  const auto bound = schema::TensorShapeDynamism_DYNAMIC_BOUND;
  const int x = b.input(b.tensor({4}, ScalarType::Float, bound));
  const int tripled = b.tensor({4}, ScalarType::Float, bound);
  const int scaled = b.tensor({4}, ScalarType::Float, schema::TensorShapeDynamism_DYNAMIC_BOUND);
  const int out = b.output(b.open_tensor({4}, ScalarType::Float, schema::TensorShapeDynamism_DYNAMIC_UNBOUND));
  b.kernel("mine::triple", "out", {x, tripled, tripled});
  b.kernel("mine::scale", "out", {tripled, b.real(0.5), most < 0 ? b.none() : b.integer(most), scaled, scaled});
  b.kernel("mine::copy", "out", {scaled, out, out});
  return b.build();
}

class ProcessTest : public MessagesTest {};

TEST_F(ProcessTest, KernelsThatAFileRegistersRun) {
  Module module(chain_program(-1));
  const auto output = module.get(make_tensor_ptr({2.0f, 4.0f, 6.0f}));
  ASSERT_TRUE(output.ok()) << text();
  const Tensor tensor = output->toTensor();
  EXPECT_EQ(tensor.numel(), 3);
  EXPECT_EQ(tensor.const_data_ptr<float>()[2], 9);
}

TEST_F(ProcessTest, APublishedKernelFailsWithItsFirstError) {
  Module module(chain_program(2));
  EXPECT_EQ(module.forward(make_tensor_ptr({2.0f, 4.0f, 6.0f})).error(), Error::InvalidArgument);
  said({"at most 2 elements"});
  EXPECT_TRUE(module.forward(make_tensor_ptr({2.0f, 4.0f})).ok()) << text();
}

TEST_F(ProcessTest, KernelsAndBackendsComeLater) {
  ProgramBuilder b;
  const int x = b.input(b.tensor({2}));
  const int out = b.output(b.tensor({2}));
  b.kernel("later::triple", "out", {x, out, out});
  const std::vector<uint8_t> program = b.build();
  EXPECT_EQ(Module(program).load_forward(), Error::OperatorMissing);
  static const runtime::Kernel kKernels[] = {make_user_kernel<triple_out>("later::triple.out")};
  ASSERT_EQ(register_kernels({kKernels, "later"}), Error::Ok);
  EXPECT_EQ(Module(program).load_forward(), Error::Ok) << text();
  EXPECT_EQ(executorch::runtime::register_backend("Mine", nullptr), Error::InvalidArgument);
  EXPECT_EQ(load_plugin("nowhere.so").error(), Error::AccessFailed);
  EXPECT_EQ(load_plugin(ET_MODELS "/official_linear.pte").error(), Error::AccessFailed);
}

TEST_F(ProcessTest, NothingIsRegisteredFromInsideALoad) {
  const LoadScope scope(process().gate);
  EXPECT_EQ(register_kernels({}), Error::InvalidState);
  said({"cannot be registered while this thread loads a method"});
}

// Not inlined: gcc with sanitizers would warn of the value that a failed result does not have.
__attribute__((noinline)) Error unwrap(Result<int> result) {
  return ET_UNWRAP(std::move(result)) == 3 ? Error::Ok : Error::Internal;
}

TEST_F(ProcessTest, PublishedMacrosReturn) {
  const auto load = []() -> Error {
    ET_CHECK_OK_OR_RETURN_ERROR(Error::Ok);
    ET_LOG(Info, "%d inputs", 3);
    ET_LOG(kWarning, "both spellings");
    ET_CHECK_OK_OR_RETURN_ERROR(Error::NotFound, "no %s", "luck");
    return Error::Ok;
  };
  EXPECT_EQ(load(), Error::NotFound);
  said({"3 inputs", "both spellings", "no luck"});
  EXPECT_EQ(unwrap(3), Error::Ok);
  EXPECT_EQ(unwrap(Error::EndOfMethod), Error::EndOfMethod);
}

// Each of these begins in a process that has not chosen a hook.

[[noreturn]] void load_and_exit() {
  Module module("nowhere/model.pte");
  std::exit(module.forward().error() == Error::AccessFailed ? 0 : 1);
}

TEST(DefaultLogDeathTest, MessagesGoToStderr) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(load_and_exit(), ::testing::ExitedWithCode(0), "nowhere/model.pte.*No such file");
  EXPECT_EXIT(std::exit(runtime::HostProgram::from_file("nowhere/a.pte", {}).ok()), ::testing::ExitedWithCode(0),
              "nowhere/a.pte");
  EXPECT_EXIT(std::exit(make_tensor_ptr({-1}, std::vector<float>()) != nullptr), ::testing::ExitedWithCode(0),
              "is negative");
  EXPECT_EXIT(std::exit(EValue(3).tryToTensor().ok()), ::testing::ExitedWithCode(0), "the value is Int, not Tensor");
}

TEST(DefaultLogDeathTest, EachLoadSaysWhyNothingCouldBeRegistered) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("ET_MAX_ISA", "avx3", 1);
        const bool fail =
            Module("a.pte").load() == Error::InvalidArgument && Module("b.pte").load() == Error::InvalidArgument;
        std::exit(fail ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "'avx3', must be sse4.1.*'avx3', must be sse4.1");
}

TEST(DefaultLogDeathTest, AHookOfTheUserWins) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        set_log_hook([](LogLevel, const char*, int, const char*, size_t) { std::fputs("mine\n", stderr); });
        load_and_exit();
      },
      ::testing::ExitedWithCode(0), "^mine");
  EXPECT_EXIT(
      {
        set_log_hook(nullptr);
        load_and_exit();
      },
      ::testing::ExitedWithCode(0), "^$");
}

}  // namespace
}  // namespace et::test
