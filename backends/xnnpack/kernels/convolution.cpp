// aten::convolution.out and et::convolution_clamp.out with constant weights: 1-D and 2-D, grouped, depthwise, dilated and
// transposed, on xnn_convolution2d_nhwc_f32 and xnn_deconvolution2d_nhwc_f32. 1-D is 2-D with one row.

#include "backends/xnnpack/kernels/kernels.h"
#include "backends/xnnpack/kernels/layout.h"

namespace et::backends::xnnpack {
namespace {

// Arguments by position; the two operators differ in what follows kGroups.
enum { kInput, kWeight, kBias, kStride, kPadding, kDilation, kTransposed, kOutputPadding, kGroups, kMin, kMax };

struct Pair {
  uint32_t h;
  uint32_t w;
};

struct Geometry {
  Pair kernel, stride, padding, dilation, output_padding;
  bool transposed;
  uint32_t groups;
  size_t in_channels, out_channels;
};

struct ConvolutionState {
  Operator op;
  Geometry geometry;
};

/// Element for height and width of a list that has one entry for all, or one a spatial dimension.
bool read_pair(const EValue& value, int64_t spatial_dims, uint32_t for_missing_height, int64_t least, Pair* pair) {
  const IntArrayRef list = value.to_int_list();
  if (list.size() != 1 && list.size() != static_cast<size_t>(spatial_dims)) {
    return false;
  }
  for (const int64_t entry : list) {
    if (entry < least || entry > INT32_MAX) {
      return false;
    }
  }
  pair->w = static_cast<uint32_t>(list.back());
  pair->h = spatial_dims == 1 ? for_missing_height : static_cast<uint32_t>(list.front());
  return true;
}

/// The geometry of the arguments. Errors: NotSupported.
Result<Geometry> read_geometry(Span<EValue* const> args) {
  const Tensor input = args[kInput]->to_tensor();
  const Tensor weight = args[kWeight]->to_tensor();
  const int64_t spatial_dims = input.dim() - 2;
  if (spatial_dims < 1 || spatial_dims > 2 || weight.dim() != input.dim()) {
    return Error::NotSupported;
  }
  Geometry g{};
  if (!read_pair(*args[kStride], spatial_dims, 1, 1, &g.stride) ||
      !read_pair(*args[kPadding], spatial_dims, 0, 0, &g.padding) ||
      !read_pair(*args[kDilation], spatial_dims, 1, 1, &g.dilation)) {
    return Error::NotSupported;
  }
  g.transposed = args[kTransposed]->to_bool();
  if (g.transposed && !read_pair(*args[kOutputPadding], spatial_dims, 0, 0, &g.output_padding)) {
    return Error::NotSupported;
  }
  const int64_t groups = args[kGroups]->to_int();
  if (groups < 1 || groups > INT32_MAX || weight.numel() == 0 || weight.size(0) % groups != 0) {
    return Error::NotSupported;
  }
  g.groups = static_cast<uint32_t>(groups);
  g.kernel = {spatial_dims == 1 ? 1 : static_cast<uint32_t>(weight.size(2)), static_cast<uint32_t>(weight.size(-1))};
  const auto per_group = static_cast<size_t>(weight.size(1)) * g.groups;
  g.in_channels = g.transposed ? static_cast<size_t>(weight.size(0)) : per_group;
  g.out_channels = g.transposed ? per_group : static_cast<size_t>(weight.size(0));
  if (static_cast<size_t>(input.size(1)) != g.in_channels) {
    return Error::NotSupported;
  }
  return g;
}

/// The weight as the library wants it, [groups][out / groups][height][width][in / groups]: the constant itself or a copy.
class LibraryWeight {
 public:
  ~LibraryWeight() { delete[] copy_; }

  Error make(const Tensor& weight, const Geometry& g) {
    data_ = weight.const_data_ptr<float>();
    const size_t taps = static_cast<size_t>(g.kernel.h) * g.kernel.w;
    const bool taps_before_second = is_channels_innermost(weight);  // [d0, taps, d1] rather than [d0, d1, taps]
    if (!g.transposed) {
      return taps_before_second
                 ? Error::Ok
                 : permute(weight, {static_cast<size_t>(weight.size(0)), static_cast<size_t>(weight.size(1)), taps},
                           {0, 2, 1});
    }
    const size_t in = g.in_channels / g.groups;
    const size_t out = g.out_channels / g.groups;
    if (taps_before_second) {
      return permute(weight, {g.groups, in, taps, out}, {0, 3, 2, 1});
    }
    return permute(weight, {g.groups, in, out, taps}, {0, 2, 3, 1});
  }

  const float* data() const { return data_; }

 private:
  Error permute(const Tensor& weight, Span<const size_t> shape, Span<const size_t> permutation) {
    copy_ = new (std::nothrow) float[static_cast<size_t>(weight.numel()) + XNN_EXTRA_BYTES / sizeof(float)];
    ET_CHECK_OR_RETURN(copy_ != nullptr, MemoryAllocationFailed, "no memory to reorder a weight of %zu bytes",
                       weight.nbytes());
    ET_RETURN_IF_ERROR(
        check(xnn_run_transpose_nd_x32(data_, copy_, shape.size(), shape.data(), permutation.data(), 0, nullptr),
              "xnn_run_transpose_nd_x32"));
    data_ = copy_;
    return Error::Ok;
  }

  const float* data_ = nullptr;
  float* copy_ = nullptr;
};

xnn_status create(const Geometry& g, const float* weight, const float* bias, ClampRange range,
                  xnn_weights_cache_t cache, xnn_operator_t* op) {
  const size_t group_in = g.in_channels / g.groups;
  const size_t group_out = g.out_channels / g.groups;
  if (g.transposed) {
    return xnn_create_deconvolution2d_nhwc_f32(g.padding.h, g.padding.w, g.padding.h, g.padding.w, g.kernel.h,
                                               g.kernel.w, g.stride.h, g.stride.w, g.dilation.h, g.dilation.w, g.groups,
                                               group_in, group_out, g.in_channels, g.out_channels, weight, bias,
                                               range.min, range.max, 0, nullptr, cache, op);
  }
  return xnn_create_convolution2d_nhwc_f32(g.padding.h, g.padding.w, g.padding.h, g.padding.w, g.kernel.h, g.kernel.w,
                                           g.stride.h, g.stride.w, g.dilation.h, g.dilation.w, g.groups, group_in,
                                           group_out, g.in_channels, g.out_channels, weight, bias, range.min, range.max,
                                           0, nullptr, cache, op);
}

Error prepare(PrepareContext& context, Span<EValue* const> args, ClampRange range, void** state) {
  const EValue& bias = *args[kBias];
  const Tensor out = args[args.size() - 1]->to_tensor();
  if (!is_float_tensor(*args[kInput]) || !is_constant_float(context, *args[kWeight]) ||
      !(bias.is_none() || is_constant_float(context, bias)) || !has_image_layout(args[kInput]->to_tensor()) ||
      !has_image_layout(args[kWeight]->to_tensor()) || !has_image_layout(out) ||
      out.scalar_type() != ScalarType::Float) {
    return Error::NotSupported;
  }
  ET_TRY(const Geometry geometry, read_geometry(args));
  ET_RETURN_IF_ERROR(start_library());

  const Tensor weight = args[kWeight]->to_tensor();
  const float* const bias_data = bias.is_none() ? nullptr : bias.to_tensor().const_data_ptr<float>();
  ET_TRY(ConvolutionState* const made, make_state<ConvolutionState>(context));
  made->geometry = geometry;
  xnn_status status;
  {
    LibraryWeight library_weight;
    ET_RETURN_IF_ERROR(library_weight.make(weight, geometry));
    const uint64_t variant = (uint64_t{geometry.groups} << 32) | (geometry.transposed ? 2 : 1);
    PackedWeightsScope scope(context.shared(), weight.const_data_ptr(), bias_data, variant);
    status = create(geometry, library_weight.data(), bias_data, range, scope.cache(), made->op.receive());
  }
  if (status != xnn_status_success) {
    made->~ConvolutionState();
    return Error::NotSupported;
  }
  *state = made;
  return Error::Ok;
}

Error prepare_convolution(PrepareContext& context, Span<EValue* const> args, void** state) {
  return prepare(context, args, ClampRange(), state);
}

Error prepare_convolution_clamp(PrepareContext& context, Span<EValue* const> args, void** state) {
  ET_TRY(const ClampRange range, clamp_range(*args[kMin], *args[kMax]));
  return prepare(context, args, range, state);
}

int64_t output_extent(int64_t in, uint32_t kernel, uint32_t stride, uint32_t padding, uint32_t dilation,
                      uint32_t output_padding, bool transposed) {
  const int64_t reach = int64_t{dilation} * (kernel - 1) + 1;
  if (transposed) {
    return (in - 1) * stride - 2 * int64_t{padding} + reach + output_padding;
  }
  const int64_t room = in + 2 * int64_t{padding} - reach;
  return room < 0 ? 0 : room / stride + 1;
}

Error reshape(ConvolutionState* state, size_t batch, size_t height, size_t width, pthreadpool* pool) {
  const Geometry& g = state->geometry;
  if (g.transposed) {
    return check(xnn_reshape_deconvolution2d_nhwc_f32(state->op.get(), batch, height, width, g.output_padding.h,
                                                      g.output_padding.w, nullptr, nullptr, pool),
                 "xnn_reshape_deconvolution2d_nhwc_f32");
  }
  return check(xnn_reshape_convolution2d_nhwc_f32(state->op.get(), batch, height, width, &state->op.workspace_size,
                                                  &state->op.workspace_alignment, nullptr, nullptr, pool),
               "xnn_reshape_convolution2d_nhwc_f32");
}

Error run(KernelContext& context, Span<EValue* const> args, void* opaque) {
  auto* const state = static_cast<ConvolutionState*>(opaque);
  const Geometry& g = state->geometry;
  const Tensor input = args[kInput]->to_tensor();
  const Tensor out = args[args.size() - 1]->to_tensor();
  const bool rows = input.dim() == 4;
  const int64_t in_h = rows ? input.size(2) : 1;
  const int64_t in_w = input.size(-1);
  const int64_t out_h =
      output_extent(in_h, g.kernel.h, g.stride.h, g.padding.h, g.dilation.h, g.output_padding.h, g.transposed);
  const int64_t out_w =
      output_extent(in_w, g.kernel.w, g.stride.w, g.padding.w, g.dilation.w, g.output_padding.w, g.transposed);
  ET_CHECK_OR_RETURN(out_h > 0 && out_w > 0, InvalidArgument,
                     "convolution: an input of %" PRId64 " x %" PRId64 " is smaller than the kernel", in_h, in_w);
  int64_t sizes[4] = {input.size(0), static_cast<int64_t>(g.out_channels), out_h, out_w};
  if (!rows) {
    sizes[2] = out_w;
  }
  ET_RETURN_IF_ERROR(runtime::resize_tensor(context, out, {sizes, static_cast<size_t>(input.dim())}));
  if (out.numel() == 0) {
    return Error::Ok;
  }

  const auto taps = static_cast<int64_t>(g.kernel.h) * g.kernel.w;
  const auto depth = static_cast<int64_t>((g.transposed ? g.out_channels : g.in_channels) / g.groups);
  const threads::NativePool pool(
      pool_for(context, (g.transposed ? input : out).numel() * taps * depth, depth == 1 ? kDepthwisePs : kDensePs));
  if (state->op.needs_reshape(pool.get(), {input.size(0), in_h, in_w})) {
    const Error error = reshape(state, static_cast<size_t>(input.size(0)), static_cast<size_t>(in_h),
                                static_cast<size_t>(in_w), pool.get());
    if (error != Error::Ok) {
      state->op.forget_shape();
      return error;
    }
  }
  ET_TRY(const float* const x, channels_innermost(context, input, pool.get()));
  ET_TRY(const ImageOutput y, ImageOutput::make(context, out));
  if (g.transposed) {
    ET_RETURN_IF_ERROR(
        check(xnn_setup_deconvolution2d_nhwc_f32(state->op.get(), x, y.data()), "xnn_setup_deconvolution2d_nhwc_f32"));
  } else {
    ET_TRY(void* const workspace, state->op.workspace(context));
    ET_RETURN_IF_ERROR(check(xnn_setup_convolution2d_nhwc_f32(state->op.get(), workspace, x, y.data()),
                             "xnn_setup_convolution2d_nhwc_f32"));
  }
  ET_RETURN_IF_ERROR(check(xnn_run_operator(state->op.get(), pool.get()), "xnn_run_operator"));
  return y.finish(pool.get());
}

}  // namespace

const runtime::Kernel kConvolutionKernels[2] = {
    {"aten::convolution.out", "TTtlllblio", &run, &prepare_convolution, &destroy_state<ConvolutionState>,
     runtime::kPriorityLibrary},
    {"et::convolution_clamp.out", "TTtlllbliNNo", &run, &prepare_convolution_clamp, &destroy_state<ConvolutionState>,
     runtime::kPriorityLibrary},
};

}  // namespace et::backends::xnnpack
