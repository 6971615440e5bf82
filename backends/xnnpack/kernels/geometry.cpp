#include "backends/xnnpack/kernels/geometry.h"

#include <algorithm>

#include "backends/xnnpack/costs/costs.h"
#include "backends/xnnpack/kernels/layout.h"
#include "base/checked_math.h"
#include "runtime/host/kernel_costs.h"

namespace et::backends::xnnpack {
namespace {

int64_t extent_along(int64_t in, uint32_t kernel, uint32_t stride, uint32_t padding, uint32_t dilation,
                     uint32_t output_padding, bool transposed) {
  const int64_t reach = int64_t{dilation} * (kernel - 1) + 1;
  if (transposed) {
    return (in - 1) * stride - 2 * int64_t{padding} + reach + output_padding;
  }
  const int64_t room = in + 2 * int64_t{padding} - reach;
  return room < 0 ? 0 : room / stride + 1;
}

/// Elements for planes, height and width of a list that has one entry for all, or one a spatial dimension.
bool read_steps(const EValue& value, int64_t spatial_dims, uint32_t for_missing, int64_t least, uint32_t* depth,
                Pair* pair) {
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
  pair->h = spatial_dims == 1 ? for_missing : static_cast<uint32_t>(list[list.size() < 2 ? 0 : list.size() - 2]);
  *depth = spatial_dims == 3 ? static_cast<uint32_t>(list.front()) : for_missing;
  return true;
}

Extent extent_of_output(const Geometry& g, Extent image) {
  return {extent_along(image.h, g.kernel.h, g.stride.h, g.padding.h, g.dilation.h, g.output_padding.h, g.transposed),
          extent_along(image.w, g.kernel.w, g.stride.w, g.padding.w, g.dilation.w, g.output_padding.w, g.transposed)};
}
bool is_empty(Extent extent) { return extent.h <= 0 || extent.w <= 0; }

/// True when the library can do the transposed convolution. The image may become smaller where sizes are dynamic.
bool is_within_library(const Geometry& g, Extent image) {
  const Pair& extra = g.output_padding;
  if ((extra.h != 0 && extra.h >= g.stride.h) || (extra.w != 0 && extra.w >= g.stride.w)) {
    return false;
  }
  const int64_t h = extent_along(image.h, g.kernel.h, g.stride.h, g.padding.h, 1, extra.h, true);
  const int64_t w = extent_along(image.w, g.kernel.w, g.stride.w, g.padding.w, 1, extra.w, true);
  return has_each_place(g.kernel, g.stride, g.dilation, h, w);
}

/// False where the library would compute columns in vain that another kernel of floats does not: integers have no other
/// one.
bool is_worth_groups(const Tensor& filter, const Geometry& g) {
  constexpr size_t kColumns = 32;  // of its tiles
  return filter.scalar_type() != ScalarType::Float || (filter.size(1) > 1 && g.out_channels / g.groups >= kColumns);
}

}  // namespace

Result<Geometry> read_geometry(const ConvolutionValues& values) {
  const Tensor input = values.input->to_tensor();
  const Tensor weight = values.weight->to_tensor();
  const int64_t spatial_dims = input.dim() - 2;
  if (spatial_dims < 1 || spatial_dims > 3 || weight.dim() != input.dim()) {
    return Error::NotSupported;
  }
  Geometry g{};
  Depth& depth = g.depth;
  if (!read_steps(*values.stride, spatial_dims, 1, 1, &depth.stride, &g.stride) ||
      !read_steps(*values.padding, spatial_dims, 0, 0, &depth.padding, &g.padding) ||
      !read_steps(*values.dilation, spatial_dims, 1, 1, &depth.dilation, &g.dilation)) {
    return Error::NotSupported;
  }
  g.transposed = values.transposed->number_as_bool();
  uint32_t unused = 0;
  if (g.transposed && !read_steps(*values.output_padding, spatial_dims, 0, 0, &unused, &g.output_padding)) {
    return Error::NotSupported;
  }
  const int64_t groups = values.groups->number_as_int();
  if (groups < 1 || groups > INT32_MAX || weight.numel() == 0 || weight.size(0) % groups != 0) {
    return Error::NotSupported;
  }
  g.groups = static_cast<uint32_t>(groups);
  g.kernel = {spatial_dims == 1 ? 1 : static_cast<uint32_t>(weight.size(-2)), static_cast<uint32_t>(weight.size(-1))};
  const auto per_group = static_cast<size_t>(weight.size(1)) * g.groups;
  g.in_channels = g.transposed ? static_cast<size_t>(weight.size(0)) : per_group;
  g.out_channels = g.transposed ? per_group : static_cast<size_t>(weight.size(0));
  if (static_cast<size_t>(input.size(1)) != g.in_channels) {
    return Error::NotSupported;
  }
  if (spatial_dims == 3) {
    depth.kernel = static_cast<uint32_t>(weight.size(2));
    if (g.transposed || (groups > 1 && !is_worth_groups(weight, g)) ||
        mul_overflow(g.in_channels, size_t{depth.kernel}, &g.in_channels)) {
      return Error::NotSupported;
    }
  }
  const bool is_static = input.unsafe_impl()->dynamism() == runtime::TensorShapeDynamism::kStatic;
  const Extent image = is_static ? Extent{spatial_dims == 1 ? 1 : input.size(-2), input.size(-1)} : Extent{1, 1};
  // Never any pixels: other kernels know whether that is an empty result (of a batch of none) or an error.
  const bool has_planes = spatial_dims < 3 || output_planes(depth, input.size(2)) > 0;
  if (is_static && (is_empty(image) || is_empty(extent_of_output(g, image)) || !has_planes)) {
    return Error::NotSupported;
  }
  if (g.transposed && !is_within_library(g, image)) {
    return Error::NotSupported;
  }
  return g;
}

Result<Extent> output_extent(const Geometry& g, int64_t batch, int64_t in_h, int64_t in_w) {
  const int64_t least = batch == 0 ? 0 : 1;
  ET_CHECK_OR_RETURN(in_h >= least && in_h <= INT32_MAX && in_w >= least && in_w <= INT32_MAX, InvalidArgument,
                     "convolution: an input of %" PRId64 " x %" PRId64, in_h, in_w);
  const Extent out = extent_of_output(g, {in_h, in_w});
  ET_CHECK_OR_RETURN(!is_empty(out), InvalidArgument,
                     "convolution: an input of %" PRId64 " x %" PRId64 " is smaller than the kernel", in_h, in_w);
  return out;
}

int64_t output_planes(const Depth& depth, int64_t in_d) {
  return std::max<int64_t>(0, extent_along(in_d, depth.kernel, depth.stride, depth.padding, depth.dilation, 0, false));
}

Error LibraryWeight::make(const Tensor& weight, const Geometry& g) {
  data_ = weight.const_data_ptr();
  if (weight.dim() == 5) {
    const auto rows = static_cast<size_t>(weight.size(0)), in = static_cast<size_t>(weight.size(1));
    const size_t planes = g.depth.kernel, taps = size_t{g.kernel.h} * g.kernel.w;
    return is_channels_innermost(weight) ? permute(weight, {rows, planes, taps, in}, {0, 2, 1, 3})
                                         : permute(weight, {rows, in, planes, taps}, {0, 3, 2, 1});
  }
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

Error LibraryWeight::permute(const Tensor& weight, Span<const size_t> shape, Span<const size_t> permutation) {
  copy_ = new (std::nothrow) unsigned char[weight.nbytes() + XNN_EXTRA_BYTES];
  ET_CHECK_OR_RETURN(copy_ != nullptr, MemoryAllocationFailed, "no memory to reorder a weight of %zu bytes",
                     weight.nbytes());
  const auto run = weight.element_size() == 1 ? &xnn_run_transpose_nd_x8 : &xnn_run_transpose_nd_x32;
  ET_RETURN_IF_ERROR(
      check(run(data_, copy_, shape.size(), shape.data(), permutation.data(), 0, nullptr), "xnn_run_transpose_nd"));
  data_ = copy_;
  return Error::Ok;
}

Error offer_convolution(const Geometry& g, const Tensor& input, const Tensor& weight, const Tensor& out,
                        ops::WorkNumbers numbers, void** state) {
  if (*state == nullptr) {
    return Error::Ok;
  }
  const auto groups = static_cast<int64_t>(g.groups);
  const bool has_unit_steps = g.stride.h == 1 && g.stride.w == 1 && g.dilation.h == 1 && g.dilation.w == 1;
  const int64_t stride[] = {g.stride.h, g.stride.w};
  const bool is_line = weight.dim() == 3;
  const bool overlaps = ops::windows_overlap(weight.sizes(), {stride + (is_line ? 1 : 0), is_line ? 1U : 2U});
  ops::Work work = ops::work_of({weight.sizes(), groups, g.transposed, has_unit_steps, overlaps,
                                 static_cast<double>(input.numel()), static_cast<double>(out.numel())});
  work.numbers = numbers;
  // A transposed one is a small product for each place of the patch that a pixel makes. Those that overlap are
  // measured.
  const double of_patches = g.transposed && !overlaps ? 2 : 1;
  // Others have a pointer for each tap of each pixel of an image, which every call reads.
  constexpr double kNsOfPointer = 0.4;
  const double taps = g.transposed || g.kernel.h * g.kernel.w == 1 ? 0 : double{1} * g.kernel.h * g.kernel.w;
  const double pixels = input.dim() == 0 || input.size(0) == 0 || g.out_channels == 0
                            ? 0
                            : static_cast<double>(out.numel()) / static_cast<double>(input.size(0) * g.out_channels);
  // Images whose channels lie outermost are transposed.
  constexpr double kNsOfByte = 0.06;
  double transposed = 0;
  for (const Tensor& image : {input, out}) {
    transposed += is_channels_innermost(image) ? 0 : static_cast<double>(image.nbytes());
  }
  return runtime::offer(
      state, of_patches * runtime::cost_here(work, kCosts) + taps * pixels * kNsOfPointer + transposed * kNsOfByte);
}

}  // namespace et::backends::xnnpack
