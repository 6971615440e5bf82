/// Registers the runtime half of the delegate.
#include <new>

#include "backends/xnnpack/runtime/delegate.h"
#include "runtime/memory_allocator.h"

namespace et::backends::xnnpack {
namespace {

class XnnpackBackend final : public runtime::BackendInterface {
 public:
  bool is_available() const override { return start_library() == Error::Ok; }

  Result<runtime::DelegateHandle*> init(runtime::BackendInitContext& context, runtime::FreeableBuffer* processed,
                                        Span<const runtime::CompileSpec>) const override {
    ET_TRY(Delegate* const memory, context.allocator->allocate_list<Delegate>(1));
    auto* const delegate = new (memory) Delegate();
    const Error error = delegate->init(context, *processed);
    if (error != Error::Ok) {
      delegate->~Delegate();
      return error;
    }
    return static_cast<runtime::DelegateHandle*>(delegate);
  }

  Error execute(runtime::BackendExecutionContext& context, runtime::DelegateHandle* handle,
                Span<EValue* const> args) const override {
    return static_cast<Delegate*>(handle)->execute(context, args);
  }

  void destroy(runtime::DelegateHandle* handle) const override { static_cast<Delegate*>(handle)->~Delegate(); }
};

}  // namespace

Error register_runtime(runtime::BackendRegistry& registry) {
  static const XnnpackBackend backend;
  return registry.add("XnnpackBackend", &backend);
}

}  // namespace et::backends::xnnpack
