/// Registers the runtime half of the example backend.
#include <new>

#include "backends/example/runtime/delegate.h"
#include "backends/example/runtime/payload_check.h"
#include "runtime/memory_allocator.h"

namespace et::backends::example {
namespace {

class ExampleBackend final : public runtime::BackendInterface {
 public:
  bool is_available() const override { return true; }

  Result<runtime::DelegateHandle*> init(runtime::BackendInitContext& context, runtime::FreeableBuffer* processed,
                                        Span<const runtime::CompileSpec>) const override {
    ET_TRY(const payload::Graph* graph, checked_graph(*processed));
    ET_TRY(Delegate * memory, context.allocator->allocate_list<Delegate>(1));
    auto* delegate = new (memory) Delegate(*graph);
    if (!context.args.empty()) {
      ET_RETURN_IF_ERROR(delegate->check_arguments(context.args));
    }
    return static_cast<runtime::DelegateHandle*>(delegate);
  }

  Error execute(runtime::BackendExecutionContext& context, runtime::DelegateHandle* handle,
                Span<runtime::EValue* const> args) const override {
    const auto* delegate = static_cast<const Delegate*>(handle);
    // Another call of the same delegate may bring other values; the check costs less than a look at the tensors.
    ET_RETURN_IF_ERROR(delegate->check_arguments(args));
    return delegate->execute(context.kernel, args);
  }
};

}  // namespace

Error register_runtime(runtime::BackendRegistry& registry) {
  static const ExampleBackend backend;
  return registry.add("ExampleBackend", &backend);
}

}  // namespace et::backends::example
