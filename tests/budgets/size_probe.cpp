// A program that calls all of the runtime that a microcontroller has, so that the linker keeps it: loading with both
// verifiers, memory, the executor, delegates, state, failure reports. No kernels: those are a choice of the model.

#include "runtime/method.h"

using namespace et;           // NOLINT(google-build-using-namespace): a program, not a header
using namespace et::runtime;  // NOLINT(google-build-using-namespace)

namespace {

alignas(16) uint8_t g_model[1024];
alignas(16) uint8_t g_arena[1024];
alignas(16) uint8_t g_pool[1024];

Error run() {
  BufferLoader loader(g_model, sizeof(g_model));
  ET_TRY(const Program program, Program::load(&loader));
  ET_TRY(const MethodMeta meta, program.method_meta(program.method_name(0)));

  static KernelRegistry kernels;
  static BackendRegistry backends;
  MemoryAllocator method_allocator(g_pool, sizeof(g_pool));
  const Span<uint8_t> planned[] = {{g_arena, static_cast<size_t>(meta.memory_planned_buffer_size(0))}};
  const MemoryManager memory{&method_allocator, {planned, 1}, nullptr, nullptr};
  MethodOptions options;
  options.kernels = &kernels;
  options.backends = &backends;
  ET_TRY(Method method, program.load_method("forward", &memory, options));
  ET_RETURN_IF_ERROR(method.set_input(EValue(static_cast<int64_t>(meta.num_inputs())), 0));
  ET_RETURN_IF_ERROR(method.set_output_data_ptr(g_arena, sizeof(g_arena), 0));
  ET_RETURN_IF_ERROR(method.execute());
  ET_RETURN_IF_ERROR(method.reset_state());
  return method.get_output(0).is_tensor() && !method.failure().in_instruction ? Error::Ok : Error::InvalidState;
}

}  // namespace

int main() { return static_cast<int>(run()); }
