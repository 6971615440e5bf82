/// Registers the runtime half of the backend.
#include <new>

#include "backends/ethos_u/runtime/delegate.h"
#include "runtime/memory_allocator.h"

namespace et::backends::ethos_u {
namespace {

class EthosUBackend final : public runtime::BackendInterface {
 public:
  bool is_available() const override { return is_there(); }

  Result<runtime::DelegateHandle*> init(runtime::BackendInitContext& context, runtime::FreeableBuffer* processed,
                                        Span<const runtime::CompileSpec>) const override {
    ET_TRY(const CommandPayload payload, parse({static_cast<const uint8_t*>(processed->data()), processed->size()}));
    if (!context.args.empty()) {
      ET_RETURN_IF_ERROR(check_arguments(payload, context.args));
    }
    ET_TRY(CommandPayload * memory, context.allocator->allocate_list<CommandPayload>(1));
    return static_cast<runtime::DelegateHandle*>(new (memory) CommandPayload(payload));
  }

  Error execute(runtime::BackendExecutionContext& context, runtime::DelegateHandle* handle,
                Span<runtime::EValue* const> args) const override {
    const auto& payload = *static_cast<const CommandPayload*>(handle);
    ET_RETURN_IF_ERROR(check_arguments(payload, args));
    return ethos_u::execute(payload, context.kernel, args);
  }
};

}  // namespace

Error register_runtime(runtime::BackendRegistry& registry) {
  // Never destroyed: firmware has no end at which static objects could be.
  alignas(EthosUBackend) static unsigned char place[sizeof(EthosUBackend)];
  static const auto* const backend = new (place) EthosUBackend;
  return registry.add("EthosUBackend", backend);
}

}  // namespace et::backends::ethos_u
