// aten::round.decimals of floats and doubles: round(x * power) / power, or round(x / power) * power for places before
// the point.

#include "kernels/optimized/vec/every_target-inl.h"

#include <cmath>

#include "kernels/optimized/pointwise/pointwise.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/optimized/vec/vectors-inl.h"
#include "ops/signatures/portable/op_unary.h"

#ifndef ET_KERNELS_OPTIMIZED_ROUND_DECIMALS_ONCE
#define ET_KERNELS_OPTIMIZED_ROUND_DECIMALS_ONCE
namespace et::kernels::optimized::pointwise {
/// The numbers of an operation.
struct Decimals {
  double power = 1;      // of ten
  bool divides = false;  // places before the point
};
}  // namespace et::kernels::optimized::pointwise
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::pointwise::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

template <class T>
HWY_INLINE void round_run(const PointwiseBlock& block) {
  const hn::ScalableTag<T> d;
  const auto numbers = *static_cast<const Decimals*>(block.parameters);
  const auto* const x = static_cast<const T*>(block.in[0]);
  auto* const y = static_cast<T*>(block.out);
  const auto power = hn::Set(d, static_cast<T>(numbers.power));
  const auto round = [=](auto move, auto back) HWY_ATTR {
    over_vectors<T>(block.columns, [&](auto whole, size_t i, size_t left) HWY_ATTR {
      store(d, whole, back(hn::Round(move(load(d, whole, x + i, left)))), y + i, left);
    });
  };
  const auto times = [power](auto v) HWY_ATTR { return hn::Mul(v, power); };
  const auto over = [power](auto v) HWY_ATTR { return hn::Div(v, power); };
  if (numbers.divides) {
    round(over, times);
  } else {
    round(times, over);
  }
}

void RoundFloats(const PointwiseBlock& block) { round_run<float>(block); }
void RoundDoubles(const PointwiseBlock& block) { round_run<double>(block); }

}  // namespace et::kernels::optimized::pointwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::pointwise {

HWY_EXPORT(RoundDoubles);
HWY_EXPORT(RoundFloats);

namespace {

// round(self, *, int decimals, out): floats, which those of 16 bits are computed in, or doubles.
Error choose(Arguments args, PointwiseOperation* operation) {
  const EValue& out = *args[2];
  const ScalarType dtype = args[0]->to_tensor().scalar_type();
  const bool is_double = dtype == ScalarType::Double;
  const auto decimals = static_cast<double>(args[1]->number_as_int());
  if ((!is_double && !is_up_to_float(dtype)) || out.to_tensor().scalar_type() != dtype ||
      !same_dim_order(*args[0], out)) {
    return Error::NotSupported;
  }
  operation->function = is_double ? HWY_DYNAMIC_POINTER(RoundDoubles) : HWY_DYNAMIC_POINTER(RoundFloats);
  operation->cost = kDivides;
  operation->converts = is_small_float(dtype);
  operation->set_parameters(Decimals{std::pow(10.0, std::fabs(decimals)), decimals < 0});
  operation->add_tensor(args, 0);
  return Error::Ok;
}

constexpr Kernel kKernels[] = {make_pointwise_kernel<&choose>(signature::round_decimals_out)};

}  // namespace

ET_KERNEL_TABLE(round_decimals, kKernels)

}  // namespace et::kernels::optimized::pointwise
#endif  // HWY_ONCE
