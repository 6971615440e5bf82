#include "extension/backend/interface.h"

#include <memory>
#include <string>
#include <vector>

#include "extension/kernel_util/registration.h"
#include "runtime/host/out_of_memory.h"

namespace et::extension {
namespace {

/// A published backend as the runtime sees it.
class Adapter final : public runtime::BackendInterface {
 public:
  explicit Adapter(const Backend& backend) : name_(backend.name), backend_(*backend.backend) {}

  const char* name() const { return name_.c_str(); }
  bool is_available() const override { return backend_.is_available(); }

  Result<runtime::DelegateHandle*> init(runtime::BackendInitContext& context, runtime::FreeableBuffer* processed,
                                        Span<const runtime::CompileSpec> specs) const override try {
    std::vector<std::string> keys;
    keys.reserve(specs.size());  // their characters stay where they are
    std::vector<CompileSpec> published;
    for (const runtime::CompileSpec& spec : specs) {
      keys.emplace_back(spec.key);
      published.push_back({keys.back().c_str(), {const_cast<uint8_t*>(spec.value.data()), spec.value.size()}});
    }
    auto delegate = std::make_unique<Delegate>(context.method_name);
    extension::BackendInitContext given(context, delegate->method_name.c_str());
    ET_TRY(delegate->handle, backend_.init(given, processed, {published.data(), published.size()}));
    return static_cast<runtime::DelegateHandle*>(delegate.release());
  }
  ET_NO_MEMORY("a delegate with %zu compile specs", specs.size())

  Error execute(runtime::BackendExecutionContext& context, runtime::DelegateHandle* handle,
                Span<runtime::EValue* const> args) const override try {
    const auto& delegate = *static_cast<const Delegate*>(handle);
    runtime::List<EValue> values(args.size());
    runtime::List<EValue*> pointers(args.size());
    for (size_t i = 0; i < args.size(); ++i) {
      values[i] = *args[i];
      pointers[i] = &values[i];
    }
    extension::BackendExecutionContext given(context, delegate.method_name.c_str());
    const KernelRuntimeContext resizing(context.kernel);  // what resize_tensor finds on this thread
    const Error error = backend_.execute(given, delegate.handle, Span<EValue*>(pointers));
    for (size_t i = 0; i < args.size(); ++i) {
      if (values[i].is_number()) {
        *args[i] = values[i];
      }
    }
    return error;
  }
  ET_NO_MEMORY("the values of a call with %zu arguments", args.size())

  void destroy(runtime::DelegateHandle* handle) const override {
    const std::unique_ptr<Delegate> delegate(static_cast<Delegate*>(handle));
    backend_.destroy(delegate->handle);
  }

 private:
  /// What lives as long as the published backend's handle.
  struct Delegate {
    explicit Delegate(std::string_view name) : method_name(name) {}

    std::string method_name;
    runtime::DelegateHandle* handle = nullptr;
  };

  std::string name_;
  const extension::BackendInterface& backend_;
};

}  // namespace

Error register_backend(const Backend& backend) try {
  ET_CHECK_OR_RETURN(backend.name != nullptr && backend.backend != nullptr, InvalidArgument,
                     "a backend needs a name and an object");
  auto adapter = std::make_unique<Adapter>(backend);
  ET_RETURN_IF_ERROR(register_backend(adapter->name(), adapter.get()));
  static_cast<void>(adapter.release());  // methods may outlive main()
  return Error::Ok;
}
ET_NO_MEMORY("backend '%s'", backend.name)

}  // namespace et::extension
