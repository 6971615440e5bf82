/// Backends in their published form: a class with execute(context, handle, Span<EValue*>), registered by name.
///
/// For: backends that were written for the published library. Not for: new ones, which derive from
///      runtime::BackendInterface (runtime/backend.h) and are given more.
///
///     class MyBackend final : public executorch::runtime::BackendInterface { … };
///     MyBackend instance;
///     static const auto registered = executorch::runtime::register_backend({"MyBackend", &instance});
///
/// Place: an adapter of ours stands between the runtime and each of them. What they write into numbers reaches the
/// method; tensors are resized with resize_tensor(tensor, sizes), which knows the call that runs on this thread.
#pragma once

#include "extension/evalue.h"
#include "extension/process.h"
#include "runtime/backend.h"

namespace et::extension {

struct SizedBuffer {
  void* buffer;
  size_t nbytes;
};

/// A key and value that the partitioner gave. Valid during init.
struct CompileSpec {
  const char* key;
  SizedBuffer value;
};

/// What init may use.
class BackendInitContext {
 public:
  BackendInitContext(const runtime::BackendInitContext& context, const char* method_name)
      : context_(context), method_name_(method_name) {}

  /// Memory that lives as long as the method.
  runtime::MemoryAllocator* get_runtime_allocator() { return context_.allocator; }
  /// May be nullptr.
  runtime::EventTracer* event_tracer() { return context_.tracer; }
  const char* get_method_name() const { return method_name_; }
  const runtime::NamedDataMap* get_named_data_map() const { return context_.named_data; }

 private:
  const runtime::BackendInitContext& context_;
  const char* method_name_;
};

/// What execute may use.
class BackendExecutionContext {
 public:
  BackendExecutionContext(const runtime::BackendExecutionContext& context, const char* method_name)
      : context_(context), method_name_(method_name) {}

  /// Memory until the end of this call; nullptr when there is none left.
  void* allocate(size_t nbytes, size_t alignment = 16) {
    const Result<void*> memory = context_.kernel.allocate_temp(nbytes, alignment);
    return memory.ok() ? memory.get() : nullptr;
  }
  /// May be nullptr.
  runtime::EventTracer* event_tracer() { return context_.tracer; }
  const char* get_method_name() const { return method_name_; }

 private:
  const runtime::BackendExecutionContext& context_;
  const char* method_name_;
};

/// A backend. One object serves all methods; what belongs to one delegate is behind its handle. Derive and override one
/// of the two forms of execute. Every virtual function is inline or pure, as in runtime::BackendInterface.
class BackendInterface {
 public:
  virtual ~BackendInterface() = default;
  virtual bool is_available() const = 0;
  virtual Result<runtime::DelegateHandle*> init(BackendInitContext& context, runtime::FreeableBuffer* processed,
                                                Span<const CompileSpec> compile_specs) const = 0;
  /// args: the inputs, then the outputs.
  virtual Error execute(BackendExecutionContext& context, runtime::DelegateHandle* handle, Span<EValue*> args) const {
    return execute(context, handle, args.data());
  }
  /// The older form.
  virtual Error execute(BackendExecutionContext& context, runtime::DelegateHandle* handle, EValue** args) const {
    static_cast<void>(context), static_cast<void>(handle), static_cast<void>(args);
    return ET_ERROR_WITH_MESSAGE(NotImplemented, "the backend overrides neither form of execute");
  }
  virtual void destroy(runtime::DelegateHandle* handle) const { static_cast<void>(handle); }
};

/// A backend and its name; the object outlives the process's methods.
struct Backend {
  const char* name;
  const BackendInterface* backend;
};

/// Adds a backend. Errors: as register_backend(name, backend). Threads: safe.
Error register_backend(const Backend& backend);

}  // namespace et::extension
