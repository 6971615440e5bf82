/// What all kernels of this folder need of XNNPACK: starting it, its errors as ours, operators that free themselves,
/// and packed weights that the methods of a Program share.
///
/// For: the kernels beside it. Not for: the delegate, which works on the library's subgraphs.
///
/// A kernel here has a state with one XNNPACK operator. `prepare` creates it (packing the constant weight) and `run`
/// reshapes it when sizes changed, points it at the tensors and runs it on the pool of the call.
#pragma once

#include <xnnpack.h>

#include <array>
#include <limits>
#include <new>

#include "runtime/stateful_kernel.h"
#include "threads/native_pool.h"

namespace et::backends::xnnpack {

using runtime::EValue;
using runtime::IntArrayRef;
using runtime::KernelContext;
using runtime::PrepareContext;
using runtime::Scalar;
using runtime::SharedCache;
using runtime::Tensor;

/// What a step of an operator takes on one core, in picoseconds: of operators small enough to stay in its cache.
inline constexpr int64_t kDensePs = 20;           ///< a multiplication of a matrix product
inline constexpr int64_t kIntegerPs = 8;          ///< a multiplication of a matrix product of int8
inline constexpr int64_t kDepthwisePs = 40;       ///< a multiplication of a depthwise convolution
inline constexpr int64_t kWindowPs = 100;         ///< an element of a pooling window
inline constexpr int64_t kExponentialPs = 500;    ///< an element of a softmax
inline constexpr int64_t kInterpolationPs = 500;  ///< an element of a resized image

/// The pool for `steps` steps. The result is nullptr, for the calling thread alone, where a hand-over to the workers
/// takes as long as they would save. That is one or two microseconds while they wait actively, some fifty when they
/// sleep.
inline threads::ThreadPool* pool_for(const KernelContext& context, int64_t steps, int64_t picoseconds = kDensePs) {
  constexpr int64_t kWorthWaking = 5'000'000;
  return steps < kWorthWaking / picoseconds ? nullptr : context.pool();
}

/// Ok, or the error for `status`, logged with the name of the call; or with a step ("setup") and the operator's name.
Error check(xnn_status status, const char* call, const char* op = "");

/// Starts the library (once a process; later calls cost nothing). Errors: NotSupported when the processor lacks what it
/// needs, silently, so that another kernel is taken.
Error start_library();

/// Bytes that the system did not give the library the last time it had none for it on this thread.
size_t failed_nbytes();

/// An XNNPACK operator and what it was last reshaped for. Movable only by being remade; lives in a kernel's state.
class Operator {
 public:
  Operator() = default;
  ~Operator() {
    if (handle_ != nullptr) {
      xnn_delete_operator(handle_);
    }
  }
  Operator(const Operator&) = delete;
  Operator& operator=(const Operator&) = delete;

  xnn_operator_t get() const { return handle_; }
  /// Where a create function writes the handle.
  xnn_operator_t* receive() { return &handle_; }

  /// Has `call_library(get())` reshape the operator, unless it was reshaped for these sizes and this pool. Work split
  /// for several threads also runs on one, so a pool that is busy for a moment changes nothing. `op` is for errors.
  template <typename CallLibrary>
  Error reshape(pthreadpool* pool, IntArrayRef sizes, const char* op, const CallLibrary& call_library) {
    if (!needs_reshape(pool, sizes)) {
      return Error::Ok;
    }
    const Error error = check(call_library(handle_), "reshape", op);
    if (error != Error::Ok) {
      rank_ = -1;
    }
    return error;
  }
  /// Runs on what the last setup pointed it at. `Cancelled` soon after the call was.
  Error run(const KernelContext& context, pthreadpool* pool) const;

  /// Scratch memory of one run, from what the last reshape said.
  Result<void*> workspace(KernelContext& context) const;
  size_t workspace_size = 0;  // bytes
  size_t workspace_alignment = 1;

 private:
  /// True when something changed since the last call, which is remembered.
  bool needs_reshape(pthreadpool* pool, IntArrayRef sizes);

  xnn_operator_t handle_ = nullptr;
  size_t threads_ = 0;
  int rank_ = -1;  // -1 = not reshaped yet
  int64_t sizes_[8] = {};
};

/// What decides how the library packs a weight, zeros behind it, and the constants that it multiplies in. Compared
/// number by number, since a program may be made to have equal hashes.
struct WeightForm {
  std::array<uint64_t, 19> numbers{};
  std::array<const void*, 7> addresses{};
};
inline bool operator==(const WeightForm& a, const WeightForm& b) {
  return a.numbers == b.numbers && a.addresses == b.addresses;
}

/// Packed weights of one Program, found again by what they were made from. While an object lives, the operators that
/// are created with cache() take packed weights from it and add what it lacks.
///
///     PackedWeightsScope scope(context.shared(), weight_bytes, weight.sizes(), bias_bytes, kConvolution);
///     xnn_create_…(…, scope.cache(), op.receive());
///
/// The library names an entry by the addresses it is given, which for a weight that was transposed first is a temporary
/// address. The scope therefore names entries by the constants themselves and by the weight's sizes, because a program
/// may show the same bytes in several shapes. It also names them by `kind`, by how they were transposed and by whatever
/// else decides how the library packs them. `factors` are the names, or a hash, of what the library multiplies in,
/// which decides about results and not about sizes. What is packed from one file alone is kept with that file, for all
/// programs that have it mapped. Threads: one scope of a Program, and one of a file, at a time; others wait.
class PackedWeightsScope {
 public:
  PackedWeightsScope(SharedCache* shared, const void* weight, IntArrayRef sizes, const void* bias, uint64_t kind,
                     Span<const uint64_t> factors = {});
  /// The first number of a graph's forms is this or more, so that they are no kernel's.
  static constexpr uint64_t kGraph = uint64_t{1} << 63;
  /// Files that weights of one graph may be shared in with other programs.
  static constexpr size_t kMaxHomes = 8;
  /// Whose graph it is, which finds weights by the addresses that the library has for them.
  struct Owner {
    /// Says how the library packs `*weight` and `bias`, which it found in a graph; false = do not share. A weight that
    /// is at its address for a while only gets the one that names it.
    bool (*identify)(const void* context, const void** weight, const void* bias, WeightForm* form);
    /// The library looked for `weight` and will pack it now, since it is not there.
    void (*will_pack)(void* context, const void* weight);
    /// `weight`, one that was identified, has been packed; false = it must not be found again.
    bool (*packed)(void* context, const void* weight);
    void* context;
    size_t nbytes_not_in_file = 0;  ///< of weights that a file holds shorter than they are
    /// Which of `homes` keeps an identified weight (SharedCache::cache_of); nullptr: all are the Program's.
    SharedCache* (*home)(const void* context, const void* weight) = nullptr;
    Span<SharedCache* const> homes = {};  ///< other than the Program's: sorted, each once, at most kMaxHomes
  };
  /// For all operators of a graph at once: an entry is named by addresses, which must be those of constants, and by
  /// what the owner says of them.
  PackedWeightsScope(SharedCache* shared, const Owner& owner);
  ~PackedWeightsScope();
  PackedWeightsScope(const PackedWeightsScope&) = delete;
  PackedWeightsScope& operator=(const PackedWeightsScope&) = delete;

  /// nullptr without a shared cache: then the operator keeps its weights to itself.
  xnn_weights_cache_t cache() const;

  /// A further cache of a scope that has one, for another thread that packs at the same time: for operators that are
  /// deleted before it.
  class Branch {
   public:
    explicit Branch(const PackedWeightsScope& scope);
    ~Branch();
    Branch(const Branch&) = delete;
    Branch& operator=(const Branch&) = delete;
    xnn_weights_cache_t cache() const;  ///< nullptr without memory

   private:
    struct WeightsPacker* packer_;
  };

 private:
  void take(SharedCache* shared, Span<SharedCache* const> homes);

  struct PackedWeights* weights_ = nullptr;
  struct PackedWeights* locked_[1 + kMaxHomes];
  size_t num_locked_ = 0;
};

/// A range that a clamp leaves, as the library wants it; infinities where an end is open.
struct ClampRange {
  float min = -std::numeric_limits<float>::infinity();
  float max = std::numeric_limits<float>::infinity();
};
/// The range of a Scalar? min, Scalar? max pair. Errors: NotSupported when empty or not a number.
Result<ClampRange> clamp_range(const EValue& min, const EValue& max);

/// True when all that is no tensor among the arguments is a literal of the program, numbers and lists of them above
/// all. Others are computed when the method runs (sizes, numbers of the data), so that an operator object cannot be
/// made from what they are at load.
inline bool has_constant_numbers(const PrepareContext& context, Span<EValue* const> args) {
  for (const EValue* value : args) {
    if (!value->is_tensor() && !context.is_constant(*value)) {
      return false;
    }
  }
  return true;
}

/// True when the value is a float tensor.
inline bool is_float_tensor(const EValue& value) {
  return value.is_tensor() && value.to_tensor().scalar_type() == ScalarType::Float;
}
/// True when the tensor lies row-major.
inline bool is_row_major(const Tensor& tensor) { return runtime::is_contiguous_dim_order(runtime::dim_order(tensor)); }
/// True when the value is a constant float tensor.
inline bool is_constant_float(const PrepareContext& context, const EValue& value) {
  return is_float_tensor(value) && context.is_constant(value);
}

/// Makes a kernel's state in the Method's memory.
template <typename State>
Result<State*> make_state(PrepareContext& context) {
  ET_TRY(void* const memory, context.allocate(sizeof(State), alignof(State)));
  return new (memory) State();
}
/// The end of a `prepare`: keeps what make_state made, if the library made its operator. Errors: NotSupported,
/// silently.
template <typename State>
Error keep_state(State* made, xnn_status status, void** state) {
  if (status != xnn_status_success) {
    made->~State();
    return Error::NotSupported;
  }
  *state = made;
  return Error::Ok;
}
/// The `destroy` of a kernel with such a state.
template <typename State>
void destroy_state(void* state) {
  static_cast<State*>(state)->~State();
}

/// The table entry of a kernel of the library, which reads whole vectors.
template <runtime::KernelPrepare Prepare, runtime::KernelRun Run, runtime::KernelDestroy Destroy>
constexpr runtime::Kernel library_kernel(const ops::Signature& signature,
                                         uint8_t priority = runtime::kPriorityLibrary) {
  runtime::Kernel kernel = runtime::make_stateful_kernel<Prepare, Run, Destroy>(signature, priority);
  kernel.reads_past = true;
  return kernel;
}

}  // namespace et::backends::xnnpack
