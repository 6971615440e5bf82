/// Registers the runtime half of the delegate.
#include <memory>
#include <new>

#include "backends/xnnpack/runtime/delegate.h"
#include "runtime/host/out_of_memory.h"
#include "runtime/memory_allocator.h"

namespace et::backends::xnnpack {
namespace {

class XnnpackBackend final : public runtime::BackendInterface {
 public:
  bool is_available() const override { return start_library() == Error::Ok; }

  Result<runtime::DelegateHandle*> init(runtime::BackendInitContext& context, runtime::FreeableBuffer* processed,
                                        Span<const runtime::CompileSpec>) const override try {
    ET_TRY(Delegate* const memory, context.allocator->allocate_list<Delegate>(1));
    std::unique_ptr<Delegate, Destroy> delegate(new (memory) Delegate());
    ET_RETURN_IF_ERROR(delegate->init(context, *processed));
    return static_cast<runtime::DelegateHandle*>(delegate.release());
  }
  ET_NO_MEMORY("the tables of a delegate with %zu bytes of payload", processed->size())

  Error execute(runtime::BackendExecutionContext& context, runtime::DelegateHandle* handle,
                Span<EValue* const> args) const override try {
    return static_cast<Delegate*>(handle)->execute(context, args);
  }
  ET_NO_MEMORY("the tables of a call with %zu arguments", args.size())

  void destroy(runtime::DelegateHandle* handle) const override { Destroy()(static_cast<Delegate*>(handle)); }

 private:
  /// The memory is the method's.
  struct Destroy {
    void operator()(Delegate* delegate) const { delegate->~Delegate(); }
  };
};

}  // namespace

Error register_runtime(runtime::BackendRegistry& registry) {
  static const XnnpackBackend backend;
  return registry.add("XnnpackBackend", &backend);
}

}  // namespace et::backends::xnnpack
