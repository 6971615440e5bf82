// Module: loading, calling, and every misuse as an Error with a message.
#include "extension/module/module.h"

#include <atomic>
#include <fstream>
#include <thread>

#include "../runtime/program_builder.h"
#include "extension/tensor/tensor.h"
#include "messages.h"
#include "threads/thread_pool.h"

namespace et::test {
namespace {

using namespace executorch::extension;  // NOLINT: as a user writes
using executorch::aten::ScalarType;
using executorch::runtime::EventTracer;
using Mode = Module::LoadMode;

const std::string kLinear = ET_MODELS "/official_linear.pte";        // float32 [2, 4] -> float32 [2, 3]
const std::string kUnplanned = ET_MODELS "/official_unplanned.pte";  // its outputs have no planned memory

std::vector<uint8_t> bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// forward(x, y, k) = x + y with k unused; x may have 1 to 4 rows. count(x): state += x, gives it.
std::vector<uint8_t> sum_program() {
  ProgramBuilder b;
  const int x = b.input(b.tensor({4, 2}, ScalarType::Float, schema::TensorShapeDynamism_DYNAMIC_BOUND));
  const int y = b.input(b.tensor({4, 2}, ScalarType::Float, schema::TensorShapeDynamism_DYNAMIC_BOUND));
  b.input(b.integer(3));
  const int out = b.output(b.tensor({4, 2}, ScalarType::Float, schema::TensorShapeDynamism_DYNAMIC_BOUND));
  b.kernel("aten::add", "out", {x, y, b.integer(1), out, out});
  b.add_method("count");
  const int by = b.input(b.tensor({1}));
  const int state = b.state({1}, {5}, "counter");
  const int now = b.output(b.tensor({1}));
  b.kernel("aten::add", "out", {state, by, b.integer(1), now, now});
  b.kernel("aten::copy", "out", {state, now, b.boolean(false), state, state});
  b.add_method("nothing");
  return b.build();
}

class ModuleTest : public MessagesTest {
 protected:
  TensorPtr ones_of(int64_t rows) { return ones({rows, 2}); }
};

float first(const EValue& value) { return value.toTensor().const_data_ptr<float>()[0]; }

TEST_F(ModuleTest, RunsAFileBytesAndALoader) {
  const TensorPtr x = ones({2, 4});
  Module file(kLinear);
  EXPECT_FALSE(file.is_loaded());
  const auto expected = file.forward(x);
  ASSERT_TRUE(expected.ok()) << text();
  EXPECT_TRUE(file.is_loaded());
  const float value = first(expected->at(0));
  for (const Mode mode : {Mode::File, Mode::Mmap, Mode::MmapUseMlockIgnoreErrors}) {
    Module module(kLinear, mode);
    EXPECT_EQ(first(*module.get(x)), value);
  }
  Module bytes(bytes_of(kLinear));
  EXPECT_EQ(first(*bytes.get({x})), value);
  alignas(16) static uint8_t memory[1 << 16];
  const std::vector<uint8_t> content = bytes_of(kLinear);
  ASSERT_LT(content.size(), sizeof(memory));
  std::copy(content.begin(), content.end(), memory);
  Module loader(std::make_unique<BufferDataLoader>(memory, content.size()));
  EXPECT_EQ(first(*loader.get(std::vector<EValue>{x})), value);
  Module shared(file.program());
  EXPECT_EQ(first(*shared.get(*x)), value) << "a Tensor is borrowed";
}

TEST_F(ModuleTest, TellsWhatThereIs) {
  Module module(sum_program());
  EXPECT_EQ(*module.num_methods(), 3u);
  EXPECT_EQ(*module.method_names(), (std::unordered_set<std::string>{"forward", "count", "nothing"}));
  const auto meta = module.method_meta("forward");
  ASSERT_TRUE(meta.ok());
  EXPECT_EQ(meta->num_inputs(), 3u);
  EXPECT_EQ(meta->input_tensor_meta(0)->scalar_type(), ScalarType::Float);
  EXPECT_EQ(meta->input_tensor_meta(0)->sizes()[0], 4);
  EXPECT_EQ(*meta->input_tag(2), executorch::runtime::Tag::kInt);
  EXPECT_EQ(meta->input_tag(3).error(), Error::InvalidArgument);
  EXPECT_EQ(meta->output_tensor_meta(1).error(), Error::InvalidArgument);
  EXPECT_EQ(meta->memory_planned_buffer_size(9).error(), Error::InvalidArgument);
  EXPECT_EQ(meta->get_backend_name(0).error(), Error::InvalidArgument);
  EXPECT_FALSE(module.is_method_loaded("forward"));
  EXPECT_EQ(module.load_forward(), Error::Ok);
  EXPECT_TRUE(module.is_method_loaded("forward"));
  EXPECT_EQ((*module.method("forward"))->num_outputs(), 1u);
  EXPECT_TRUE(module.unload_forward());
  EXPECT_FALSE(module.unload_forward());
}

TEST_F(ModuleTest, KeepsWhatSetInputWasGiven) {
  Module module(sum_program());
  ASSERT_EQ(module.set_input(full({2, 2}, 10), 1), Error::Ok) << text();  // nobody else holds that tensor
  EXPECT_EQ(first(*module.get(ones_of(2))), 11);
  EXPECT_EQ(first(*module.get({ones_of(2), ones_of(2)})), 2);
  EXPECT_EQ(first(*module.get({ones_of(2)})), 11) << "a call's own input stood for that call only";
  ASSERT_EQ(module.set_inputs({ones_of(3), ones_of(3), 3}), Error::Ok) << text();
  EXPECT_EQ(first(*module.get()), 2);
  EXPECT_EQ(module.set_inputs({ones_of(3)}), Error::InvalidArgument);
  EXPECT_EQ(first(*module.get()), 2);
}

TEST_F(ModuleTest, OutputsOutliveTheirModule) {
  std::vector<EValue> outputs;
  {
    Module module(sum_program());
    outputs = std::move(*module.forward({ones_of(1), ones_of(1)}));
    module.unload_forward();
  }
  EXPECT_EQ(first(outputs[0]), 2);
  EXPECT_EQ(outputs[0].toTensor().size(0), 1);
}

TEST_F(ModuleTest, WritesOutputsWhereItIsTold) {
  Module module(sum_program());
  const TensorPtr place = zeros({4, 2});
  ASSERT_EQ(module.set_output(place), Error::Ok) << text();
  ASSERT_TRUE(module.forward({ones_of(3), ones_of(3)}).ok()) << text();
  EXPECT_EQ(place->size(0), 3) << "it has the output's sizes";
  EXPECT_EQ(place->const_data_ptr<float>()[5], 2);
  EXPECT_EQ(module.get_output()->toTensor().numel(), 6);
  EXPECT_EQ(module.set_output(EValue()), Error::Ok);
  ASSERT_TRUE(module.forward({full({1, 2}, 7), ones_of(1)}).ok());
  EXPECT_EQ(place->const_data_ptr<float>()[0], 2) << "no longer";
  EXPECT_EQ(module.set_outputs({place}), Error::Ok);
}

TEST_F(ModuleTest, OutputsWithoutPlannedMemoryNeedNoCall) {
  Module module(kUnplanned);
  const auto meta = module.method_meta("forward");
  ASSERT_TRUE(meta.ok()) << text();
  std::vector<EValue> inputs;
  for (size_t i = 0; i < meta->num_inputs(); ++i) {
    const auto info = meta->input_tensor_meta(i);
    ASSERT_TRUE(info.ok());
    inputs.push_back(ones(info->sizes(), info->scalar_type()));
  }
  const auto outputs = module.forward(inputs);
  ASSERT_TRUE(outputs.ok()) << text();
  EXPECT_NE(outputs->at(0).toTensor().const_data_ptr(), nullptr);
}

TEST_F(ModuleTest, StateStaysUntilItIsReset) {
  Module module(sum_program());
  EXPECT_EQ(first(*module.get("count", ones({1}))), 6);
  EXPECT_EQ(first(*module.get("count", ones({1}))), 7);
  ASSERT_EQ(module.reset_state(), Error::Ok);
  EXPECT_EQ(first(*module.get("count", ones({1}))), 6);
}

TEST_F(ModuleTest, SaysWhatIsWrongWithAFile) {
  Module missing("nowhere/model.pte");
  EXPECT_EQ(missing.load(), Error::AccessFailed);
  said({"nowhere/model.pte"});
  EXPECT_FALSE(missing.is_loaded());
  EXPECT_EQ(missing.forward().error(), Error::AccessFailed);
  EXPECT_EQ(Module("").load(), Error::AccessFailed);
  Module text_file(std::vector<uint8_t>(100, 'x'));
  EXPECT_EQ(text_file.load(), Error::InvalidProgram);
  EXPECT_EQ(Module(std::vector<uint8_t>()).load(), Error::InvalidProgram);
  EXPECT_EQ(Module(std::unique_ptr<runtime::DataLoader>()).load(), Error::InvalidArgument);
  EXPECT_EQ(Module(std::shared_ptr<runtime::HostProgram>()).load(), Error::InvalidArgument);
  text().clear();
  EXPECT_EQ(Module(kLinear, "nowhere.ptd").load(), Error::AccessFailed);
  said({"nowhere.ptd"});
  Module module(kLinear);
  EXPECT_EQ(module.forward({}).error(), Error::InvalidArgument);
  said({"0 inputs were given", "'forward'", "official_linear.pte", "takes 1", "torch.float32 (2, 4)"});
  EXPECT_EQ(module.execute("backward").error(), Error::NotFound);
  said({"backward", "official_linear.pte", "forward"});
}

TEST_F(ModuleTest, SaysWhatIsWrongWithAnInput) {
  Module module(kLinear);
  EXPECT_EQ(module.forward(ones({2, 4}, ScalarType::Double)).error(), Error::InvalidType);
  said({"input 0 of method 'forward' of '",
        "official_linear.pte' is torch.float32 (2, 4), torch.float64 (2, 4) was given"});
  EXPECT_EQ(module.forward(ones({2, 5})).error(), Error::InvalidArgument);
  said({"is torch.float32 (2, 4), torch.float32 (2, 5) was given"});
  EXPECT_EQ(module.forward(ones({8})).error(), Error::InvalidArgument);
  said({"is torch.float32 (2, 4), torch.float32 (8,) was given"});
  EXPECT_EQ(module.forward({1}).error(), Error::InvalidType);
  said({"is torch.float32 (2, 4), Int was given"});
  EXPECT_EQ(module.forward(EValue()).error(), Error::InvalidType);
  EXPECT_EQ(module.forward(TensorPtr()).error(), Error::InvalidType);
  said({"is torch.float32 (2, 4), None was given"});
  EXPECT_EQ(module.forward({ones({2, 4}), ones({2, 4})}).error(), Error::InvalidArgument);
  said({"2 inputs were given", "takes 1"});
  EXPECT_EQ(module.set_input(ones({2, 4}), 1), Error::InvalidArgument);
  EXPECT_EQ(module.set_input(ones({3, 4}), 0), Error::InvalidArgument);
  EXPECT_EQ(module.forward().error(), Error::InvalidArgument) << "a refused input is not kept";
  Module sum(sum_program());
  text().clear();
  EXPECT_EQ(sum.forward({ones_of(5), ones_of(5)}).error(), Error::InvalidArgument);
  said({"input 0", "(0 to 4, 0 to 2)", "torch.float32 (5, 2) was given"});
  EXPECT_EQ(sum.forward({ones_of(1), ones_of(1), 4}).error(), Error::InvalidArgument);
  said({"input 2 of method 'forward' of the program in memory is Int, Int was given"});
  EXPECT_TRUE(sum.forward({ones_of(1), ones_of(1), 3}).ok()) << "an error leaves the module usable: " << text();
  EXPECT_TRUE(module.forward(ones({2, 4})).ok());
}

TEST_F(ModuleTest, SaysWhatIsWrongWithAnOutput) {
  Module module(sum_program());
  EXPECT_EQ(module.get_output().error(), Error::InvalidState);
  said({"has no outputs: it has not run"});
  EXPECT_EQ(module.set_output(ones({4, 2}), 1), Error::InvalidArgument);
  said({"there is no output 1 of method 'forward'"});
  EXPECT_EQ(module.set_output(ones({4, 2}, ScalarType::Half)), Error::InvalidType);
  said({"is torch.float32 of rank 2, torch.float16 (4, 2) was given"});
  EXPECT_EQ(module.set_output(ones({8})), Error::InvalidType);
  EXPECT_EQ(module.set_output(EValue(3)), Error::InvalidType);
  EXPECT_EQ(module.set_outputs({}), Error::InvalidArgument);
  ASSERT_EQ(module.set_output(ones({1, 2})), Error::Ok);
  EXPECT_EQ(module.forward({ones_of(4), ones_of(4)}).error(), Error::OutOfResources) << "too small";
  EXPECT_EQ(module.get_outputs().error(), Error::InvalidState) << "those of a failed call";
  EXPECT_TRUE(module.forward({ones_of(1), ones_of(1)}).ok());
  EXPECT_EQ(module.get_output(1).error(), Error::InvalidArgument);
  EXPECT_EQ(module.get("nothing").error(), Error::InvalidState);
  EXPECT_EQ(module.execute("nothing")->size(), 0u);
}

TEST_F(ModuleTest, MovesAndRefusesWhatIsLeft) {
  Module module(sum_program());
  ASSERT_EQ(module.set_input(ones_of(1), 1), Error::Ok);
  Module moved = std::move(module);
  EXPECT_EQ(first(*moved.get(ones_of(1))), 2);
  EXPECT_EQ(module.forward().error(), Error::InvalidState);  // NOLINT(bugprone-use-after-move): the subject
  said({"has been moved from"});
  EXPECT_EQ(module.load(), Error::InvalidState);
  EXPECT_FALSE(module.is_loaded());
  EXPECT_FALSE(module.is_method_loaded("forward"));
  EXPECT_FALSE(module.unload_method("forward"));
  EXPECT_EQ(module.program(), nullptr);
  EXPECT_EQ(module.event_tracer(), nullptr);
  EXPECT_EQ(module.set_input(EValue(), 0), Error::InvalidState);
  EXPECT_EQ(module.set_output(EValue(), 0), Error::InvalidState);
  EXPECT_EQ(module.get_outputs().error(), Error::InvalidState);
  EXPECT_EQ(module.method_names().error(), Error::InvalidState);
  EXPECT_EQ(module.num_methods().error(), Error::InvalidState);
  EXPECT_EQ(module.method("forward").error(), Error::InvalidState);
  EXPECT_EQ(module.reset_state(), Error::InvalidState);
  module = std::move(moved);
  EXPECT_EQ(first(*module.get(ones_of(1))), 2);
}

TEST_F(ModuleTest, ThreadsThatShareOneAreRefusedOrServed) {
  Module module(sum_program());
  ASSERT_TRUE(module.forward({ones_of(4), ones_of(4)}).ok());
  std::atomic<int> served{0}, refused{0}, other{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const Error error = module.forward({ones({4, 2}), ones({4, 2})}).error();
        (error == Error::Ok ? served : error == Error::InvalidState ? refused : other).fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_GT(served, 0);
  EXPECT_EQ(other, 0);
}

TEST_F(ModuleTest, ModulesOfOneProgramRunSideBySide) {
  Module module(kLinear);
  ASSERT_EQ(module.load(), Error::Ok);
  const float value = first(*module.get(ones({2, 4})));
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, program = module.program()] {
      Module own(program);
      for (int i = 0; i < 50; ++i) {
        const auto output = own.get(ones({2, 4}));
        right += output.ok() && first(*output) == value ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(right, 200);
}

/// Counts events, and calls the module that it traces, which is refused.
class Meddler final : public EventTracer {
 public:
  void record(const runtime::TraceEvent&) override {
    ++events;
    if (module != nullptr) {
      errors += module->forward().error() == Error::InvalidState ? 1 : 0;
    }
  }
  Module* module = nullptr;
  int events = 0;
  int errors = 0;
};

TEST_F(ModuleTest, TracesAndRefusesCallsFromInside) {
  auto made = std::make_unique<Meddler>();
  Meddler* const meddler = made.get();
  Module module(kLinear, Mode::Mmap, std::move(made));
  EXPECT_EQ(module.event_tracer(), meddler);
  meddler->module = &module;
  ASSERT_TRUE(module.forward(ones({2, 4})).ok()) << text();
  EXPECT_GT(meddler->events, 0);
  EXPECT_EQ(meddler->errors, meddler->events);
  Meddler own;
  Module other(kLinear);
  ASSERT_EQ(other.load_forward(&own), Error::Ok);
  ASSERT_TRUE(other.forward(ones({2, 4})).ok());
  EXPECT_GT(own.events, 0);
}

/// A pool of one thread that counts the calls it is asked about.
class CountingPool final : public threads::ThreadPool {
 public:
  size_t num_threads() const override { return 1; }
  void run(size_t count, Task task, void* argument) override {
    for (size_t i = 0; i < count; ++i) {
      task(argument, i);
    }
  }
  void set_num_threads(size_t) override {}
  void rest() override {}
  void end_call() override { ++calls; }

  int calls = 0;
};

TEST_F(ModuleTest, RegistriesAndPoolOfTheUserWin) {
  const runtime::KernelRegistry no_kernels;
  Module::Options options;
  options.kernels = &no_kernels;
  Module bare(sum_program(), options);
  EXPECT_EQ(bare.forward({ones_of(1), ones_of(1)}).error(), Error::OperatorMissing);
  said({"aten::add.out"});
  CountingPool pool;
  options.kernels = nullptr;
  options.pool = &pool;
  Module module(sum_program(), options);
  EXPECT_TRUE(module.forward({ones_of(1), ones_of(1)}).ok()) << text();
  EXPECT_EQ(pool.calls, 1);
  Module defaults(kLinear);
  ASSERT_EQ(defaults.load(), Error::Ok);
  EXPECT_EQ(defaults.program()->options().pool, threads::default_pool());
}

}  // namespace
}  // namespace et::test
