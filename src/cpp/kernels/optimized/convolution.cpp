// aten::convolution in one to three dimensions, of floats and the 16-bit floats, as products of packed matrices (gemm.h).
//
// Forward, for each image and group: out [channels, positions] = weight [channels, taps] · windows [taps, positions], where
// the windows are packed straight from the input. Transposed: weight' [channels and taps, input channels] · input, whose
// columns are then added to the places they belong to.
//
// Source: K. Chellapilla, S. Puri, P. Simard, "High performance convolutional neural networks for document processing",
// 2006 (convolution as a matrix product).

#include <algorithm>

#include "kernels/optimized/fitting.h"
#include "kernels/optimized/gemm.h"
#include "kernels/optimized/tables.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/shape.h"
#include "threads/parallel.h"

namespace et::kernels::optimized {
namespace {

using portable::list_item;
using portable::ShapeText;
using portable::Sizes;

constexpr const char* kOp = "aten::convolution";

/// Everything in three spatial dimensions; fewer have leading sizes of 1. Tensors are row-major.
struct Problem {
  int64_t batch = 1;
  int64_t groups = 1;
  int64_t in_channels = 0;   // of a group
  int64_t out_channels = 0;  // of a group
  int64_t in[3], out[3], kernel[3], stride[3], padding[3], dilation[3];
  ScalarType dtype;

  int64_t positions_in() const { return in[0] * in[1] * in[2]; }
  int64_t positions_out() const { return out[0] * out[1] * out[2]; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
};

/// The input of one image and group, of which windows are packed.
struct Windows {
  const Problem* problem;
  const void* image;
};

/// Fills line[0, count) with the inputs that tap `kw` of a row meets at positions ow, ow + 1, …
template <typename T>
void pack_row(const Problem& p, const T* row, int64_t kw, int64_t ow, int64_t count, float* line) {
  const int64_t step = p.stride[2];
  const int64_t start = ow * step + kw * p.dilation[2] - p.padding[2];
  int64_t first = start >= 0 ? 0 : (-start + step - 1) / step;
  int64_t last = start >= p.in[2] ? 0 : (p.in[2] - 1 - start) / step + 1;
  first = std::min(first, count);
  last = std::max(first, std::min(last, count));
  std::fill_n(line, first, 0.0f);
  const T* const from = row + start;
  if (step == 1) {
    for (int64_t i = first; i < last; ++i) {
      line[i] = static_cast<float>(from[i]);
    }
  } else {
    for (int64_t i = first; i < last; ++i) {
      line[i] = static_cast<float>(from[i * step]);
    }
  }
  std::fill_n(line + last, count - last, 0.0f);
}

template <typename T>
void pack_windows(const Windows& windows, size_t k, size_t depth, size_t first, size_t count, size_t width,
                  float* out) {
  const Problem& p = *windows.problem;
  const T* const image = static_cast<const T*>(windows.image);
  const auto end = static_cast<int64_t>(first + count);
  for (size_t s = 0; s < depth; ++s, out += width) {
    auto tap = static_cast<int64_t>(k + s);
    const int64_t kw = tap % p.kernel[2];
    tap /= p.kernel[2];
    const int64_t kh = tap % p.kernel[1];
    tap /= p.kernel[1];
    const int64_t kd = tap % p.kernel[0];
    const T* const plane = image + tap / p.kernel[0] * p.positions_in();
    float* line = out;
    for (auto at = static_cast<int64_t>(first); at < end;) {
      const int64_t ow = at % p.out[2];
      const int64_t oh = at / p.out[2] % p.out[1];
      const int64_t od = at / p.out[2] / p.out[1];
      const int64_t n = std::min(p.out[2] - ow, end - at);
      const int64_t id = od * p.stride[0] + kd * p.dilation[0] - p.padding[0];
      const int64_t ih = oh * p.stride[1] + kh * p.dilation[1] - p.padding[1];
      if (id >= 0 && id < p.in[0] && ih >= 0 && ih < p.in[1]) {
        pack_row(p, plane + (id * p.in[1] + ih) * p.in[2], kw, ow, n, line);
      } else {
        std::fill_n(line, n, 0.0f);
      }
      line += n;
      at += n;
    }
    std::fill_n(line, width - count, 0.0f);
  }
}

GemmStrips strips_of_windows(const Windows& windows) {
  static constexpr auto kPack = [](const void* state, size_t k, size_t depth, size_t first, size_t count, size_t width,
                                   float* out) {
    const auto& w = *static_cast<const Windows*>(state);
    switch (w.problem->dtype) {
      case ScalarType::Float: pack_windows<float>(w, k, depth, first, count, width, out); break;
      case ScalarType::BFloat16: pack_windows<BFloat16>(w, k, depth, first, count, width, out); break;
      default: pack_windows<Half>(w, k, depth, first, count, width, out); break;
    }
  };
  return {kPack, &windows};
}

/// The addresses that belong to one image and group.
struct Slice {
  const char* input;
  const char* weight;
  const char* bias;  // nullptr: none
  char* out;
};

float bias_of(const Problem& p, const Slice& slice, int64_t channel) {
  return slice.bias == nullptr ? 0.0f : portable::load_one<float>(p.dtype, slice.bias, channel);
}

/// `sums`: [out channels, output positions] scratch, or nullptr for float, whose output takes the sums itself.
Error forward(KernelContext& context, const Problem& p, const Slice& slice, float* sums) {
  const int64_t depth = p.in_channels * p.taps();
  const int64_t positions = p.positions_out();
  float* const to = sums != nullptr ? sums : reinterpret_cast<float*>(slice.out);
  for (int64_t c = 0; c < p.out_channels; ++c) {
    std::fill_n(to + c * positions, positions, bias_of(p, slice, c));
  }
  const StridedMatrix weight{slice.weight, p.dtype, depth, 1};
  const Windows windows{&p, slice.input};
  const Gemm gemm{static_cast<size_t>(p.out_channels), static_cast<size_t>(positions),
                  static_cast<size_t>(depth),          strips_of(weight),
                  strips_of_windows(windows),          to,
                  static_cast<size_t>(positions),      true};
  ET_RETURN_IF_ERROR(multiply(context, gemm));
  if (sums != nullptr) {
    portable::store(p.dtype, sums, p.out_channels * positions, slice.out, 1);
  }
  return Error::Ok;
}

/// Adds one tap's products [input positions] to an output plane.
void scatter_tap(const Problem& p, const float* products, const int64_t* tap, float* plane) {
  for (int64_t d = 0; d < p.in[0]; ++d) {
    const int64_t od = d * p.stride[0] + tap[0] * p.dilation[0] - p.padding[0];
    for (int64_t h = 0; h < p.in[1]; ++h, products += p.in[2]) {
      const int64_t oh = h * p.stride[1] + tap[1] * p.dilation[1] - p.padding[1];
      if (od < 0 || od >= p.out[0] || oh < 0 || oh >= p.out[1]) {
        continue;
      }
      float* const row = plane + (od * p.out[1] + oh) * p.out[2];
      const int64_t start = tap[2] * p.dilation[2] - p.padding[2];
      for (int64_t w = 0; w < p.in[2]; ++w) {
        const int64_t ow = start + w * p.stride[2];
        if (ow >= 0 && ow < p.out[2]) {
          row[ow] += products[w];
        }
      }
    }
  }
}

/// Output channels whose products fit the scratch of a transposed convolution, which is bounded.
int64_t channels_at_once(const Problem& p) {
  constexpr int64_t kScratch = 4 << 20;  // floats
  const int64_t per_channel = std::max<int64_t>(1, p.taps() * p.positions_in());
  return std::min(p.out_channels, std::max<int64_t>(1, kScratch / per_channel));
}

/// `products`: [channels_at_once, taps, input positions] scratch; `sums` as in forward.
Error transposed(KernelContext& context, const Problem& p, const Slice& slice, float* products, float* sums) {
  const int64_t positions = p.positions_in();
  const int64_t plane_size = p.positions_out();
  const int64_t step = channels_at_once(p);
  float* const to = sums != nullptr ? sums : reinterpret_cast<float*>(slice.out);
  const StridedMatrix input{slice.input, p.dtype, 1, positions};
  for (int64_t first = 0; first < p.out_channels; first += step) {
    const int64_t channels = std::min(step, p.out_channels - first);
    const auto offset = first * p.taps() * static_cast<int64_t>(element_size(p.dtype));
    const StridedMatrix weight{slice.weight + offset, p.dtype, 1, p.out_channels * p.taps()};
    const Gemm gemm{static_cast<size_t>(channels * p.taps()),
                    static_cast<size_t>(positions),
                    static_cast<size_t>(p.in_channels),
                    strips_of(weight),
                    strips_of(input),
                    products,
                    static_cast<size_t>(positions),
                    false};
    ET_RETURN_IF_ERROR(multiply(context, gemm));
    const size_t work = static_cast<size_t>(plane_size + p.taps() * positions);
    threads::parallel_for(
        context.pool(), static_cast<size_t>(channels), threads::grain_for(work), [&](size_t begin, size_t end) {
          for (auto c = static_cast<int64_t>(begin); c < static_cast<int64_t>(end); ++c) {
            float* const plane = to + (first + c) * plane_size;
            std::fill_n(plane, plane_size, bias_of(p, slice, first + c));
            const float* from = products + c * p.taps() * positions;
            for (int64_t t = 0; t < p.taps(); ++t, from += positions) {
              const int64_t tap[3] = {t / (p.kernel[1] * p.kernel[2]), t / p.kernel[2] % p.kernel[1], t % p.kernel[2]};
              scatter_tap(p, from, tap, plane);
            }
          }
        });
  }
  if (sums != nullptr) {
    portable::store(p.dtype, sums, p.out_channels * plane_size, slice.out, 1);
  }
  return Error::Ok;
}

/// Checks the arguments, fills the problem and resizes the output.
Error plan(KernelContext& context, const Tensor& input, const Tensor& weight, const OptionalTensor& bias,
           IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool is_transposed,
           IntArrayRef output_padding, int64_t groups, const Tensor& out, Problem* p) {
  const int64_t spatial = weight.dim() - 2;
  const int64_t lead = input.dim() - spatial;  // 1 without a batch
  p->dtype = input.scalar_type();
  p->batch = lead == 2 ? input.size(0) : 1;
  p->groups = groups;
  const int64_t in_channels = input.size(lead - 1);
  const int64_t out_channels = is_transposed ? weight.size(1) * groups : weight.size(0);
  const bool channels_fit = groups > 0 && in_channels % groups == 0 && out_channels % groups == 0 &&
                            (is_transposed ? weight.size(0) : weight.size(1) * groups) == in_channels &&
                            (!bias || bias->numel() == out_channels);
  ET_CHECK_OR_RETURN(channels_fit, InvalidArgument,
                     "%s: input %s, weight %s and bias do not go together with %" PRId64 " groups", kOp,
                     ShapeText(input.sizes()).text, ShapeText(weight.sizes()).text, groups);
  p->in_channels = in_channels / groups;
  p->out_channels = out_channels / groups;
  Sizes sizes(input.sizes());
  sizes[lead - 1] = out_channels;
  for (int64_t d = 0; d < 3; ++d) {
    const int64_t i = d - (3 - spatial);
    const auto item = static_cast<size_t>(i);
    const bool real = i >= 0;
    p->in[d] = real ? input.size(lead + i) : 1;
    p->kernel[d] = real ? weight.size(2 + i) : 1;
    p->stride[d] = real ? list_item(stride, item, 1) : 1;
    p->padding[d] = real ? list_item(padding, item, 0) : 0;
    p->dilation[d] = real ? list_item(dilation, item, 1) : 1;
    const int64_t extra = real ? list_item(output_padding, item, 0) : 0;
    ET_CHECK_OR_RETURN(p->stride[d] > 0 && p->dilation[d] > 0 && p->padding[d] >= 0 && extra >= 0, InvalidArgument,
                       "%s: stride %" PRId64 ", padding %" PRId64 ", dilation %" PRId64, kOp, p->stride[d],
                       p->padding[d], p->dilation[d]);
    const int64_t reach = p->dilation[d] * (p->kernel[d] - 1);
    p->out[d] = is_transposed ? (p->in[d] - 1) * p->stride[d] - 2 * p->padding[d] + reach + extra + 1
                              : (p->in[d] + 2 * p->padding[d] - reach - 1) / p->stride[d] + 1;
    const bool fits = is_transposed ? p->out[d] >= 0 : p->in[d] + 2 * p->padding[d] > reach;
    ET_CHECK_OR_RETURN(fits, InvalidArgument, "%s: kernel %s does not fit input %s", kOp,
                       ShapeText(weight.sizes()).text, ShapeText(input.sizes()).text);
    if (real) {
      sizes[lead + i] = p->out[d];
    }
  }
  return resize_tensor(context, out, sizes);
}

Error convolution_out(KernelContext& context, const Tensor& input, const Tensor& weight, const OptionalTensor& bias,
                      IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool is_transposed,
                      IntArrayRef output_padding, int64_t groups, Tensor& out) {
  Problem p;
  ET_RETURN_IF_ERROR(
      plan(context, input, weight, bias, stride, padding, dilation, is_transposed, output_padding, groups, out, &p));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  const int64_t out_elements = p.out_channels * p.positions_out();
  float* products = nullptr;
  float* sums = nullptr;
  if (is_transposed) {
    const int64_t elements = channels_at_once(p) * p.taps() * p.positions_in();
    ET_TRY(void* const memory, context.allocate_temp(static_cast<size_t>(elements) * sizeof(float)));
    products = static_cast<float*>(memory);
  }
  if (p.dtype != ScalarType::Float) {
    ET_TRY(void* const memory, context.allocate_temp(static_cast<size_t>(out_elements) * sizeof(float)));
    sums = static_cast<float*>(memory);
  }
  const auto size = static_cast<int64_t>(input.element_size());
  const int64_t in_elements = p.in_channels * p.positions_in();
  const int64_t weight_elements = p.in_channels * p.out_channels * p.taps();
  for (int64_t i = 0; i < p.batch * p.groups; ++i) {
    const int64_t group = i % p.groups;
    const Slice slice{static_cast<const char*>(input.const_data_ptr()) + i * in_elements * size,
                      static_cast<const char*>(weight.const_data_ptr()) + group * weight_elements * size,
                      bias ? static_cast<const char*>(bias->const_data_ptr()) + group * p.out_channels * size : nullptr,
                      static_cast<char*>(out.mutable_data_ptr()) + i * out_elements * size};
    ET_RETURN_IF_ERROR(is_transposed ? transposed(context, p, slice, products, sums)
                                     : forward(context, p, slice, sums));
  }
  return Error::Ok;
}

/// (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, out): one dtype, row-major, and
/// enough channels in a group that a product of matrices pays.
bool fits_convolution(Arguments args) {
  const Tensor input = args[0]->to_tensor();
  const Tensor weight = args[1]->to_tensor();
  const ScalarType dtype = input.scalar_type();
  const int64_t spatial = weight.dim() - 2;
  if (!is_gemm_dtype(dtype) || spatial < 1 || spatial > 3 ||
      (input.dim() != spatial + 1 && input.dim() != spatial + 2)) {
    return false;
  }
  for (const size_t i : {0, 1, 2, 9}) {
    if (!args[i]->is_none() && (args[i]->to_tensor().scalar_type() != dtype || !is_row_major(*args[i]))) {
      return false;
    }
  }
  for (const size_t i : {3, 4, 5, 7}) {
    const size_t count = args[i]->to_int_list().size();
    if (count > 1 && static_cast<int64_t>(count) != spatial) {
      return false;
    }
  }
  const int64_t groups = args[8]->number_as_int();
  constexpr int64_t kFew = 4;  // output channels, or input channels when transposed
  return groups > 0 && weight.size(0) / groups >= kFew;
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&convolution_out, &fits_convolution>("aten::convolution.out"),
};

}  // namespace

Span<const Kernel> convolution_kernels() { return kKernels; }

}  // namespace et::kernels::optimized
