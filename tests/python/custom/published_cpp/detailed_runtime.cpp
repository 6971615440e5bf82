// As the published page "Detailed C++ Runtime APIs" runs a model: the application gives all memory.
#include <executorch_py/extension/data_loader/file_data_loader.h>
#include <executorch_py/extension/memory_allocator/malloc_memory_allocator.h>
#include <executorch_py/runtime/core/evalue.h>
#include <executorch_py/runtime/core/hierarchical_allocator.h>
#include <executorch_py/runtime/executor/memory_manager.h>
#include <executorch_py/runtime/executor/method.h>
#include <executorch_py/runtime/executor/method_meta.h>
#include <executorch_py/runtime/executor/program.h>
#include <executorch_py/runtime/platform/log.h>
#include <executorch_py/runtime/platform/runtime.h>

#undef NDEBUG
#include <cassert>
#include <cstring>
#include <memory>
#include <vector>

using executorch::aten::ScalarType;
using executorch::aten::Tensor;
using executorch::aten::TensorImpl;
using executorch::extension::FileDataLoader;
using executorch::extension::MallocMemoryAllocator;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::HierarchicalAllocator;
using executorch::runtime::MemoryAllocator;
using executorch::runtime::MemoryManager;
using executorch::runtime::Method;
using executorch::runtime::MethodMeta;
using executorch::runtime::Program;
using executorch::runtime::Result;
using executorch::runtime::Span;
using executorch::runtime::TensorInfo;

alignas(16) static uint8_t pool[256 * 1024U];

static void run(const Program& program, MemoryAllocator& method_allocator) {
  Result<const char*> name = program.get_method_name(0);
  assert(name.ok() && std::strcmp(*name, "forward") == 0);
  Result<MethodMeta> meta = program.method_meta(*name);
  assert(meta.ok() && meta->num_inputs() == 1 && meta->num_outputs() == 1);
  Result<TensorInfo> info = meta->input_tensor_meta(0);
  assert(info.ok() && info->scalar_type() == ScalarType::Float && info->sizes()[1] == 8);

  std::vector<std::unique_ptr<uint8_t[]>> buffers;
  std::vector<Span<uint8_t>> spans;
  for (size_t id = 0; id < meta->num_memory_planned_buffers(); ++id) {
    const size_t size = static_cast<size_t>(meta->memory_planned_buffer_size(id).get());
    buffers.push_back(std::make_unique<uint8_t[]>(size));
    spans.push_back({buffers.back().get(), size});
  }
  HierarchicalAllocator planned({spans.data(), spans.size()});
  MemoryManager memory(&method_allocator, &planned);
  Result<Method> method = program.load_method(*name, &memory);
  assert(method.ok());

  float data[2 * 8];
  for (float& value : data) value = 1.0f;
  TensorImpl::SizesType sizes[] = {2, 8};
  TensorImpl::DimOrderType dim_order[] = {0, 1};
  TensorImpl impl(ScalarType::Float, 2, sizes, data, dim_order);
  Tensor input(&impl);
  assert(method->set_input(input, 0) == Error::Ok);
  assert(method->execute() == Error::Ok);
  const EValue& output = method->get_output(0);
  assert(output.isTensor() && output.toTensor().size(1) == 4);

  std::vector<EValue> outputs(method->outputs_size());
  assert(method->get_outputs(outputs.data(), outputs.size()) == Error::Ok);
  assert(outputs[0].toTensor().const_data_ptr() == output.toTensor().const_data_ptr());
  float mine[2 * 4] = {};
  assert(method->set_output_data_ptr(mine, sizeof(mine), 0) == Error::Ok);
  assert(method->set_inputs({EValue(input)}) == Error::Ok && method->execute() == Error::Ok);
  assert(mine[0] != 0.0f);
  assert(method->set_input(input, 7) != Error::Ok);
}

int main() {
  executorch::runtime::runtime_init();
  Result<FileDataLoader> loader = FileDataLoader::from("model.pte");
  assert(loader.ok());
  Result<Program> program = Program::load(&loader.get(), Program::Verification::InternalConsistency);
  if (!program.ok()) {
    ET_LOG(Error, "Failed to parse the model: 0x%x", static_cast<unsigned>(program.error()));
    return 1;
  }
  MemoryAllocator from_pool{sizeof(pool), pool};
  run(*program, from_pool);
  MallocMemoryAllocator from_heap;
  run(*program, from_heap);
  assert(!FileDataLoader::from("nowhere.pte").ok());
  const auto head = loader->load(0, Program::kMinHeadBytes);
  assert(head.ok() && Program::check_header(head->data(), head->size()) == Program::HeaderStatus::CompatibleVersion);
  return 0;
}
