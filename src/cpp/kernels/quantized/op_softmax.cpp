// et::quantized_softmax: softmax of integers, all in integers (numerics/integer_softmax.h). What exp takes are
// differences to the largest integer, so tables of 256 powers replace it: one for 8 bits, one for each byte of 16.
#include "kernels/quantized/op_softmax.h"

#include "kernels/portable/loop_nest.h"
#include "kernels/portable/strided_copy.h"
#include "kernels/quantized/affine.h"
#include "numerics/integer_softmax.h"

namespace et::kernels::quantized {
namespace {

/// Powers of differences of 8-bit integers.
class Narrow {
 public:
  Narrow(float scale, int64_t) {
    const SoftmaxPowers power_of(scale);
    for (int32_t i = 0; i < 256; ++i) {
      powers_[i] = power_of(i);
    }
  }
  static constexpr int bits() { return SoftmaxShares::kPowerBits; }
  int32_t operator()(int32_t steps) const { return powers_[steps]; }

 private:
  int32_t powers_[256];
};

/// Those of 16-bit integers.
class Wide {
 public:
  Wide(float scale, int64_t length) : bits_(WideSoftmaxPowers::bits_of(length)) {
    const WideSoftmaxPowers powers(scale, length);
    for (int32_t i = 0; i < 256; ++i) {
      high_[i] = powers.high(i);
      low_[i] = powers.low(i);
    }
  }
  int bits() const { return bits_; }
  int32_t operator()(int32_t steps) const {
    const int64_t product = int64_t{high_[steps >> 8]} * low_[steps & 255];
    return static_cast<int32_t>(rounding_shift(product, 2 * WideSoftmaxPowers::kByteBits - bits_));
  }

 private:
  int bits_;
  int32_t high_[256], low_[256];
};

}  // namespace

Error quantized_softmax_out(KernelContext& context, const Tensor& self, double self_scale, int64_t dim,
                            double output_scale, int64_t output_zero_point, int64_t output_min, int64_t output_max,
                            Tensor& out) {
  constexpr const char* kOp = "et::quantized_softmax";
  ET_RETURN_IF_ERROR(check_activation(kOp, "self", self));
  ET_RETURN_IF_ERROR(check_activation(kOp, "out", out, &self));
  ET_RETURN_IF_ERROR(check_rank(kOp, "self", self, 1, static_cast<int64_t>(portable::kMaxRank)));
  ET_RETURN_IF_ERROR(normalize_dim(kOp, dim, self.dim(), &dim));
  float scale = 0;
  ET_RETURN_IF_ERROR(check_scale(kOp, "self", self_scale, &scale));
  ET_TRY(const Requantizer requantize,
         Requantizer::make(kOp, out, {output_scale, output_zero_point, output_min, output_max}));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  if (self.numel() == 0) {
    return Error::Ok;
  }
  const FixedFactor to_output = SoftmaxShares::to_output(static_cast<double>(requantize.scale()));
  const int64_t length = self.size(dim), in_stride = self.stride(dim), out_stride = out.stride(dim);
  const portable::Window from = portable::select_of(self, dim, 0), to = portable::select_of(out, dim, 0);
  portable::LoopNest lanes(from.sizes);
  const auto size = static_cast<size_t>(self.element_size());
  lanes.add(to.data, to.strides, size);
  lanes.add(from.data, from.strides, size);
  lanes.simplify();
  return dispatch<DTypes<ScalarType::Char, ScalarType::Byte, ScalarType::Short>>(
      self.scalar_type(), kOp, [&](auto tag) {
        using T = typename decltype(tag)::type;
        const std::conditional_t<sizeof(T) == 1, Narrow, Wide> power_of(scale, length);
        lanes.for_each_run([&](char* const* pointers, int64_t n) {
          for (int64_t lane = 0; lane < n; ++lane) {
            const auto* values = reinterpret_cast<const T*>(pointers[1] + lane * lanes.run_stride(1));
            auto* results = reinterpret_cast<T*>(pointers[0] + lane * lanes.run_stride(0));
            int32_t largest = values[0];
            for (int64_t i = 1; i < length; ++i) {
              largest = std::max<int32_t>(largest, values[i * in_stride]);
            }
            int64_t sum = 0;
            for (int64_t i = 0; i < length; ++i) {
              sum += power_of(largest - values[i * in_stride]);
            }
            const SoftmaxShares shares(sum, power_of.bits());
            for (int64_t i = 0; i < length; ++i) {
              const int64_t share = shares(power_of(largest - values[i * in_stride]));
              results[i * out_stride] = static_cast<T>(requantize.clamp(to_output(share) + requantize.zero_point()));
            }
          }
        });
        return Error::Ok;
      });
}

}  // namespace et::kernels::quantized
