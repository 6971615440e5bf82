// et::quantized_add, _sub, _mul and et::quantized_table: elementwise operators on integers, with broadcasting.
#include <cstring>

#include "kernels/portable/loop_nest.h"
#include "kernels/quantized/affine.h"
#include "kernels/quantized/fixed_point_sum.h"
#include "kernels/quantized/op_elementwise.h"

namespace et::kernels::quantized {
namespace {

/// An operand with the parameters of its integers, as a call gives them.
struct Operand {
  const Tensor& tensor;
  double scale;
  int64_t zero_point;
};

/// Parameters of the two operands, checked.
struct Parameters {
  Affine a, b;
};

Result<Parameters> check_operands(const char* op, const Operand& a, const Operand& b, const Tensor& out) {
  ET_RETURN_IF_ERROR(check_activation(op, "self", a.tensor));
  ET_RETURN_IF_ERROR(check_activation(op, "other", b.tensor, &a.tensor));
  ET_RETURN_IF_ERROR(check_activation(op, "out", out, &a.tensor));
  const ScalarType dtype = a.tensor.scalar_type();
  ET_TRY(const Affine of_a, Affine::make(op, "self", dtype, a.scale, a.zero_point));
  ET_TRY(const Affine of_b, Affine::make(op, "other", dtype, b.scale, b.zero_point));
  return Parameters{of_a, of_b};
}

/// out = fn(a, b) for each pair of integers that broadcasting brings together.
template <typename T, typename Fn>
Error pairwise(KernelContext& context, const char* op, const Tensor& self, const Tensor& other, const Tensor& out,
               const Fn& fn) {
  Sizes sizes;
  ET_RETURN_IF_ERROR(portable::broadcast_sizes(op, self.sizes(), other.sizes(), &sizes));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  portable::LoopNest nest(out.sizes());
  nest.add(out.mutable_data_ptr(), out.strides(), out.element_size());
  nest.add_broadcast(self);
  nest.add_broadcast(other);
  nest.simplify();
  portable::parallel_parts(context, nest, 4, [&](const portable::LoopNest& part) {
    const int64_t steps[] = {part.run_stride(0), part.run_stride(1), part.run_stride(2)};
    part.for_each_run([&](char* const* pointers, int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        const auto a = static_cast<int32_t>(*reinterpret_cast<const T*>(pointers[1] + i * steps[1]));
        const auto b = static_cast<int32_t>(*reinterpret_cast<const T*>(pointers[2] + i * steps[2]));
        *reinterpret_cast<T*>(pointers[0] + i * steps[0]) = static_cast<T>(fn(a, b));
      }
    });
  });
  return Error::Ok;
}

Error add_or_subtract(KernelContext& context, const char* op, const Operand& self, const Operand& other, bool subtract,
                      const OutputParameters& output, Tensor& out) {
  ET_TRY(const Parameters o, check_operands(op, self, other, out));
  ET_TRY(const Requantizer requantize, Requantizer::make(op, out, output));
  FixedPointSum sum;
  const bool is_fixed = self.tensor.element_size() == 1 &&
                        sum.make(o.a.scale, o.a.zero_point, o.b.scale, o.b.zero_point, requantize.scale(), subtract);
  WideSum wide;
  const bool is_wide = self.tensor.element_size() == 2 && wide.make(o.a.scale, o.b.scale, requantize.scale());
  const float a_scale = o.a.scale / requantize.scale();
  const float b_scale = (subtract ? -o.b.scale : o.b.scale) / requantize.scale();
  ET_CHECK_OR_RETURN(std::isfinite(a_scale) && std::isfinite(b_scale), InvalidArgument,
                     "%s: the scales have no finite ratio", op);
  return dispatch<Activations>(self.tensor.scalar_type(), op, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (is_fixed) {
      return pairwise<T>(context, op, self.tensor, other.tensor, out, [&](int32_t a, int32_t b) {
        const int32_t scaled = multiply_add(multiply_add(sum.bias, a, sum.a_factor), b, sum.b_factor);
        return requantize.clamp(int64_t{scaled >> sum.shift} + requantize.zero_point());
      });
    }
    if (is_wide) {
      return pairwise<T>(context, op, self.tensor, other.tensor, out, [&](int32_t a, int32_t b) {
        return requantize.clamp(wide(a - o.a.zero_point, b - o.b.zero_point, subtract) + requantize.zero_point());
      });
    }
    return pairwise<T>(context, op, self.tensor, other.tensor, out, [&](int32_t a, int32_t b) {
      return requantize(static_cast<float>(a - o.a.zero_point) * a_scale +
                        static_cast<float>(b - o.b.zero_point) * b_scale);
    });
  });
}

}  // namespace

Error quantized_add_out(KernelContext& context, const Tensor& self, double self_scale, int64_t self_zero_point,
                        const Tensor& other, double other_scale, int64_t other_zero_point, double output_scale,
                        int64_t output_zero_point, int64_t output_min, int64_t output_max, Tensor& out) {
  return add_or_subtract(context, "et::quantized_add", {self, self_scale, self_zero_point},
                         {other, other_scale, other_zero_point}, false,
                         {output_scale, output_zero_point, output_min, output_max}, out);
}

Error quantized_sub_out(KernelContext& context, const Tensor& self, double self_scale, int64_t self_zero_point,
                        const Tensor& other, double other_scale, int64_t other_zero_point, double output_scale,
                        int64_t output_zero_point, int64_t output_min, int64_t output_max, Tensor& out) {
  return add_or_subtract(context, "et::quantized_sub", {self, self_scale, self_zero_point},
                         {other, other_scale, other_zero_point}, true,
                         {output_scale, output_zero_point, output_min, output_max}, out);
}

Error quantized_mul_out(KernelContext& context, const Tensor& self, double self_scale, int64_t self_zero_point,
                        const Tensor& other, double other_scale, int64_t other_zero_point, double output_scale,
                        int64_t output_zero_point, int64_t output_min, int64_t output_max, Tensor& out) {
  constexpr const char* kOp = "et::quantized_mul";
  ET_TRY(const Parameters o,
         check_operands(kOp, {self, self_scale, self_zero_point}, {other, other_scale, other_zero_point}, out));
  ET_TRY(const Requantizer requantize,
         Requantizer::make(kOp, out, {output_scale, output_zero_point, output_min, output_max}));
  const float scale = o.a.scale * o.b.scale / requantize.scale();
  ET_CHECK_OR_RETURN(std::isfinite(scale), InvalidArgument, "%s: the scales have no finite ratio", kOp);
  return dispatch<Activations>(self.scalar_type(), kOp, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return pairwise<T>(context, kOp, self, other, out, [&](int32_t a, int32_t b) {
      return requantize(static_cast<Sum<T>>(a - o.a.zero_point) * static_cast<Sum<T>>(b - o.b.zero_point), scale);
    });
  });
}

Error quantized_table_out(KernelContext& context, const Tensor& self, const Tensor& table, Tensor& out) {
  constexpr const char* kOp = "et::quantized_table";
  ET_CHECK_OR_RETURN(self.element_size() == 1, InvalidType, "%s: self is %s, must have 8 bits", kOp,
                     to_string(self.scalar_type()));
  ET_CHECK_OR_RETURN(table.numel() == 256 && table.scalar_type() == out.scalar_type(), InvalidArgument,
                     "%s: table is %s %s, must be 256 elements of %s", kOp, to_string(table.scalar_type()),
                     ShapeText(table.sizes()).text, to_string(out.scalar_type()));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&table}));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  portable::LoopNest nest(out.sizes());
  nest.add(out.mutable_data_ptr(), out.strides(), out.element_size());
  nest.add(self.const_data_ptr(), self.strides(), 1);
  nest.simplify();
  const auto* const entries = static_cast<const char*>(table.const_data_ptr());
  // The entry of the smallest integer stands first.
  const unsigned offset = self.scalar_type() == ScalarType::Char ? 128 : 0;
  return portable::dispatch_by_size(out.element_size(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    portable::parallel_parts(context, nest, 2, [&](const portable::LoopNest& part) {
      const int64_t to_step = part.run_stride(0), from_step = part.run_stride(1);
      part.for_each_run([&](char* const* pointers, int64_t n) {
        for (int64_t i = 0; i < n; ++i) {
          const unsigned index = (*reinterpret_cast<const uint8_t*>(pointers[1] + i * from_step) + offset) & 255u;
          *reinterpret_cast<T*>(pointers[0] + i * to_step) = reinterpret_cast<const T*>(entries)[index];
        }
      });
    });
    return Error::Ok;
  });
}

}  // namespace et::kernels::quantized
