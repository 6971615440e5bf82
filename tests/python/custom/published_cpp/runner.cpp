// As a runner for the published library is written: names of methods, inputs of ones, checks by macros.
#include <executorch_py/extension/data_loader/mmap_data_loader.h>
#include <executorch_py/extension/evalue_util/print_evalue.h>
#include <executorch_py/extension/memory_allocator/malloc_memory_allocator.h>
#include <executorch_py/extension/runner_util/inputs.h>
#include <executorch_py/runtime/core/array_ref.h>
#include <executorch_py/runtime/core/portable_type/tensor_impl.h>
#include <executorch_py/runtime/core/result.h>
#include <executorch_py/runtime/executor/method.h>
#include <executorch_py/runtime/executor/program.h>
#include <executorch_py/runtime/platform/assert.h>
#include <executorch_py/runtime/platform/compiler.h>
#include <executorch_py/runtime/platform/log.h>
#include <executorch_py/runtime/platform/runtime.h>

#include <iostream>
#include <memory>
#include <vector>

using namespace torch::executor;
using executorch::extension::MallocMemoryAllocator;
using executorch::extension::MmapDataLoader;

static Error check(const Program& program) {
  auto missing = program.method_meta("nothing");
  ET_CHECK_OR_RETURN_ERROR(missing.error() == Error::NotFound, Internal, "a method that is not there");
  ET_CHECK_OK_OR_RETURN_ERROR(program.method_meta("forward").error());
  return Error::Ok;
}

static size_t count(ArrayRef<int64_t> sizes) { return sizes.size(); }

int main() {
  runtime_init();
  auto loader = MmapDataLoader::from("model.pte", MmapDataLoader::MlockConfig::UseMlockIgnoreErrors);
  ET_CHECK_MSG(loader.ok(), "MmapDataLoader::from() failed: 0x%x", static_cast<unsigned>(loader.error()));
  Result<Program> program = Program::load(&loader.get());
  ET_CHECK(program.ok());
  ET_CHECK_OK(check(*program));
  MallocMemoryAllocator allocator;
  const auto meta = program->method_meta("forward");
  std::vector<std::unique_ptr<uint8_t[]>> buffers;
  std::vector<Span<uint8_t>> spans;
  for (size_t id = 0; id < meta->num_memory_planned_buffers(); ++id) {
    const size_t size = static_cast<size_t>(meta->memory_planned_buffer_size(id).get());
    buffers.push_back(std::make_unique<uint8_t[]>(size));
    spans.push_back({buffers.back().get(), size});
  }
  HierarchicalAllocator planned({spans.data(), spans.size()});
  ET_CHECK(planned.get_offset_address(static_cast<uint32_t>(spans.size()), 0, 1).error() == Error::InvalidArgument);
  MemoryManager memory(&allocator, &planned, nullptr);
  Result<Method> method = program->load_method("forward", &memory);
  ET_CHECK_MSG(method.ok(), "Loading of method forward failed with status 0x%x", static_cast<unsigned>(method.error()));
  auto inputs = executorch::extension::prepare_input_tensors(*method);
  ET_CHECK_MSG(inputs.ok(), "Could not prepare inputs: 0x%x", static_cast<unsigned>(inputs.error()));
  const Error status = method->execute();
  ET_CHECK_MSG(status == Error::Ok, "Execution failed with status 0x%x", static_cast<unsigned>(status));
  ET_LOG(Info, "Model executed successfully.");
  std::vector<EValue> outputs(method->outputs_size());
  ET_CHECK_OK(method->get_outputs(outputs.data(), outputs.size()));
  std::cout << executorch::extension::evalue_edge_items(100);
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::cout << "Output " << i << ": " << outputs[i] << std::endl;
  }
  ET_CHECK(count(outputs[0].toTensor().sizes()) == 2);
  return 0;
}
