/// Registers the runtime half of the backend: the interpreter of TOSA payloads.
#include <new>

#include "backends/tosa/runtime/graph.h"

namespace et::backends::tosa {
namespace {

class TosaBackend final : public runtime::BackendInterface {
 public:
  bool is_available() const override { return true; }

  Result<runtime::DelegateHandle*> init(runtime::BackendInitContext& context, runtime::FreeableBuffer* processed,
                                        Span<const runtime::CompileSpec>) const override {
    ET_TRY(Graph * memory, context.allocator->allocate_list<Graph>(1));
    auto* graph = new (memory) Graph();
    ET_RETURN_IF_ERROR(graph->load({processed->data(), processed->size()}, *context.allocator));
    if (!context.args.empty()) {
      ET_RETURN_IF_ERROR(graph->check_arguments(context.args));
    }
    return static_cast<runtime::DelegateHandle*>(graph);
  }

  Error execute(runtime::BackendExecutionContext& context, runtime::DelegateHandle* handle,
                Span<runtime::EValue* const> args) const override {
    const auto& graph = *static_cast<const Graph*>(handle);
    // Another call of the same delegate may bring other values.
    ET_RETURN_IF_ERROR(graph.check_arguments(args));
    return graph.run(context.kernel, args);
  }
};

}  // namespace

Error register_runtime(runtime::BackendRegistry& registry) {
  // Never destroyed: firmware has no end at which static objects could be.
  alignas(TosaBackend) static unsigned char place[sizeof(TosaBackend)];
  static const auto* const backend = new (place) TosaBackend;
  return registry.add("TOSABackend", backend);
}

}  // namespace et::backends::tosa
