// Bilinear resizing with anti-aliasing: a triangle filter as wide as the input pixels that fall on an output pixel.
// Source: the filter of Pillow's resize, which torch's interpolate(antialias=True) follows.
#include "kernels/portable/op_upsample_aa.h"

#include <cmath>

#include "kernels/portable/convert.h"
#include "kernels/portable/shape.h"

namespace et::kernels::portable {
namespace {

constexpr const char* kOp = "aten::_upsample_bilinear2d_aa";

// The filter along one dimension: output o reads inputs [first[o], first[o] + count[o]).
struct Filter {
  int64_t* first;   // [out]
  int64_t* count;   // [out]
  double* weights;  // [out, widest]
  int64_t widest;
};

Error make_filter(KernelContext& context, int64_t in, int64_t out, bool align_corners, std::optional<double> factor,
                  Filter* filter) {
  double scale = factor.has_value() && *factor > 0 ? 1.0 / *factor : static_cast<double>(in) / static_cast<double>(out);
  if (align_corners) {
    scale = out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0.0;
  }
  const double support = scale >= 1 ? scale : 1.0;
  const double inverse = scale >= 1 ? 1.0 / scale : 1.0;
  filter->widest = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  const auto rows = static_cast<size_t>(out);
  ET_TRY(void* first, context.allocate_temp(rows * sizeof(int64_t)));
  ET_TRY(void* count, context.allocate_temp(rows * sizeof(int64_t)));
  ET_TRY(void* weights, context.allocate_temp(rows * static_cast<size_t>(filter->widest) * sizeof(double)));
  filter->first = static_cast<int64_t*>(first);
  filter->count = static_cast<int64_t*>(count);
  filter->weights = static_cast<double*>(weights);
  for (int64_t o = 0; o < out; ++o) {
    const double center = scale * (static_cast<double>(o) + 0.5);
    int64_t low = static_cast<int64_t>(center - support + 0.5);
    low = low < 0 ? 0 : low;
    int64_t high = static_cast<int64_t>(center + support + 0.5);
    high = high < in ? high : in;
    double* row = filter->weights + o * filter->widest;
    double total = 0;
    for (int64_t i = low; i < high; ++i) {
      const double distance = std::fabs((static_cast<double>(i) - center + 0.5) * inverse);
      row[i - low] = distance < 1.0 ? 1.0 - distance : 0.0;
      total += row[i - low];
    }
    for (int64_t i = low; i < high && total != 0; ++i) {
      row[i - low] /= total;
    }
    filter->first[o] = low;
    filter->count[o] = high > low ? high - low : 0;
  }
  return Error::Ok;
}

}  // namespace

Error upsample_bilinear2d_aa_out(KernelContext& context, const Tensor& self, IntArrayRef output_size,
                                 bool align_corners, std::optional<double> scales_h, std::optional<double> scales_w,
                                 Tensor& out) {
  ET_RETURN_IF_ERROR(check_rank(kOp, "self", self, 4, 4));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out", out, self));
  ET_CHECK_OR_RETURN(is_floating(self.scalar_type()) || self.scalar_type() == ScalarType::Byte, InvalidType,
                     "%s: self is %s, must be floating or u8", kOp, to_string(self.scalar_type()));
  ET_CHECK_OR_RETURN(
      output_size.size() == 2 && output_size[0] > 0 && output_size[1] > 0 && self.size(2) > 0 && self.size(3) > 0,
      InvalidArgument, "%s: cannot resize %s to %s", kOp, ShapeText(self.sizes()).text, ShapeText(output_size).text);
  const int64_t height = self.size(2);
  const int64_t width = self.size(3);
  const int64_t out_height = output_size[0];
  const int64_t out_width = output_size[1];
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {self.size(0), self.size(1), out_height, out_width}));
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&self, &out}));
  Filter across;
  Filter down;
  ET_RETURN_IF_ERROR(make_filter(context, width, out_width, align_corners, scales_w, &across));
  ET_RETURN_IF_ERROR(make_filter(context, height, out_height, align_corners, scales_h, &down));
  ET_TRY(void* memory, context.allocate_temp(static_cast<size_t>(height * out_width) * sizeof(double)));
  double* rows = static_cast<double*>(memory);  // [height, out_width]: one plane after the first pass
  const ScalarType dtype = self.scalar_type();
  const bool is_integer = dtype == ScalarType::Byte;
  for (int64_t plane = 0; plane < self.size(0) * self.size(1); ++plane) {
    for (int64_t h = 0; h < height; ++h) {
      for (int64_t o = 0; o < out_width; ++o) {
        double sum = 0;
        for (int64_t i = 0; i < across.count[o]; ++i) {
          sum += across.weights[o * across.widest + i] *
                 load_one<double>(dtype, self.const_data_ptr(), (plane * height + h) * width + across.first[o] + i);
        }
        rows[h * out_width + o] = is_integer ? std::nearbyint(sum) : sum;
      }
    }
    for (int64_t o = 0; o < out_height; ++o) {
      for (int64_t w = 0; w < out_width; ++w) {
        double sum = 0;
        for (int64_t i = 0; i < down.count[o]; ++i) {
          sum += down.weights[o * down.widest + i] * rows[(down.first[o] + i) * out_width + w];
        }
        store_one(dtype, is_integer ? std::nearbyint(sum) : sum, out.mutable_data_ptr(),
                  (plane * out_height + o) * out_width + w);
      }
    }
  }
  return Error::Ok;
}

}  // namespace et::kernels::portable
