// et::weight_only_convolution.out: a filter of integers becomes floats once, at load, and one of this folder's
// convolutions of floats runs on it.
//
// Those that pack their filter (depthwise.cpp, pixel_convolution.cpp, transposed_convolution.cpp, winograd.cpp,
// window_convolution.cpp) do so from a copy that is made for it and freed at once, so that the filter is in memory as
// floats once. The packed one is shared by the methods of a Program. The product of matrices (convolution.cpp) reads
// its filter at every call: there the copy stays. Either way a call takes what it takes with floats, for 4 bytes a
// weight: integers would have to be made floats for every window, or as often as a strip of windows passes.

#include "numerics/integer_filter.h"

#include <cstdlib>
#include <new>

#include "kernels/optimized/conv/tables.h"
#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/priorities.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/portable/fused_clamp.h"
#include "ops/arguments.h"
#include "ops/signatures/portable/op_convolution.h"
#include "runtime/host/heap_shared_cache.h"
#include "runtime/kernel_offer.h"

namespace et::kernels::optimized::quantized {
namespace {

using runtime::PrepareContext;
using runtime::SharedCache;

constexpr const char* kOp = "et::weight_only_convolution";

// et::convolution_clamp has one `weight` for kWeight, kWeightScales and kWeightZeroPoints.
using namespace ops::arguments::et_weight_only_convolution;
constexpr size_t kFloatCount = kOut - 1;

constexpr char kMaker = 0;  // its address names our entries in the shared cache

/// The packed forms of one filter: a cache in the Program's.
Result<SharedCache*> packed_forms(SharedCache& shared, const IntegerFilter& f) {
  const uint64_t kind = (f.is_transposed ? 1 : 0) | (f.is_packed ? 2 : 0) | (f.has_one_scale ? 4 : 0);
  const uint64_t variant = reinterpret_cast<uintptr_t>(f.zero_points) * 8 + kind;
  ET_CHECK_OR_RETURN(f.rows < size_t{1} << 24 && f.columns < size_t{1} << 24 && f.taps < size_t{1} << 16, NotSupported,
                     "%s: a filter of %zu rows of %zu columns and %zu taps", kOp, f.rows, f.columns, f.taps);
  const uint64_t shape = (uint64_t{f.rows} << 40) | (uint64_t{f.columns} << 16) | f.taps;
  const auto create = [](void*) -> Result<void*> {
    SharedCache* const made = new (std::nothrow) runtime::HeapSharedCache();
    ET_CHECK_OR_RETURN(made != nullptr, MemoryAllocationFailed, "%s: no memory for %zu bytes of a cache", kOp,
                       sizeof(*made));
    return static_cast<void*>(made);
  };
  ET_TRY(void* const found, shared.get_or_create({&kMaker, f.data, f.scales, variant, shape}, create, nullptr,
                                                 [](void* object) { delete static_cast<SharedCache*>(object); }));
  return static_cast<SharedCache*>(found);
}

/// A filter as an argument of floats, in memory that the caller owns.
class DenseFilter {
 public:
  explicit DenseFilter(const IntegerFilter& f) : integers_(f) {
    impl_ = runtime::TensorImpl(ScalarType::Float, f.dim, integers_.sizes, strides_, dim_order_, nullptr, nbytes());
    impl_.set_read_only(true);
    value_ = EValue(Tensor(&impl_));
  }
  DenseFilter(const DenseFilter&) = delete;
  DenseFilter& operator=(const DenseFilter&) = delete;

  size_t nbytes() const { return integers_.rows * integers_.row_size() * sizeof(float); }
  EValue* value() { return &value_; }
  /// Where the floats are, or will be: nbytes() of memory.
  void place(float* data) { impl_.set_data(data, nbytes()); }
  /// Makes them.
  void fill(float* data) const { dequantize(integers_, data); }

 private:
  IntegerFilter integers_;
  int64_t strides_[5];
  uint8_t dim_order_[5] = {0, 1, 2, 3, 4};
  runtime::TensorImpl impl_;
  EValue value_;
};

/// The cache that a kernel sees while it prepares itself on a filter of ours. Entries are named by who made them and
/// how, since the addresses are those of a copy. The copy gets its floats when something is packed from it, and not
/// before: kernels read a filter while they make their entry and at no other time.
class CopyCache final : public SharedCache {
 public:
  /// `data`: memory of the filter, not filled.
  CopyCache(SharedCache* packed, DenseFilter* filter, float* data) : packed_(packed), filter_(filter), data_(data) {
    filter->place(data);
  }

  Result<void*> get_or_create(const Key& key, Create create, void* argument, Destroy destroy) override {
    Request request{this, create, argument};
    return packed_->get_or_create({key.maker, nullptr, nullptr, key.variant, key.shape}, &CopyCache::make, &request,
                                  destroy);
  }
  runtime::PackedMemory& memory() override { return packed_->memory(); }

 private:
  struct Request {
    CopyCache* cache;
    Create create;
    void* argument;
  };
  static Result<void*> make(void* opaque) {
    const auto& request = *static_cast<const Request*>(opaque);
    request.cache->filter_->fill(request.cache->data_);
    return request.create(request.argument);
  }

  SharedCache* packed_;
  DenseFilter* filter_;
  float* data_;
};

/// Answers for the arguments of a kernel that gets a filter of ours.
struct Constants {
  const PrepareContext* context;
  const EValue* filter;

  static bool query(const void* self, const EValue& value) {
    const auto* const constants = static_cast<const Constants*>(self);
    return &value == constants->filter || constants->context->is_constant(value);
  }
};

/// The arguments of et::convolution_clamp.
struct FloatArguments {
  EValue* items[kFloatCount];

  FloatArguments(Arguments args, EValue* weight) {
    items[0] = args[kInput];
    items[1] = weight;
    for (size_t i = kBias; i <= kOut; ++i) {
      items[i - 2] = args[i];
    }
  }
  operator Arguments() const { return {items, kFloatCount}; }  // NOLINT(google-explicit-constructor)
  /// Those of aten::convolution.
  Arguments without_bounds() {
    items[kFloatCount - 3] = items[kFloatCount - 1];
    return {items, kFloatCount - 2};
  }
};

Error read_filter(const PrepareContext& context, Arguments args, IntegerFilter* filter) {
  const EValue& zero_points = *args[kWeightZeroPoints];
  if (!is_float(*args[kInput]) || !is_float(*args[kOut]) || !context.is_constant(*args[kWeight]) ||
      !context.is_constant(*args[kWeightScales]) || !(zero_points.is_none() || context.is_constant(zero_points)) ||
      !context.is_constant(*args[kTransposed])) {
    return Error::NotSupported;
  }
  const Tensor input = args[kInput]->to_tensor();
  const Tensor weight = args[kWeight]->to_tensor();
  const Tensor out = args[kOut]->to_tensor();
  if (weight.dim() < 3 || weight.dim() > 5 || weight.dim() != input.dim() || weight.dim() != out.dim() ||
      weight.numel() == 0) {
    return Error::NotSupported;
  }
  const Tensor points = zero_points.is_none() ? weight : zero_points.to_tensor();
  return check_integer_filter(kOp, weight, args[kWeightScales]->to_tensor(), zero_points.is_none() ? nullptr : &points,
                              {input.size(1), out.size(1)}, args[kTransposed]->number_as_bool(), filter);
}

struct Packed {
  const Kernel* kernel;
  void* state;
};

Error prepare_packed(PrepareContext& context, Arguments args, void** state) {
  if (context.shared() == nullptr || !args[kInput]->is_tensor() || args[kInput]->to_tensor().dim() != 4 ||
      !is_channels_last(*args[kInput])) {
    return Error::NotSupported;  // what none of them takes, before anything is made
  }
  IntegerFilter filter;
  ET_RETURN_IF_ERROR(read_filter(context, args, &filter));
  ET_TRY(SharedCache* const packed, packed_forms(*context.shared(), filter));
  DenseFilter dense(filter);
  auto* const data = static_cast<float*>(std::malloc(dense.nbytes()));
  ET_CHECK_OR_RETURN(data != nullptr, MemoryAllocationFailed, "%s: no memory for %zu bytes of floats", kOp,
                     dense.nbytes());
  CopyCache cache(packed, &dense, data);
  const Constants constants{&context, dense.value()};
  PrepareContext inner = context;
  inner.set_shared(&cache);
  inner.set_constant_query(&Constants::query, &constants);
  const FloatArguments floats(args, dense.value());
  // The cheapest of them says its cost to the Method, or is prepared.
  const Kernel* cheapest = nullptr;
  runtime::KernelOffer least;
  for (const auto kernels :
       {conv::depthwise_kernels(), conv::transposed_convolution_kernels(), conv::winograd_kernels(),
        conv::pixel_convolution_kernels(), conv::window_convolution_kernels()}) {
    const Kernel* const clamped = kernels.end() - 1;  // convolution, then convolution_clamp
    runtime::KernelOffer offer;
    void* asked = &offer;
    static_cast<void>(clamped->prepare(inner, floats, &asked));
    if (offer.nanoseconds >= 0 && (cheapest == nullptr || offer.nanoseconds < least.nanoseconds)) {
      cheapest = clamped;
      least = offer;
    }
  }
  void* made = nullptr;
  Error error = cheapest == nullptr ? Error::NotSupported : runtime::offer(state, least.nanoseconds);
  error = error == Error::Ok ? cheapest->prepare(inner, floats, &made) : error;
  if (error == Error::Ok) {
    const Result<void*> memory = context.allocate(sizeof(Packed), alignof(Packed));
    error = memory.ok() ? Error::Ok : memory.error();
    *state = memory.ok() ? new (*memory) Packed{cheapest, made} : nullptr;
  }
  std::free(data);
  if (error == Error::Ok) {
    context.shared()->release(args[kWeight]->to_tensor().const_data_ptr());
  }
  return error;
}

Error run_packed(KernelContext& context, Arguments args, void* state) {
  const auto& packed = *static_cast<const Packed*>(state);
  return packed.kernel->run(context, FloatArguments(args, args[kWeight]), packed.state);  // its filter is in its state
}

Error prepare_product(PrepareContext& context, Arguments args, void** state) {
  IntegerFilter filter;
  ET_RETURN_IF_ERROR(read_filter(context, args, &filter));
  ET_TRY(void* const memory, context.allocate(sizeof(DenseFilter), alignof(DenseFilter)));
  auto* const dense = new (memory) DenseFilter(filter);
  void* none = nullptr;
  ET_RETURN_IF_ERROR(conv::convolution_kernels().begin()->prepare(
      context, FloatArguments(args, dense->value()).without_bounds(), &none));
  ET_TRY(void* const data, context.allocate(dense->nbytes(), 64));
  dense->fill(static_cast<float*>(data));
  dense->place(static_cast<float*>(data));
  *state = dense;
  runtime::release(context.shared(), args[kWeight]->to_tensor().const_data_ptr());
  return Error::Ok;
}

std::optional<Scalar> bound(const EValue& value) {
  return value.is_none() ? std::optional<Scalar>() : std::optional<Scalar>(Scalar(value.number_as_double()));
}

Error run_product(KernelContext& context, Arguments args, void* state) {
  FloatArguments floats(args, static_cast<DenseFilter*>(state)->value());
  ET_RETURN_IF_ERROR(conv::convolution_kernels().begin()->run(context, floats.without_bounds(), nullptr));
  const bool is_open = args[kMin]->is_none() && args[kMax]->is_none();
  return is_open ? Error::Ok
                 : portable::clamp_in_place(kOp, bound(*args[kMin]), bound(*args[kMax]), args[kOut]->to_tensor());
}

constexpr Kernel kKernels[] = {
    make_stateful_kernel<&prepare_packed, &run_packed>(signature::weight_only_convolution_out, kPriorityOffering),
    make_stateful_kernel<&prepare_product, &run_product>(signature::weight_only_convolution_out),
};

}  // namespace

ET_KERNEL_TABLE(weight_only_convolution, kKernels)

}  // namespace et::kernels::optimized::quantized
