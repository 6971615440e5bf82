// et::sparse_convolution.out: convolutions of floats whose constant weight is mostly zero, in one to three dimensions,
// of images in row-major order or with channels innermost.

#include <algorithm>
#include <new>

#include "kernels/optimized/conv/convolution_windows.h"
#include "kernels/optimized/sparse/arguments.h"

namespace et::kernels::optimized::sparse {
namespace {

constexpr const char* kOp = "et::sparse_convolution";

struct SparseConvolution {
  SparseMatrix matrix;
  SparseBounds bounds;
  int64_t weight_size[5];
  size_t rank;
};

bool has_image_order(const EValue& value) {
  const auto order = runtime::dim_order(value.to_tensor());
  return runtime::is_contiguous_dim_order(order) || runtime::is_channels_last_dim_order(order);
}

bool is_channels_last(const Tensor& tensor) { return runtime::is_channels_last_dim_order(runtime::dim_order(tensor)); }

// sparse_convolution(input, values, mask, bias, weight_size, stride, padding, dilation, groups, min, max, out)
Error prepare(runtime::PrepareContext& context, Arguments args, void** state) {
  ET_TRY(const SparseWeight weight, read_sparse_weight(kOp, context, args));
  ET_TRY(const SparseBounds bounds, read_bounds(context, *args[9], *args[10]));
  const Tensor input = args[kInput]->to_tensor();
  const Tensor out = args[args.size() - 1]->to_tensor();
  const IntArrayRef size = args[kWeightSize]->to_int_list();
  const auto spatial = static_cast<int64_t>(size.size()) - 2;
  if (spatial < 1 || spatial > 3 || (input.dim() != spatial + 1 && input.dim() != spatial + 2) ||
      out.dim() != input.dim() || !has_image_order(*args[kInput]) || !has_image_order(*args[args.size() - 1]) ||
      (input.dim() == spatial + 1 && (is_channels_last(input) || is_channels_last(out)))) {
    return Error::NotSupported;
  }
  for (const size_t i : {5, 6, 7}) {
    const size_t count = args[i]->to_int_list().size();
    if (!context.is_constant(*args[i]) || (count > 1 && static_cast<int64_t>(count) != spatial)) {
      return Error::NotSupported;
    }
  }
  if (!context.is_constant(*args[8])) {
    return Error::NotSupported;
  }
  const int64_t groups = args[8]->number_as_int();
  if (groups < 1 || size[0] % groups != 0) {
    return Error::NotSupported;
  }
  const int64_t channels = out.size(out.dim() - spatial - 1);
  const int64_t positions = channels == 0 ? 0 : out.numel() / channels;  // at most
  const bool has_windows = groups != 1 || static_cast<int64_t>(weight.columns) != size[1];
  const ops::Work dense = runtime::work_of({input, size, args[5], args[7], groups, false, out});
  ET_RETURN_IF_ERROR(
      runtime::offer_work(state, dense, ops::kKernelCosts, share_of_dense(weight, positions, has_windows)));
  ET_TRY(void* const memory, context.allocate(sizeof(SparseConvolution), alignof(SparseConvolution)));
  auto* const made = new (memory) SparseConvolution{{}, bounds, {}, size.size()};
  std::copy_n(size.data(), size.size(), made->weight_size);
  ET_RETURN_IF_ERROR(make_sparse_matrix(context, weight, false, &made->matrix));
  *state = made;
  return Error::Ok;
}

Error run(KernelContext& context, Arguments args, void* state) {
  const auto& convolution = *static_cast<const SparseConvolution*>(state);
  const Tensor input = args[kInput]->to_tensor();
  const Tensor out = args[args.size() - 1]->to_tensor();
  const OptionalTensor bias = args[kBias]->is_none() ? OptionalTensor() : args[kBias]->to_tensor();
  conv::ConvolutionProblem p;
  portable::ConvolutionNumbers numbers{args[5]->to_int_list(), args[6]->to_int_list(), args[7]->to_int_list()};
  numbers.groups = args[8]->number_as_int();
  ET_RETURN_IF_ERROR(
      conv::plan_convolution(context, kOp, input, {convolution.weight_size, convolution.rank}, bias, numbers, out, &p));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  const int64_t in_pixel = is_channels_last(input) ? p.in_channels * p.groups : 0;
  const int64_t out_pixel = is_channels_last(out) ? p.out_channels * p.groups : 0;
  const auto* const data = input.const_data_ptr<float>();
  auto* const to = out.mutable_data_ptr<float>();
  const auto* const shift = bias ? bias->const_data_ptr<float>() : nullptr;
  for (int64_t i = 0; i < p.batch * p.groups; ++i) {
    const int64_t image = i / p.groups;
    const int64_t group = i % p.groups;
    const int64_t in_channel = group * p.in_channels;
    const int64_t out_channel = group * p.out_channels;
    const float* const from = data + image * p.groups * p.in_channels * p.positions_in() +
                              in_channel * (in_pixel != 0 ? 1 : p.positions_in());
    const conv::Windows windows{&p, from, in_pixel};
    const matmul::StridedMatrix planes{from, ScalarType::Float, 1, p.positions_in()};
    const matmul::StridedMatrix pixels{from, ScalarType::Float, in_pixel, 1};
    const matmul::GemmStrips right = !p.is_pointwise() ? conv::strips_of_windows(windows)
                                     : in_pixel != 0   ? strips_of_rows(pixels)
                                                       : matmul::strips_of(planes);
    float* const target = to + image * p.groups * p.out_channels * p.positions_out() +
                          out_channel * (out_pixel != 0 ? 1 : p.positions_out());
    ET_RETURN_IF_ERROR(multiply_sparse(
        context, {&convolution.matrix, static_cast<size_t>(out_channel), static_cast<size_t>(p.out_channels),
                  static_cast<size_t>(p.positions_out()), right, shift == nullptr ? nullptr : shift + out_channel,
                  convolution.bounds.min, convolution.bounds.max, target,
                  out_pixel != 0 ? 1 : static_cast<size_t>(p.positions_out()),
                  out_pixel != 0 ? static_cast<size_t>(out_pixel) : 1}));
  }
  return Error::Ok;
}

}  // namespace

const SparseFunctions kSparseConvolution{&run, &prepare};

}  // namespace et::kernels::optimized::sparse
