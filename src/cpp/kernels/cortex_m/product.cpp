#include "kernels/cortex_m/product.h"

namespace et::kernels::cortex_m {
namespace {

#if defined(ET_CORTEX_M_MVE)

/// Sums of four columns with one row. (vmladava takes even registers only, "Te".)
inline int32x4_t dot_4x1(const int8_t* x0, ptrdiff_t step, const int8_t* row, int32_t n, int32_t start) {
  int32_t s0 = start, s1 = start, s2 = start, s3 = start;
  const int8_t *x1 = x0 + step, *x2 = x1 + step, *x3 = x2 + step;
  __asm volatile(
      "wlstp.8 lr, %[n], 1f\n"
      "2:\n"
      "vldrb.8 q0, [%[w]], #16\n"
      "vldrb.8 q1, [%[x0]], #16\n"
      "vmladava.s8 %[s0], q0, q1\n"
      "vldrb.8 q2, [%[x1]], #16\n"
      "vmladava.s8 %[s1], q0, q2\n"
      "vldrb.8 q3, [%[x2]], #16\n"
      "vmladava.s8 %[s2], q0, q3\n"
      "vldrb.8 q1, [%[x3]], #16\n"
      "vmladava.s8 %[s3], q0, q1\n"
      "letp lr, 2b\n"
      "1:\n"
      : [s0] "+Te"(s0), [s1] "+Te"(s1), [s2] "+Te"(s2), [s3] "+Te"(s3), [x0] "+r"(x0), [x1] "+r"(x1), [x2] "+r"(x2),
        [x3] "+r"(x3), [w] "+r"(row)
      : [n] "r"(n)
      : "q0", "q1", "q2", "q3", "lr", "memory");
  const int32x4_t sums = {s0, s1, s2, s3};
  return sums;
}

/// Adds products of one column with two rows, less `zero_point` times the rows, to two sums.
inline void dot_1x2(const int8_t* x, const int8_t* w0, const int8_t* w1, int32_t n, int32_t zero_point, int32_t* sums) {
  int32_t s0 = sums[0], s1 = sums[1], t0 = 0, t1 = 0;
  __asm volatile(
      "wlstp.8 lr, %[n], 1f\n"
      "2:\n"
      "vldrb.8 q0, [%[x]], #16\n"
      "vldrb.8 q1, [%[w0]], #16\n"
      "vmladava.s8 %[s0], q0, q1\n"
      "vldrb.8 q2, [%[w1]], #16\n"
      "vaddva.s8 %[t0], q1\n"
      "vmladava.s8 %[s1], q0, q2\n"
      "vaddva.s8 %[t1], q2\n"
      "letp lr, 2b\n"
      "1:\n"
      : [s0] "+Te"(s0), [s1] "+Te"(s1), [t0] "+Te"(t0), [t1] "+Te"(t1), [w0] "+r"(w0), [w1] "+r"(w1), [x] "+r"(x)
      : [n] "r"(n)
      : "q0", "q1", "q2", "lr", "memory");
  sums[0] = multiply_add(s0, t0, -zero_point);
  sums[1] = multiply_add(s1, t1, -zero_point);
}

/// `zero_point`: 0 where the starts of the sums hold it.
void multiply_column(const Value* x, const int8_t* rows, int32_t depth, int32_t count, const Block& block,
                     int32_t zero_point, const Output& output, int8_t* out) {
  const VectorOutput to_output(output);
  for (int32_t c = 0; c < count; c += 4, rows += 4 * depth) {
    int32_t sums[4];
    vstrwq_s32(sums, vldrwq_s32(block.starts + c));
    const int32_t left = count - c;  // rows past the last are not read; others take their place
    const int8_t* const third = left > 2 ? rows + 2 * depth : rows;
    dot_1x2(x, rows, left > 1 ? rows + depth : rows, depth, zero_point, sums);
    dot_1x2(x, third, left > 3 ? third + depth : third, depth, zero_point, sums + 2);
    const int32x4_t results = to_output(vldrwq_s32(sums), vldrwq_f32(block.scales + c));
    vstrbq_p_s32(out + c, results, vctp32q(static_cast<uint32_t>(left)));
  }
}

void multiply_columns(const Value* x, ptrdiff_t step, const int8_t* rows, int32_t depth, int32_t count,
                      const Block& block, const Output& output, int8_t* out, ptrdiff_t out_step) {
  const VectorOutput to_output(output);
  const uint32x4_t places = vmulq_n_u32(vidupq_n_u32(0, 1), static_cast<uint32_t>(out_step));
  for (int32_t c = 0; c < count; ++c, rows += depth) {
    const int32x4_t sums = dot_4x1(x, step, rows, depth, block.starts[c]);
    vstrbq_scatter_offset_s32(out + c, places, to_output(sums, block.scales[c]));
  }
}

#else

void multiply_column(const Value* x, const int8_t* rows, int32_t depth, int32_t count, const Block& block,
                     Output output, int8_t* out) {
  int32_t sums[4];
  int32_t c = 0;
  for (; c + 4 <= count; c += 4, rows += 4 * depth) {
    std::memcpy(sums, block.starts + c, sizeof(sums));
    dot_1x4(x, rows, depth, sums);
    for (int32_t i = 0; i < 4; ++i) {
      out[c + i] = output.clamp(to_units(sums[i], block.scales[c + i]));
    }
  }
  for (; c < count; ++c, rows += depth) {
    out[c] = output.clamp(to_units(dot_1x1(x, rows, depth, block.starts[c]), block.scales[c]));
  }
}

void multiply_columns(const Value* x, const int8_t* rows, int32_t depth, int32_t count, const Block& block,
                      Output output, int8_t* out, ptrdiff_t out_step) {
  for (int32_t c = 0; c < count; c += 2, rows += 2 * depth) {
    const int32_t pair = c + 1 < count ? 1 : 0;  // an odd last row is computed twice
    int32_t sums[4] = {block.starts[c], block.starts[c], block.starts[c + pair], block.starts[c + pair]};
    dot_2x2(x, rows, rows + pair * depth, depth, sums);
    const auto write = [&](int8_t* to, const int32_t* two, float scale) {
      to[0] = output.clamp(to_units(two[0], scale));
      to[out_step] = output.clamp(to_units(two[1], scale));
    };
    write(out + c, sums, block.scales[c]);
    if (pair != 0) {
      write(out + c + 1, sums + 2, block.scales[c + 1]);
    }
  }
}

#endif

}  // namespace

Error Filter::read(const char* op, double scale_of_input, int64_t zero_point_of_input, const Tensor& weight,
                   const Tensor& weight_scales, const OptionalTensor& bias_of_rows, const Requantizer& requantizer) {
  ET_RETURN_IF_ERROR(quantized::check_weight_scales(op, weight_scales, weight.size(0)));
  ET_RETURN_IF_ERROR(quantized::check_bias(op, bias_of_rows, weight.size(0)));
  ET_TRY(const quantized::Affine input,
         quantized::Affine::make(op, "input", ScalarType::Char, scale_of_input, zero_point_of_input));
  input_scale = input.scale;
  zero_point = input.zero_point;
  weights = weight.const_data_ptr<int8_t>();
  depth = 1;
  for (int64_t d = 1; d < weight.dim(); ++d) {
    depth *= static_cast<int32_t>(weight.size(d));
  }
  bias = bias_of_rows.has_value() ? bias_of_rows->const_data_ptr<int32_t>() : nullptr;
  scales = weight_scales.const_data_ptr<float>();
  scale_step = weight_scales.numel() == 1 ? 0 : 1;
  output_scale = requantizer.scale();
  return Error::Ok;
}

Error Block::fill(const Filter& filter, int32_t first, int32_t count, bool with_zero_point) {
  const Filter f = filter;  // else each write of a start or a scale makes the compiler read it again
  const int8_t* row = f.weights + static_cast<ptrdiff_t>(first) * f.depth;
  const float* scale = f.scales + first * f.scale_step;
  for (int32_t i = 0; i < count; ++i, row += f.depth, scale += f.scale_step) {
    const int32_t start = f.bias == nullptr ? 0 : f.bias[first + i];
    starts[i] = with_zero_point ? multiply_add(start, sum_of(row, f.depth), -f.zero_point) : start;
    scales[i] = product_scale(f.input_scale, *scale, f.output_scale);
    ET_CHECK_OR_RETURN(is_finite(scales[i]), InvalidArgument,
                       "the scales of input, weight and output have no finite ratio in channel %d",
                       static_cast<int>(first + i));
  }
  return Error::Ok;
}

Error Product::start(KernelContext& context, int32_t num_blocks) {
  const size_t all = static_cast<size_t>(num_blocks) * sizeof(Block);
  ET_TRY(void* const blocks, context.allocate_temp(all, alignof(Block)));
  blocks_ = static_cast<Block*>(blocks);
  std::memset(blocks, 0, all);  // channels past the last are read, and forgotten
#if !defined(ET_CORTEX_M_MVE)
  const size_t nbytes = sizeof(Value) * static_cast<size_t>(kColumns * whole_groups(filter_.depth));
  ET_TRY(void* const values, context.allocate_temp(nbytes, sizeof(int32_t)));
  values_ = static_cast<Value*>(values);
#endif
  return Error::Ok;
}

void Product::multiply(const int8_t* in, ptrdiff_t in_step, int32_t columns, int8_t* out, ptrdiff_t out_step) const {
  while (columns > 0) {
    const int32_t n = columns >= kColumns ? kColumns : 1;
#if defined(ET_CORTEX_M_MVE)
    if (n == 1) {
      multiply_column(in, rows_, filter_.depth, count_, *block_, starts_hold_it_ ? 0 : filter_.zero_point, output_,
                      out);
    } else {
      multiply_columns(in, in_step, rows_, filter_.depth, count_, *block_, output_, out, out_step);
    }
#else
    for (int32_t i = 0; i < n; ++i) {
      widen(in + i * in_step, filter_.depth, filter_.zero_point, 4 * n, values_ + 4 * i);
    }
    if (n == 1) {
      multiply_column(values_, rows_, filter_.depth, count_, *block_, output_, out);
    } else {
      multiply_columns(values_, rows_, filter_.depth, count_, *block_, output_, out, out_step);
    }
#endif
    in += n * in_step;
    out += n * out_step;
    columns -= n;
  }
}

}  // namespace et::kernels::cortex_m
