/// Kernels: what an operator of a program runs, how it is described, and what it may use of the runtime.
///
/// For: kernel libraries (kernels/*, backends/*/kernels, users' plug-ins) and the Method that binds them at load.
/// Not for: delegates (runtime/backend.h).
///
/// A kernel is written as a plain function over unboxed arguments, in the order of its out-variant's schema:
///
///     Error relu_out(KernelContext& context, const Tensor& self, Tensor& out);
///     const Kernel kKernels[] = {make_kernel<&relu_out>("aten::relu.out", kPriorityPortable)};
///
/// `make_kernel` derives the boxed wrapper and the signature from the function's type. The Method checks the arguments
/// of each call against the signature once, at load; the wrapper then unpacks without checks.
///
/// A kernel with work to do at load (packing a constant weight, choosing a micro-kernel) is *stateful*. Its `prepare`
/// looks at the arguments and returns NotSupported when this kernel does not fit them, and the next best kernel is
/// tried. Otherwise `prepare` makes a state that `run` gets with every call and `destroy` frees.
#pragma once

#include <atomic>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/result.h"
#include "runtime/evalue.h"
#include "runtime/scalar.h"

namespace et::threads {
class ThreadPool;
}

namespace et::runtime {

class MemoryAllocator;
class SharedCache;

/// State of the random operators of one Method: a counter-based generator (kernels/portable/random.h).
struct RandomState {
  uint64_t seed = 0;
  uint64_t counter = 0;
};

/// What a running kernel may use. Lives for one call of Method::execute.
class KernelContext {
 public:
  KernelContext(MemoryAllocator* temp_allocator, MemoryAllocator* data_allocator, threads::ThreadPool* pool,
                RandomState* random, const std::atomic<bool>* cancelled)
      : temp_allocator_(temp_allocator),
        data_allocator_(data_allocator),
        pool_(pool),
        random_(random),
        cancelled_(cancelled) {}

  /// Memory until the end of this instruction. Errors: MemoryAllocationFailed.
  Result<void*> allocate_temp(size_t nbytes, size_t alignment = 64);
  /// Memory for a data-dependent output, until the method's next execution. Errors: MemoryAllocationFailed.
  Result<void*> allocate_data(size_t nbytes, size_t alignment = 64);
  /// The pool for parallel loops; nullptr = run on the calling thread (threads/parallel.h handles both).
  threads::ThreadPool* pool() const { return pool_; }
  RandomState& random() { return *random_; }
  /// Gives temporary memory back. Called by the Method after each instruction.
  void reset_temp() {
    if (temp_used_) {
      release_temp();
    }
  }
  /// True when the caller asked to stop: long kernels look now and then and return Cancelled.
  bool cancelled() const { return cancelled_ != nullptr && cancelled_->load(std::memory_order_relaxed); }

 private:
  void release_temp();

  MemoryAllocator* temp_allocator_;
  MemoryAllocator* data_allocator_;
  threads::ThreadPool* pool_;
  RandomState* random_;
  const std::atomic<bool>* cancelled_;
  bool temp_used_ = false;
};

/// What `prepare` may use. Lives during Method init.
class PrepareContext {
 public:
  PrepareContext(MemoryAllocator* method_allocator, SharedCache* shared, threads::ThreadPool* pool)
      : method_allocator_(method_allocator), shared_(shared), pool_(pool) {}

  /// Memory that lives as long as the Method; never freed one by one. Errors: MemoryAllocationFailed.
  Result<void*> allocate(size_t nbytes, size_t alignment = 16);
  /// True when the tensor's bytes are a constant of the program (readable now, the same for ever).
  bool is_constant(const EValue& value) const;
  /// What is kept once for all methods of a Program (packed weights); may be nullptr on small targets.
  SharedCache* shared() const { return shared_; }
  threads::ThreadPool* pool() const { return pool_; }
  /// For a kernel that prepares another one on a tensor of its own, with a copy of this context.
  void set_shared(SharedCache* shared) { shared_ = shared; }

  /// For a kernel that packs a large constant: these bytes of it were read, so that the pages of the file behind them
  /// need not stay in memory while the rest is packed. They may be read again. Threads: safe.
  void discard(const void* data, size_t nbytes) const {
    if (discard_ != nullptr) {
      discard_(method_, data, nbytes);
    }
  }

  /// Set by the Method: answers is_constant, and discards.
  using IsConstant = bool (*)(const void* method, const EValue& value);
  using Discard = void (*)(const void* method, const void* data, size_t nbytes);
  void set_constant_query(IsConstant query, const void* method, Discard discard = nullptr) {
    query_ = query;
    method_ = method;
    discard_ = discard;
  }

 private:
  MemoryAllocator* method_allocator_;
  SharedCache* shared_;
  threads::ThreadPool* pool_;
  IsConstant query_ = nullptr;
  const void* method_ = nullptr;
  Discard discard_ = nullptr;
};

/// Higher wins among the kernels that fit.
inline constexpr uint8_t kPriorityPortable = 0;
inline constexpr uint8_t kPriorityOptimized = 50;
inline constexpr uint8_t kPriorityLibrary = 100;  ///< kernels of a vendor's or third party's library
inline constexpr uint8_t kPriorityUser = 200;     ///< a user's plug-in

/// Runs a kernel. `args` are those of its signature; without one, those of the instruction (returned values once more).
using KernelRun = Error (*)(KernelContext& context, Span<EValue* const> args, void* state);
/// Makes the state of one instruction, or says NotSupported. Sizes of dynamic tensors are at their upper bounds.
using KernelPrepare = Error (*)(PrepareContext& context, Span<EValue* const> args, void** state);
/// Frees what prepare made outside the Method's allocator.
using KernelDestroy = void (*)(void* state);

/// One kernel of a library's table. Plain data; names and signatures are string literals.
struct Kernel {
  const char* name;       ///< "aten::add.out": operator, and overload after a dot when it has one.
  const char* signature;  ///< One letter an argument (see unboxing.h); nullptr = run checks its arguments.
  KernelRun run;
  KernelPrepare prepare = nullptr;
  KernelDestroy destroy = nullptr;
  uint8_t priority = kPriorityPortable;
  bool reads_past = false;  ///< reads whole vectors: up to kReadAhead bytes (tensor.h) behind the last of a tensor
};

/// The kernels of one library, and what tools say about them.
struct KernelTable {
  Span<const Kernel> kernels;
  const char* library = nullptr;  ///< "portable", "optimized", a backend or a plug-in; add() makes "" of nullptr
  /// [kernels.size()], each "" or what the kernel is specialised for ("self=f32/channels_last"); nullptr: none is.
  const char* const* variants = nullptr;

  bool has(const Kernel* kernel) const { return kernel >= kernels.begin() && kernel < kernels.end(); }
  const char* variant(const Kernel* kernel) const {
    return variants == nullptr ? "" : variants[kernel - kernels.begin()];
  }
};

/// The kernels a Method may use. Holds pointers to tables; the tables must outlive it.
class KernelRegistry {
 public:
#ifdef ET_MAX_KERNEL_TABLES
  static constexpr size_t kMaxTables = ET_MAX_KERNEL_TABLES;  // firmware: the registry lies on the stack
#else
  static constexpr size_t kMaxTables = 96;  // the vector kernels are some seventy, one a source file
#endif

  /// Adds a table. Errors: RegistrationExceedingMaxKernels when kMaxTables are in use.
  /// Threads: not during a load; the Python Runtime locks.
  Error add(const KernelTable& table);
  Error add(Span<const Kernel> kernels, const char* library = "") { return add(KernelTable{kernels, library}); }
  /// Writes up to `out.size()` kernels called `name`, best priority first (equal priority: last added first), and
  /// returns how many there are.
  size_t find(std::string_view name, Span<const Kernel*> out) const;
  /// True when at least one kernel has this name.
  bool has(std::string_view name) const;
  Span<const KernelTable> tables() const { return {tables_, count_}; }

 private:
  KernelTable tables_[kMaxTables] = {};  // all zero: an image holds no copy of it
  size_t count_ = 0;
};

/// Gives `out` the sizes that a kernel computed.
///
/// Errors: InvalidArgument, naming both sides, when a static out has other sizes; OutOfResources when a bound is
/// exceeded. Memory: an unbound tensor gets memory from the context's data allocator.
Error resize_tensor(KernelContext& context, const Tensor& out, IntArrayRef sizes);

}  // namespace et::runtime

#include "runtime/unboxing.h"
