// Training in C++: a program with gradients made by hand, optimizers, checkpoints, and what is refused.
#include "training/checkpoint.h"
#include "training/optimizer.h"
#include "training/training_module.h"

#include <cstdio>

#include "method_fixture.h"

namespace et::test {
namespace {

using training::AdamW;
using training::NamedTensors;
using training::SGD;
using training::SGDOptions;
using training::TrainingModule;

/// "forward" returns x + w, the gradient x + x of w, and w; "infer" returns x + w.
ProgramBuilder training_program(int64_t parameters_index = 2) {
  ProgramBuilder b;
  b.program().execution_plan.clear();
  b.add_method("forward");
  const int x = b.input(b.tensor({2}));
  const int w = b.state({2}, {1, 2}, "w");
  const int y = b.output(b.tensor({2}));
  const int gradient = b.output(b.tensor({2}));
  b.output(w);
  b.kernel("test::add", "out", {x, w, y, y});
  b.kernel("test::add", "out", {x, x, gradient, gradient});
  b.add_method("infer");
  const int given = b.input(b.tensor({2}));
  const int same = b.state({2}, {1, 2}, "w");
  const int sum = b.output(b.tensor({2}));
  b.kernel("test::add", "out", {given, same, sum, sum});
  b.add_method("__et_training_gradients_index_forward");
  b.output(b.integer(1));
  b.add_method("__et_training_parameters_index_forward");
  b.output(b.integer(parameters_index));
  b.add_method("__et_training_fqn_forward");
  b.output(b.string("w"));
  return b;
}

class TrainingTest : public MethodTest {
 protected:
  std::vector<float> run(TrainingModule& module, const char* name, float a, float b) {
    TestTensor x({2}, {a, b});
    const EValue input = x.value();
    auto outputs = std::string(name) == "infer" ? module.execute(name, {&input, 1})
                                                : module.execute_forward_backward(name, {&input, 1});
    EXPECT_TRUE(outputs.ok()) << messages();
    return outputs.ok() && outputs->size() == 1 ? floats(outputs.get()[0]) : std::vector<float>();
  }
};

using Values = std::vector<float>;

Values values_of(const NamedTensors& tensors, const char* name) { return floats(EValue(tensors.find(name)->second)); }

TEST_F(TrainingTest, AStepChangesTheParametersOfAllMethods) {
  ProgramBuilder b = training_program();
  TrainingModule module(load(b));
  EXPECT_EQ(module.named_gradients("forward").error(), Error::InvalidState);
  EXPECT_EQ(run(module, "forward", 10, 20), (Values{11, 22}));
  auto gradients = module.named_gradients("forward");
  auto parameters = module.named_parameters("forward");
  ASSERT_TRUE(gradients.ok() && parameters.ok()) << messages();
  EXPECT_EQ(values_of(gradients.get(), "w"), (Values{20, 40}));
  auto optimizer = SGD::create(parameters.get(), SGDOptions{0.5});
  ASSERT_TRUE(optimizer.ok());
  EXPECT_EQ(optimizer.get()->step(gradients.get()), Error::Ok);
  EXPECT_EQ(values_of(parameters.get(), "w"), (Values{-9, -18}));
  EXPECT_EQ(run(module, "forward", 0, 0), (Values{-9, -18}));
  EXPECT_EQ(run(module, "infer", 1, 1), (Values{-8, -17}));
}

TEST_F(TrainingTest, ACheckpointPutsParametersAndMomentumBack) {
  ProgramBuilder b = training_program();
  TrainingModule module(load(b));
  run(module, "forward", 1, 1);
  auto optimizer = SGD::create(module.named_parameters("forward").get(), SGDOptions{0.5, 0.9});
  ASSERT_TRUE(optimizer.ok());
  NamedTensors state = module.named_state("forward").get();
  state.merge(optimizer.get()->state().get());
  ASSERT_EQ(state.size(), 3u);
  const std::string path = ::testing::TempDir() + "training_test.ptd";
  ASSERT_EQ(optimizer.get()->step(module.named_gradients("forward").get()), Error::Ok);
  ASSERT_EQ(training::save_ptd(path, state), Error::Ok) << messages();
  const Values after_one = values_of(state, "w");
  ASSERT_EQ(optimizer.get()->step(module.named_gradients("forward").get()), Error::Ok);
  const Values after_two = values_of(state, "w");
  EXPECT_NE(after_one, after_two);
  ASSERT_EQ(training::load_ptd(path, state), Error::Ok) << messages();
  EXPECT_EQ(values_of(state, "w"), after_one);
  ASSERT_EQ(optimizer.get()->step(module.named_gradients("forward").get()), Error::Ok);
  EXPECT_EQ(values_of(state, "w"), after_two);
  TestTensor other({3});
  EXPECT_EQ(training::load_ptd(path, {{"w", other.value().to_tensor()}}), Error::InvalidExternalData);
  EXPECT_TRUE(said("is torch.float32 (2,), here it is torch.float32 (3,)"));
  EXPECT_EQ(training::load_ptd(path, {{"v", other.value().to_tensor()}}), Error::InvalidExternalData);
  EXPECT_TRUE(said("has no 'v', so it is the checkpoint of another model"));
  std::remove(path.c_str());
}

TEST_F(TrainingTest, ProgramsThatDescribeThemselvesWrongly) {
  for (const int64_t index : {int64_t{0}, int64_t{1}, int64_t{3}, int64_t{-1}, INT64_MAX}) {
    ProgramBuilder b = training_program(index);
    TrainingModule module(load(b));
    EXPECT_EQ(module.named_parameters("forward").error(), Error::InvalidProgram) << index;
  }
  ProgramBuilder b = training_program();
  TrainingModule module(load(b));
  EXPECT_EQ(module.named_parameters("infer").error(), Error::InvalidArgument);
  EXPECT_TRUE(said("method 'infer' returns no gradients"));
  EXPECT_EQ(module.named_parameters("none").error(), Error::NotFound);
}

TEST_F(TrainingTest, NamesThatDoNotFit) {
  TestTensor weight({2}, {1, 1}), gradient({2}, {1, 1}), longer({3});
  auto optimizer = AdamW::create({{"w", weight.value().to_tensor()}});
  ASSERT_TRUE(optimizer.ok());
  EXPECT_EQ(optimizer.get()->step({{"v", gradient.value().to_tensor()}}), Error::InvalidArgument);
  EXPECT_TRUE(said("no parameter for the gradient 'v', and no gradient for the parameter 'w'"));
  EXPECT_EQ(optimizer.get()->step({{"w", longer.value().to_tensor()}}), Error::InvalidArgument);
  EXPECT_EQ(weight.elements(), (Values{1, 1}));
  EXPECT_EQ(optimizer.get()->step({{"w", gradient.value().to_tensor()}}), Error::Ok);
  EXPECT_NE(weight.elements(), (Values{1, 1}));
}

}  // namespace
}  // namespace et::test
