// Backends in both published forms, registered by a static object and by a call.
#include <executorch_py/extension/module/module.h>
#include <executorch_py/extension/tensor/tensor.h>
#include <executorch_py/runtime/backend/interface.h>
#include <executorch_py/runtime/core/error.h>
#include <executorch_py/runtime/core/evalue.h>

#undef NDEBUG
#include <cassert>
#include <cstring>
#include <new>

namespace {

using executorch::aten::Tensor;
using executorch::runtime::ArrayRef;
using executorch::runtime::Backend;
using executorch::runtime::BackendExecutionContext;
using executorch::runtime::BackendInitContext;
using executorch::runtime::BackendInterface;
using executorch::runtime::CompileSpec;
using executorch::runtime::DelegateHandle;
using executorch::runtime::Error;
using executorch::runtime::EValue;
using executorch::runtime::FreeableBuffer;
using executorch::runtime::register_backend;
using executorch::runtime::Result;
using executorch::runtime::Span;

int destroyed = 0;

/// What "factor" says times the input; the payload is "scale".
struct Scaled {
  float factor;
};

Result<DelegateHandle*> made(BackendInitContext& context, FreeableBuffer* processed, ArrayRef<CompileSpec> specs) {
  if (processed->size() != 5 || std::memcmp(processed->data(), "scale", 5) != 0) {
    return Error::InvalidProgram;
  }
  assert(std::strcmp(context.get_method_name(), "forward") == 0);
  assert(context.get_named_data_map() != nullptr && context.event_tracer() == nullptr);
  void* const memory = context.get_runtime_allocator()->allocate(sizeof(Scaled), alignof(Scaled));
  if (memory == nullptr) {
    return Error::MemoryAllocationFailed;
  }
  auto* const handle = new (memory) Scaled{0};
  for (const CompileSpec& spec : specs) {
    if (std::strcmp(spec.key, "factor") == 0) {
      assert(spec.value.nbytes == 1);
      handle->factor = *static_cast<const unsigned char*>(spec.value.buffer);
    }
  }
  processed->Free();
  return handle;
}

Error scale(BackendExecutionContext& context, DelegateHandle* handle, EValue* input, EValue* output) {
  const Tensor x = input->toTensor();
  Tensor out = output->toTensor();
  const Error resized = executorch::runtime::resize_tensor(out, x.sizes());
  if (resized != Error::Ok) {
    return resized;
  }
  auto* const scratch = static_cast<float*>(context.allocate(x.nbytes()));
  assert(scratch != nullptr && std::strcmp(context.get_method_name(), "forward") == 0);
  for (ssize_t i = 0; i < x.numel(); ++i) {
    scratch[i] = static_cast<Scaled*>(handle)->factor * x.const_data_ptr<float>()[i];
  }
  std::memcpy(out.mutable_data_ptr<float>(), scratch, x.nbytes());
  return Error::Ok;
}

class WithSpan final : public BackendInterface {
 public:
  bool is_available() const override { return true; }
  Result<DelegateHandle*> init(BackendInitContext& context, FreeableBuffer* processed,
                               ArrayRef<CompileSpec> specs) const override {
    return made(context, processed, specs);
  }
  Error execute(BackendExecutionContext& context, DelegateHandle* handle, Span<EValue*> args) const override {
    assert(args.size() == 2 && args[0]->isTensor());
    return scale(context, handle, args[0], args[1]);
  }
  void destroy(DelegateHandle* handle) const override { destroyed += handle != nullptr; }
};

class WithPointers final : public BackendInterface {
 public:
  bool is_available() const override { return true; }
  Result<DelegateHandle*> init(BackendInitContext& context, FreeableBuffer* processed,
                               ArrayRef<CompileSpec> specs) const override {
    return made(context, processed, specs);
  }
  Error execute(BackendExecutionContext& context, DelegateHandle* handle, EValue** args) const override {
    return scale(context, handle, args[0], args[1]);
  }
};

class WithNeither final : public BackendInterface {
 public:
  bool is_available() const override { return true; }
  Result<DelegateHandle*> init(BackendInitContext& context, FreeableBuffer* processed,
                               ArrayRef<CompileSpec> specs) const override {
    return made(context, processed, specs);
  }
};

auto with_span = WithSpan();
Backend with_span_backend{"SpanBackend", &with_span};
static auto registered = register_backend(with_span_backend);

Error forward(const char* path, std::vector<float> numbers) {
  executorch::extension::Module module(path);
  const auto size = static_cast<executorch::aten::SizesType>(numbers.size());
  const auto output = module.forward(executorch::extension::make_tensor_ptr({size}, numbers));
  if (!output.ok()) {
    return output.error();
  }
  const Tensor result = output->at(0).toTensor();
  assert(result.numel() == size);
  for (ssize_t i = 0; i < size; ++i) {
    assert(result.const_data_ptr<float>()[i] == 3 * numbers[static_cast<size_t>(i)] + 1);
  }
  return Error::Ok;
}

}  // namespace

int main() {
  static WithPointers with_pointers;
  static WithNeither with_neither;
  assert(registered == Error::Ok && register_backend({"PointerBackend", &with_pointers}) == Error::Ok);
  assert(register_backend({"NeitherBackend", &with_neither}) == Error::Ok);
  assert(register_backend({"SpanBackend", &with_span}) == Error::RegistrationAlreadyRegistered);
  assert(register_backend({nullptr, &with_span}) == Error::InvalidArgument);
  assert(forward("span.pte", {1, 2}) == Error::Ok && forward("span.pte", {1, 2, 3, 4, 5}) == Error::Ok);
  assert(destroyed == 2);
  assert(forward("pointer.pte", {4, 5, 6}) == Error::Ok);
  assert(forward("neither.pte", {1}) == Error::NotImplemented);
  return 0;
}
