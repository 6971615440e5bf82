/// Backends: what runs a part of a program that a partitioner gave away.
///
/// For: vendors. A backend is an object registered under the name that its partitioner wrote into the program.
/// Not for: single operators (kernel.h).
///
///     class MyBackend final : public BackendInterface {
///       bool is_available() const override { return true; }
///       Result<DelegateHandle*> init(BackendInitContext& context, FreeableBuffer* processed,
///                                    Span<const CompileSpec> specs) const override;
///       Error execute(BackendExecutionContext& context, DelegateHandle* handle, Span<EValue* const> args) const
///       override;
///     };
///     static MyBackend backend;
///     ET_RETURN_IF_ERROR(registry.add("MyBackend", &backend));
///
/// The payload is hostile bytes: `init` verifies it before `execute` trusts it.
#pragma once

#include <string_view>

#include "runtime/data_loader.h"
#include "runtime/event_tracer.h"
#include "runtime/kernel.h"
#include "runtime/named_data_map.h"

namespace et::runtime {

class EventTracer;
class SharedCache;

/// Whatever a backend made in init. Only the backend knows what it is.
using DelegateHandle = void;

/// A key and value that the partitioner gave. Points into the program.
struct CompileSpec {
  std::string_view key;
  Span<const uint8_t> value;
};

/// What init may use. Members may be nullptr where it says so.
struct BackendInitContext {
  MemoryAllocator* allocator = nullptr;      ///< memory that lives as long as the Method
  const NamedDataMap* named_data = nullptr;  ///< the program's and the `.ptd` files'; valid during init
  SharedCache* shared = nullptr;             ///< may be nullptr
  threads::ThreadPool* pool = nullptr;       ///< may be nullptr: one thread
  EventTracer* tracer = nullptr;             ///< may be nullptr
  std::string_view method_name;
  uint32_t delegate_index = 0;  ///< position in the plan's list of delegates
  /// The values of the delegate's first call in the method, inputs then outputs, at their upper bounds; empty when no
  /// instruction calls it. For checking dtypes, ranks and sizes once.
  Span<EValue* const> args;
  /// Set by a backend that fails: its number (BackendPayload::debug_handles) of what cannot be made. -1: not known.
  int32_t failed_step = -1;
  /// Names the method: calls of delegates with the same name follow one another. nullptr: not known.
  const void* method = nullptr;
};

/// What execute may use.
struct BackendExecutionContext {
  KernelContext& kernel;          ///< temporary memory, pool, cancel flag; what resize_tensor wants
  EventTracer* tracer = nullptr;  ///< may be nullptr
  std::string_view method_name;
  int32_t chain = 0;
  int32_t instruction = 0;
  int32_t failed_step = -1;  ///< set by a backend that fails, as in BackendInitContext
};

/// A backend. One object serves all methods, so what belongs to one delegate is behind its handle.
/// Every virtual function is inline or pure, so that classes with or without run-time type information can derive.
/// Threads: init, execute and destroy of different handles may run at the same time.
class BackendInterface {
 public:
  virtual ~BackendInterface() = default;

  /// False when the device or library it needs is not there; a method that uses it is then refused.
  virtual bool is_available() const = 0;

  /// Makes a delegate from its payload. `processed` stays valid until the method goes; releasing it earlier saves
  /// memory. Errors: DelegateInvalidCompatibility when the payload is of a version or device that it cannot run; others
  /// as fit.
  virtual Result<DelegateHandle*> init(BackendInitContext& context, FreeableBuffer* processed,
                                       Span<const CompileSpec> specs) const = 0;

  /// Runs it. args: the inputs, then the outputs, which are resized with resize_tensor(context.kernel, …). The runtime
  /// cannot tell outputs from inputs: the backend checks their kinds, and that what it writes is not read_only().
  virtual Error execute(BackendExecutionContext& context, DelegateHandle* handle, Span<EValue* const> args) const = 0;

  /// Frees what init made outside the context's allocator.
  virtual void destroy(DelegateHandle* handle) const { static_cast<void>(handle); }
};

/// The backends that methods may use, by name.
class BackendRegistry {
 public:
  static constexpr size_t kMaxBackends = 32;

  /// Adds a backend. `name` and `backend` must outlive the registry.
  /// Errors: RegistrationAlreadyRegistered, RegistrationExceedingMaxKernels.
  /// Threads: not during a load.
  Error add(const char* name, const BackendInterface* backend);
  /// The backend called `name`, or nullptr.
  const BackendInterface* find(std::string_view name) const;
  size_t size() const { return count_; }
  const char* name(size_t i) const { return entries_[i].name; }
  const BackendInterface* backend(size_t i) const { return entries_[i].backend; }

 private:
  struct Entry {
    const char* name;
    const BackendInterface* backend;
  };
  Entry entries_[kMaxBackends] = {};
  size_t count_ = 0;
};

}  // namespace et::runtime
