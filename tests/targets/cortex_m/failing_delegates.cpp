// Delegates that fail on the device: each one at its init, and in the middle of an execution. Memory is given back,
// state is what was written before, and the next call is right.
//
// Takes the place of main.cpp in a project of `etpy firmware`; tests/targets/test_faults.py reads what it prints.
#include <cstring>

#include "backends.h"
#include "board/board.h"
#include "kernels.h"
#include "memory.h"
#include "model.h"
#include "report.h"

namespace {

using namespace et;           // NOLINT(google-build-using-namespace): a program, not a header
using namespace et::runtime;  // NOLINT(google-build-using-namespace)

constexpr size_t kStateBytes = 5 * sizeof(float), kMaxInstructions = 64;

alignas(16) uint8_t g_method_pool[firmware::kMethodPoolBytes];
alignas(64) uint8_t g_temp_pool[firmware::kTempPoolBytes];
alignas(16) uint8_t g_arena[firmware::kArenaBytes];

/// The model's backend, whose n-th init or execute fails.
class Failing final : public BackendInterface {
 public:
  explicit Failing(const BackendInterface* inner) : inner_(*inner) {}
  bool is_available() const override { return inner_.is_available(); }
  Result<DelegateHandle*> init(BackendInitContext& context, FreeableBuffer* processed,
                               Span<const CompileSpec> specs) const override {
    ET_CHECK_OR_RETURN(++inits != fail_init_at, AccessFailed, "the device does not answer");
    Result<DelegateHandle*> handle = inner_.init(context, processed, specs);
    live += handle.ok() ? 1 : 0;
    return handle;
  }
  Error execute(BackendExecutionContext& context, DelegateHandle* handle, Span<EValue* const> args) const override {
    ET_TRY(void* const scratch, context.kernel.allocate_temp(16));
    static_cast<void>(scratch);
    ET_RETURN_IF_ERROR(inner_.execute(context, handle, args));
    failed_at = context.instruction;  // its output is there, and nobody may read it
    ET_CHECK_OR_RETURN(++executions != fail_execute_at, DelegateInvalidHandle, "the device hangs");
    return Error::Ok;
  }
  void destroy(DelegateHandle* handle) const override {
    --live;
    inner_.destroy(handle);
  }
  void fail(int init_at, int execute_at) {
    fail_init_at = init_at, fail_execute_at = execute_at;
    inits = executions = 0;
  }

  mutable int inits = 0, executions = 0, live = 0, failed_at = 0;
  int fail_init_at = 0, fail_execute_at = 0;

 private:
  const BackendInterface& inner_;
};

struct Device {
  firmware::Pool method_pool{"method pool", g_method_pool, sizeof(g_method_pool)};
  firmware::Pool temp_pool{"temporary pool", g_temp_pool, sizeof(g_temp_pool)};
  Span<uint8_t> planned[firmware::kNumArenas];
  BufferLoader loader{firmware::kModel, firmware::kModelBytes};
  KernelRegistry kernels;
  BackendRegistry backends;
  MemoryManager memory{&method_pool, {planned, firmware::kNumArenas}, &temp_pool, nullptr};
  MethodOptions options;

  Error start(const char* name, const BackendInterface* backend) {
    for (size_t i = 0, used = 0; i < firmware::kNumArenas; used += firmware::kArenas[i], ++i) {
      planned[i] = {g_arena + used, firmware::kArenas[i]};
    }
    ET_RETURN_IF_ERROR(firmware::register_kernels(kernels));
    options.kernels = &kernels;
    options.backends = &backends;
    return backends.add(name, backend);
  }
  Result<Method> load(const Program& program) {
    method_pool.reset();
    return program.load_method(firmware::kMethod, &memory, options);
  }
};

Error give_up(const char* why) {
  board::write(why);
  board::write("\n");
  return Error::Internal;
}

const void* state_of(Method& method) { return method.attribute(0).tensor.const_data_ptr(); }

Error set_input(Method& method) {
  return firmware::set_input(method, 0, firmware::kInputs[0].data, firmware::kInputs[0].size);
}

/// From its initial state the method gives what the host computed.
bool is_right(Method& method) {
  return method.reset_state() == Error::Ok && set_input(method) == Error::Ok && method.execute() == Error::Ok &&
         memcmp(method.get_output(0).to_tensor().const_data_ptr(), firmware::kOutputs[0].data,
                firmware::kOutputs[0].size) == 0;
}

Error fail_each_init(Device& device, Failing& backend, const Program& program, int count) {
  for (int n = 1; n <= count; ++n) {
    backend.fail(n, 0);
    if (device.load(program).error() != Error::AccessFailed) {
      return give_up("a load did not have the delegate's error");
    }
    if (backend.live != 0 || device.temp_pool.used() != 0) {
      return give_up("a load that failed left a delegate or memory behind");
    }
    backend.fail(0, 0);
    ET_TRY(Method method, device.load(program));
    if (!is_right(method)) {
      return give_up("the load after one that failed computes something else");
    }
  }
  return Error::Ok;
}

Error fail_each_execution(Device& device, Failing& backend, const Program& program, int count) {
  static uint8_t states[kMaxInstructions + 1][kStateBytes];  // before each instruction
  ET_TRY(Method method, device.load(program));
  ET_RETURN_IF_ERROR(set_input(method));
  for (size_t i = 0; i < method.meta().num_instructions() && i < kMaxInstructions; ++i) {
    memcpy(states[i], state_of(method), kStateBytes);
    ET_RETURN_IF_ERROR(method.step());
  }
  method.reset_execution();
  const size_t used = device.method_pool.used();
  int changed = 0;
  for (int n = 1; n <= count; ++n) {
    ET_RETURN_IF_ERROR(method.reset_state());
    ET_RETURN_IF_ERROR(set_input(method));
    backend.fail(0, n);
    if (method.execute() != Error::DelegateInvalidHandle) {
      return give_up("an execution did not have the delegate's error");
    }
    if (device.temp_pool.used() != 0 || device.method_pool.used() != used) {
      return give_up("an execution that failed kept memory");
    }
    if (memcmp(state_of(method), states[backend.failed_at], kStateBytes) != 0) {
      return give_up("state is not what was written before the error");
    }
    changed += memcmp(state_of(method), states[0], kStateBytes) != 0 ? 1 : 0;
    backend.fail(0, 0);
    if (!is_right(method)) {
      return give_up("an execution after one that failed computes something else");
    }
  }
  firmware::write_number("with state written ", static_cast<uint64_t>(changed));
  board::write("\n");
  return Error::Ok;
}

Error run() {
  ET_TRY(const BackendRegistry* const own, firmware::backends());
  Failing backend(own->backend(0));
  Device device;
  ET_RETURN_IF_ERROR(device.start(own->name(0), &backend));
  ET_TRY(const Program program, Program::load(&device.loader));
  {
    ET_TRY(Method method, device.load(program));
    if (!is_right(method)) {
      return give_up("the method computes something else than the host");
    }
  }
  const int count = backend.inits;
  ET_RETURN_IF_ERROR(fail_each_init(device, backend, program, count));
  ET_RETURN_IF_ERROR(fail_each_execution(device, backend, program, count));
  firmware::write_number("delegates ", static_cast<uint64_t>(count));
  board::write(backend.live == 0 ? "\nas documented\n" : "\na delegate is left\n");
  return Error::Ok;
}

}  // namespace

int main() { return static_cast<int>(run()); }
