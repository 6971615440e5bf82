// aten::convolution and et::convolution_clamp in one to three dimensions as products of packed matrices (gemm.h). Sums
// are float for floats of up to 32 bits and double for double. They are int32 for integers of up to 32 bits and int64
// for int64; integers wrap.
//
// Forward, for each image and group: out [channels, positions] = weight [channels, taps] · windows [taps, positions],
// where the windows are packed straight from the input. Transposed: weight' [channels and taps, input channels] ·
// input, whose columns are then added to the places they belong to.
//
// Source: K. Chellapilla, S. Puri, P. Simard, "High performance convolutional neural networks for document processing",
// 2006 (convolution as a matrix product).

#include <algorithm>

#include "base/checked_math.h"
#include "kernels/optimized/conv/convolution_windows.h"
#include "kernels/optimized/conv/direct_convolution.h"
#include "kernels/optimized/conv/integer_convolution.h"
#include "kernels/optimized/conv/planes.h"
#include "kernels/optimized/move/strided_copy.h"
#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/portable/arithmetic.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/fused_clamp.h"
#include "kernels/portable/shape.h"
#include "threads/parallel.h"

namespace et::kernels::optimized::conv {
namespace {

using Problem = ConvolutionProblem;

constexpr const char* kOp = "aten::convolution";
/// Output channels of a group, or input channels when transposed, of which a product of matrices is mostly packing.
constexpr int64_t kFew = 4;

/// The addresses that belong to one image and group.
struct Slice {
  const char* input;
  const char* weight;
  const char* bias;  // nullptr: none
  char* out;
  bool has_channels_inside = false;  // the input, of a transposed one
};

template <typename T>
T bias_of(const Problem& p, const Slice& slice, int64_t channel) {
  return slice.bias == nullptr ? T(0) : portable::load_one<T>(p.dtype, slice.bias, channel);
}

/// `sums`: [out channels, output positions] scratch, or nullptr for elements of type T, whose output takes the sums
/// itself.
template <typename T>
Error forward(KernelContext& context, const Problem& p, const Slice& slice, T* sums) {
  const int64_t depth = p.in_channels * p.taps();
  const int64_t positions = p.positions_out();
  T* const to = sums != nullptr ? sums : reinterpret_cast<T*>(slice.out);
  // Beside floats, which begin with it, the bias stands in the output already.
  const bool begins = std::is_same_v<T, float> && p.dtype == ScalarType::Float;
  for (int64_t c = 0; c < p.out_channels && !begins; ++c) {
    std::fill_n(to + c * positions, positions, bias_of<T>(p, slice, c));
  }
  const matmul::StridedMatrix weight{slice.weight, p.dtype, depth, 1};
  const Windows windows{&p, slice.input};
  const matmul::GemmOf<T> gemm{static_cast<size_t>(p.out_channels),
                               static_cast<size_t>(positions),
                               static_cast<size_t>(depth),
                               matmul::strips_for<T>(weight),
                               strips_for_windows<T>(windows),
                               to,
                               static_cast<size_t>(positions),
                               !begins,
                               begins ? reinterpret_cast<const T*>(slice.bias) : nullptr};
  ET_RETURN_IF_ERROR(matmul::multiply(context, gemm));
  if (sums != nullptr) {
    portable::store(p.dtype, sums, p.out_channels * positions, slice.out, 1);
  }
  return Error::Ok;
}

/// Adds one tap's products [input positions] to an output plane.
template <typename T>
void scatter_tap(const Problem& p, const T* products, const int64_t* tap, T* plane) {
  for (int64_t d = 0; d < p.in[0]; ++d) {
    const int64_t od = d * p.stride[0] + tap[0] * p.dilation[0] - p.padding[0];
    for (int64_t h = 0; h < p.in[1]; ++h, products += p.in[2]) {
      const int64_t oh = h * p.stride[1] + tap[1] * p.dilation[1] - p.padding[1];
      if (od < 0 || od >= p.out[0] || oh < 0 || oh >= p.out[1]) {
        continue;
      }
      T* const row = plane + (od * p.out[1] + oh) * p.out[2];
      const int64_t start = tap[2] * p.dilation[2] - p.padding[2];
      for (int64_t w = 0; w < p.in[2]; ++w) {
        const int64_t ow = start + w * p.stride[2];
        if (ow >= 0 && ow < p.out[2]) {
          row[ow] = portable::wrapping_add(row[ow], products[w]);
        }
      }
    }
  }
}

/// Output channels whose products fit the scratch of a transposed convolution, which is bounded. There are inputs, so
/// that memory bounds their sizes.
int64_t channels_at_once(const Problem& p) {
  constexpr int64_t kScratch = 4 << 20;  // elements
  const int64_t per_channel = std::max<int64_t>(1, p.taps() * p.positions_in());
  return std::min(p.out_channels, std::max<int64_t>(1, kScratch / per_channel));
}

/// `products`: [channels_at_once, taps, input positions] scratch; `sums` as in forward.
template <typename T>
Error transposed(KernelContext& context, const Problem& p, const Slice& slice, T* products, T* sums) {
  const int64_t plane_size = p.positions_out();
  // Sizes of an input without channels are bounded by nothing: no products of it.
  const bool has_input = p.in_channels > 0;
  const int64_t positions = has_input ? p.positions_in() : 0;
  const int64_t taps = has_input ? p.taps() : 0;
  const int64_t step = has_input ? channels_at_once(p) : p.out_channels;
  T* const to = sums != nullptr ? sums : reinterpret_cast<T*>(slice.out);
  const matmul::StridedMatrix input = slice.has_channels_inside
                                          ? matmul::StridedMatrix{slice.input, p.dtype, p.in_channels, 1}
                                          : matmul::StridedMatrix{slice.input, p.dtype, 1, positions};
  for (int64_t first = 0; first < p.out_channels; first += step) {
    const int64_t channels = std::min(step, p.out_channels - first);
    const auto offset = first * taps * static_cast<int64_t>(element_size(p.dtype));
    const matmul::StridedMatrix weight{slice.weight + offset, p.dtype, 1, p.out_channels * taps};
    const matmul::GemmOf<T> gemm{static_cast<size_t>(channels * taps), static_cast<size_t>(positions),
                                 static_cast<size_t>(p.in_channels),   matmul::strips_for<T>(weight),
                                 matmul::strips_for<T>(input),         products,
                                 static_cast<size_t>(positions),       false};
    ET_RETURN_IF_ERROR(has_input ? matmul::multiply(context, gemm) : Error::Ok);
    const size_t work = static_cast<size_t>(plane_size + taps * positions);
    threads::parallel_for(
        context, static_cast<size_t>(channels), threads::grain_for(work), [&](size_t begin, size_t end) {
          for (auto c = static_cast<int64_t>(begin); c < static_cast<int64_t>(end); ++c) {
            T* const plane = to + (first + c) * plane_size;
            std::fill_n(plane, plane_size, bias_of<T>(p, slice, first + c));
            const T* from = products + c * taps * positions;
            for (int64_t t = 0; t < taps; ++t, from += positions) {
              const int64_t tap[3] = {t / (p.kernel[1] * p.kernel[2]), t / p.kernel[2] % p.kernel[1], t % p.kernel[2]};
              scatter_tap(p, from, tap, plane);
            }
          }
        });
  }
  if (sums != nullptr && p.dtype != dtype_of<T>) {
    portable::store(p.dtype, sums, p.out_channels * plane_size, slice.out, 1);
  }
  return Error::Ok;
}

/// Planes of T to an image whose channels lie innermost.
template <typename T>
void store_inside(KernelContext& context, const Problem& p, const T* planes, char* out) {
  const int64_t positions = p.positions_out();
  const int64_t sizes[] = {positions, p.out_channels}, from[] = {1, positions}, to[] = {p.out_channels, 1};
  char* const data = reinterpret_cast<char*>(const_cast<T*>(planes));  // a Window is of either side
  const portable::Window inside{out, portable::Sizes({sizes, 2}), portable::Sizes({to, 2}), p.dtype};
  move::copy_elements(context, {data, inside.sizes, portable::Sizes({from, 2}), p.dtype}, inside);
}

bool has_planes(const Tensor& image) { return runtime::is_contiguous_dim_order(runtime::dim_order(image)); }

/// All images and groups, with sums of type T. Those of a transposed one may have channels innermost (prepare_planes).
template <typename T>
Error convolve(KernelContext& context, const Problem& p, const Tensor& input, const Tensor& weight,
               const OptionalTensor& bias, bool is_transposed, const Tensor& out) {
  const int64_t out_elements = p.out_channels * p.positions_out();
  T* products = nullptr;
  T* sums = nullptr;
  if (is_transposed && p.in_channels > 0) {
    int64_t elements = 0;
    size_t nbytes = 0;
    const bool overflows = mul_overflow(p.taps(), p.positions_in(), &elements) ||
                           mul_overflow(elements, channels_at_once(p), &elements) ||
                           mul_overflow(static_cast<size_t>(elements), sizeof(T), &nbytes);
    ET_CHECK_OR_RETURN(!overflows, InvalidArgument, "%s: input %s and weight %s are too large", kOp,
                       ShapeText(input.sizes()).text, ShapeText(weight.sizes()).text);
    ET_TRY(void* const memory, context.allocate_temp(nbytes));
    products = static_cast<T*>(memory);
  }
  const bool in_inside = !has_planes(input), out_inside = !has_planes(out);
  if (p.dtype != dtype_of<T> || out_inside) {
    ET_TRY(void* const memory, context.allocate_temp(static_cast<size_t>(out_elements) * sizeof(T)));
    sums = static_cast<T*>(memory);
  }
  const auto size = static_cast<int64_t>(input.element_size());
  const int64_t in_elements = p.in_channels * p.positions_in();
  const int64_t weight_elements = p.in_channels * p.out_channels * p.taps();
  for (int64_t i = 0; i < p.batch * p.groups; ++i) {
    const int64_t group = i % p.groups;
    const Slice slice{static_cast<const char*>(input.const_data_ptr()) + i * in_elements * size,
                      static_cast<const char*>(weight.const_data_ptr()) + group * weight_elements * size,
                      bias ? static_cast<const char*>(bias->const_data_ptr()) + group * p.out_channels * size : nullptr,
                      static_cast<char*>(out.mutable_data_ptr()) + i * out_elements * size, in_inside};
    ET_RETURN_IF_ERROR(is_transposed ? transposed<T>(context, p, slice, products, sums)
                                     : forward<T>(context, p, slice, sums));
    if (out_inside) {
      store_inside(context, p, sums, slice.out);
    }
  }
  return Error::Ok;
}

Error convolution_out(KernelContext& context, const Tensor& input, const Tensor& weight, const OptionalTensor& bias,
                      IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool is_transposed,
                      IntArrayRef output_padding, int64_t groups, Tensor& out) {
  Problem p;
  ET_RETURN_IF_ERROR(plan_convolution(context, kOp, input, weight.sizes(), bias,
                                      {stride, padding, dilation, is_transposed, output_padding, groups}, out, &p));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  if (!is_transposed && suits_direct(p)) {
    return direct_convolution(context, p, input.const_data_ptr(), weight.const_data_ptr(),
                              bias ? bias->const_data_ptr() : nullptr, out.mutable_data_ptr());
  }
  if (!is_transposed && p.out_channels < kFew && is_integral(p.dtype, false)) {
    return convolve_integers(context, p, input.const_data_ptr(), weight.const_data_ptr(),
                             bias ? bias->const_data_ptr() : nullptr, out.mutable_data_ptr());
  }
  return matmul::dispatch_sums(p.dtype, [&](auto zero) {
    return convolve<decltype(zero)>(context, p, input, weight, bias, is_transposed, out);
  });
}

/// The results are still in the cache, or bound by memory as reading them again is.
Error convolution_clamp_out(KernelContext& context, const Tensor& input, const Tensor& weight,
                            const OptionalTensor& bias, IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation,
                            bool is_transposed, IntArrayRef output_padding, int64_t groups, std::optional<Scalar> min,
                            std::optional<Scalar> max, Tensor& out) {
  ET_RETURN_IF_ERROR(convolution_out(context, input, weight, bias, stride, padding, dilation, is_transposed,
                                     output_padding, groups, out));
  return portable::clamp_in_place("et::convolution_clamp", min, max, out, [&](int64_t count, const auto& clamp) {
    threads::parallel_for(context, static_cast<size_t>(count), threads::grain_for(1), [&](size_t begin, size_t end) {
      clamp(static_cast<int64_t>(begin), static_cast<int64_t>(end));
    });
  });
}

/// (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups, [min, max,] out): one dtype,
/// row-major, and enough channels in a group that a product of matrices pays, or one that needs none. `in_any_order`:
/// the images, but not the filter, may have channels innermost.
bool has_form(Arguments args, bool in_any_order) {
  const Tensor input = args[0]->to_tensor();
  const Tensor weight = args[1]->to_tensor();
  const ScalarType dtype = input.scalar_type();
  const int64_t spatial = weight.dim() - 2;
  if (!is_number(dtype) || spatial < 1 || spatial > 3 || (input.dim() != spatial + 1 && input.dim() != spatial + 2)) {
    return false;
  }
  for (const size_t i : {size_t{0}, size_t{1}, size_t{2}, args.size() - 1}) {
    const bool is_image = i == 0 || i == args.size() - 1;
    if (!args[i]->is_none() &&
        (args[i]->to_tensor().scalar_type() != dtype ||
         !(is_row_major(*args[i]) || (in_any_order && is_image && is_channels_last(*args[i]))))) {
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
  const IntArrayRef stride = args[3]->to_int_list();
  const bool is_forward = !args[6]->to_bool();
  const bool direct = is_forward && is_up_to_float(dtype) &&
                      std::all_of(stride.begin(), stride.end(), [](int64_t step) { return step == 1; });
  const bool by_rows = is_forward && is_integral(dtype, false);
  return groups > 0 && (direct || by_rows || weight.size(0) / groups >= kFew);
}

bool fits_convolution(Arguments args) { return has_form(args, false); }

/// Float images whose channels lie outermost, a constant filter of one group: a library transposes them. Transposed
/// ones whose windows overlap, too, in either order.
Error prepare_planes(runtime::PrepareContext& context, Arguments args, void** state) {
  using namespace ops::arguments::et_convolution_clamp;
  const EValue& out = *args[args.size() - 1];
  const bool is_transposed = args[kTransposed]->number_as_bool();
  if (!has_constant_planes(context, args, is_transposed) || !has_form(args, is_transposed) ||
      args[kGroups]->number_as_int() != 1) {
    return Error::NotSupported;
  }
  ops::Work work = work_of(args);
  if (is_transposed && work.kind != ops::WorkKind::transposed_overlap) {
    return Error::NotSupported;  // transposed_convolution.cpp
  }
  work.kind = is_transposed ? work.kind : ops::WorkKind::convolution;
  std::swap(work.rows, work.columns);  // windows are the matrix, read and packed once
  // Both sides are packed: 22 to 23 ps a multiplication where others take 18. The cost of transposed ones is measured
  // so. Both were measured with many pixels, which share what each number of the filter takes.
  const double of_packing = is_transposed ? 1 : 1.25, ns_of_number = is_transposed ? 1 : 0.5;
  const double filter_ns = ns_of_number * static_cast<double>(args[kWeight]->to_tensor().numel());
  constexpr double kNsOfClamp = 0.1;  // of a result, in a second pass
  const double clamps = args.size() > kOut ? kNsOfClamp * static_cast<double>(out.to_tensor().numel()) : 0;
  return *state == nullptr
             ? Error::Ok
             : runtime::offer(state, filter_ns + clamps + of_packing * runtime::cost_here(work, ops::kKernelCosts));
}

template <auto Function>
constexpr Kernel planes_kernel(const char* name) {
  Kernel kernel = runtime::make_kernel<Function>(name, kPriorityPlanes);
  kernel.prepare = &prepare_planes;
  return kernel;
}

constexpr Kernel kKernels[] = {
    make_fitting_kernel<&convolution_out, &fits_convolution>("aten::convolution.out"),
    make_fitting_kernel<&convolution_clamp_out, &fits_convolution>("et::convolution_clamp.out"),
    planes_kernel<&convolution_out>("aten::convolution.out"),
    planes_kernel<&convolution_clamp_out>("et::convolution_clamp.out"),
};

}  // namespace

ET_KERNEL_TABLE(convolution, kKernels)

}  // namespace et::kernels::optimized::conv
