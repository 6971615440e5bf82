// et::separable_convolution with constant filters on channels-last images, kept in the cache: an image is walked by
// strips of output rows. The rows that a strip looks at are expanded into a ring of rows; those that the strip before
// it needed too stay there. Its depthwise results go to a buffer, and the product of that buffer into the output. Ring
// and buffer are a thread's own, and small enough for the second cache, where the images between the convolutions are
// written to memory and read again.
//
// The arithmetic is that of the convolutions alone (pixel_product.h, depthwise.h), so the bits are, too.
#include <algorithm>

#include "kernels/optimized/conv/depthwise.h"
#include "kernels/optimized/conv/pixel_product.h"
#include "kernels/optimized/vec/table.h"
#include "ops/signatures/portable/op_separable_convolution.h"
#include "threads/parallel.h"

namespace et::kernels::optimized::conv {
namespace {

using runtime::PrepareContext;

using namespace ops::arguments::et_separable_convolution;

constexpr const char* kOp = "et::separable_convolution";

struct Separable {
  bool expands;
  PixelProduct expand;
  Depthwise depthwise;
  PixelProduct project;

  size_t in_channels() const { return expands ? expand.in_channels : depthwise.channels; }
};

// ------------------------------------------------------------------------------------------------------------------
// prepare

bool is_filter(const EValue& weight, int64_t out, int64_t in) {
  if (!is_float(weight) || weight.to_tensor().dim() != 4 || !(is_row_major(weight) || is_channels_last(weight))) {
    return false;
  }
  const Tensor tensor = weight.to_tensor();
  return tensor.size(0) == out && tensor.size(1) == in && tensor.numel() > 0;
}
bool is_pixel_filter(const EValue& weight, int64_t out, int64_t in) {
  return is_filter(weight, out, in) && weight.to_tensor().size(2) == 1 && weight.to_tensor().size(3) == 1;
}
bool is_bias(const EValue& bias, int64_t channels) {
  return bias.is_none() || (is_float(bias) && bias.to_tensor().dim() == 1 && bias.to_tensor().size(0) == channels);
}

bool fits(const PrepareContext& context, Arguments args) {
  for (size_t i = kExpandWeight; i < kOut; ++i) {
    if (!args[i]->is_none() && !context.is_constant(*args[i])) {
      return false;
    }
  }
  for (const size_t i : {kInput, kOut}) {
    if (!is_float(*args[i]) || args[i]->to_tensor().dim() != 4 || !is_channels_last(*args[i])) {
      return false;
    }
  }
  if (!is_float(*args[kWeight]) || args[kWeight]->to_tensor().dim() != 4 || !is_float(*args[kProjectWeight]) ||
      args[kProjectWeight]->to_tensor().dim() != 4) {
    return false;
  }
  const Tensor weight = args[kWeight]->to_tensor();
  const int64_t in_channels = args[kInput]->to_tensor().size(1);
  const int64_t channels = weight.size(0), out_channels = args[kProjectWeight]->to_tensor().size(0);
  const bool has_expansion = !args[kExpandWeight]->is_none();
  return is_filter(*args[kWeight], channels, 1) && is_bias(*args[kBias], channels) &&
         weight.size(2) == weight.size(3) && (weight.size(2) == 3 || weight.size(2) == 5) &&
         (is_pair(*args[kStride], 1, 1) || is_pair(*args[kStride], 2, 2)) &&
         has_padding_up_to(*args[kPadding], weight.size(2) - 1) &&
         is_pixel_filter(*args[kProjectWeight], out_channels, channels) && is_bias(*args[kProjectBias], out_channels) &&
         (has_expansion
              ? is_pixel_filter(*args[kExpandWeight], channels, in_channels) && is_bias(*args[kExpandBias], channels)
              : in_channels == channels);
}

Error prepare(PrepareContext& context, Arguments args, void** state) {
  if (context.shared() == nullptr || !fits(context, args)) {
    return Error::NotSupported;
  }
  Separable s{};
  s.expands = !args[kExpandWeight]->is_none();
  if (s.expands) {
    ET_TRY(const Range range, read_range(context, args[kExpandMin], args[kExpandMax]));
    ET_TRY(s.expand, pack_pixel_product(context, args[kExpandWeight]->to_tensor(), *args[kExpandBias], range));
  }
  ET_TRY(const Range range, read_range(context, args[kMin], args[kMax]));
  constexpr int64_t kDense[] = {1};
  ET_TRY(s.depthwise, pack_depthwise(context, args[kWeight]->to_tensor(), *args[kBias], args[kStride]->to_int_list(),
                                     args[kPadding]->to_int_list(), {kDense, 1}, range));
  ET_TRY(const Range project_range, read_range(context, args[kProjectMin], args[kProjectMax]));
  ET_TRY(s.project, pack_pixel_product(context, args[kProjectWeight]->to_tensor(), *args[kProjectBias], project_range));
  return keep_state(context, s, state);
}

// ------------------------------------------------------------------------------------------------------------------
// run

/// How the rows of a call are walked.
struct Plan {
  int64_t strip_rows;  // output rows at a time
  int64_t ring_rows;   // of the expanded image, 0 without one
  size_t ring_floats, strip_floats;
  size_t slots;  // threads, each with a ring and a buffer of its own
};

Plan plan_strips(const Separable& s, const Depthwise& w, int64_t rows, threads::ThreadPool* pool) {
  // What a thread may keep of the second cache; filters and the rows that come and go pass through it as well.
  constexpr size_t kStripBytes = 256 << 10;
  // Multiplications below which a hand-over to another thread costs more than it saves: some 5 us.
  constexpr size_t kWorthWaking = 250'000;
  const size_t in_row = static_cast<size_t>(w.in_w) * w.channels;
  const size_t out_row = static_cast<size_t>(w.out_w) * w.channels;
  const size_t work =
      static_cast<size_t>(rows) * out_row * (static_cast<size_t>(w.kernel_h * w.kernel_w) + s.project.out_channels);
  Plan plan{};
  plan.slots = pool == nullptr || work < kWorthWaking ? 1 : std::min(pool->num_threads(), static_cast<size_t>(rows));
  const size_t overlap = s.expands ? static_cast<size_t>(w.kernel_h - w.stride_h) * in_row : 0;
  const size_t step = out_row + (s.expands ? static_cast<size_t>(w.stride_h) * in_row : 0);
  const size_t budget = kStripBytes / sizeof(float);
  const size_t fitting = budget > overlap ? (budget - overlap) / step : 0;
  plan.strip_rows = static_cast<int64_t>(std::clamp(fitting, size_t{1}, static_cast<size_t>(w.out_h)));
  plan.ring_rows = s.expands ? (plan.strip_rows - 1) * w.stride_h + w.kernel_h : 0;
  plan.ring_floats = static_cast<size_t>(plan.ring_rows) * in_row;
  plan.strip_floats = static_cast<size_t>(plan.strip_rows) * out_row;
  return plan;
}

/// Expands rows [first, last) of an image [in_h, in_w, in_channels] to their places in the ring.
void expand_rows(const Separable& s, const Depthwise& w, const float* image, int64_t first, int64_t last, float* ring) {
  while (first < last) {
    const int64_t at = first % w.ring_rows;
    const int64_t count = std::min(last - first, w.ring_rows - at);
    multiply_pixels(s.expand, image + first * w.in_w * static_cast<int64_t>(s.expand.in_channels),
                    ring + at * w.in_w * static_cast<int64_t>(w.channels), static_cast<size_t>(count * w.in_w));
    first += count;
  }
}

/// Output rows [begin, end) of one image.
void run_rows(const Separable& s, Depthwise w, const Plan& plan, const float* image, float* out, int64_t begin,
              int64_t end, float* scratch) {
  float* const strip = scratch + plan.ring_floats;
  const int64_t pad_h = w.pad_h;
  const int64_t out_row = w.out_w * static_cast<int64_t>(s.project.out_channels);
  w.in = s.expands ? scratch : image;
  w.ring_rows = plan.ring_rows;
  w.out = strip;
  int64_t expanded = std::max<int64_t>(0, begin * w.stride_h - pad_h);  // rows before this one are done or not needed
  for (int64_t row = begin; row < end; row += plan.strip_rows) {
    const int64_t rows = std::min(plan.strip_rows, end - row);
    if (s.expands) {
      const int64_t needed = std::min(w.in_h, (row + rows - 1) * w.stride_h - pad_h + w.kernel_h);
      expand_rows(s, w, image, expanded, needed, scratch);
      expanded = std::max(expanded, needed);
    }
    w.pad_h = pad_h - row * w.stride_h;  // so that the strip's first row is row 0
    depthwise_units(w, 0, static_cast<size_t>(rows));
    multiply_pixels(s.project, strip, out + row * out_row, static_cast<size_t>(rows * w.out_w));
  }
}

Error run(KernelContext& context, Arguments args, void* state) {
  const auto& s = *static_cast<const Separable*>(state);
  const Tensor input = args[kInput]->to_tensor();
  const Tensor out = args[kOut]->to_tensor();
  Depthwise w = s.depthwise;
  ET_RETURN_IF_ERROR(plan_call(context, kOp, input, s.in_channels(), s.project.out_channels, out, &w));
  if (out.numel() == 0) {
    return Error::Ok;
  }
  const int64_t rows = input.size(0) * w.out_h;
  const Plan plan = plan_strips(s, w, rows, context.pool());
  const size_t floats = plan.ring_floats + plan.strip_floats;
  ET_TRY(void* const memory, context.allocate_temp(plan.slots * floats * sizeof(float)));
  auto* const scratch = static_cast<float*>(memory);
  const int64_t in_image = w.in_h * w.in_w * static_cast<int64_t>(s.in_channels());
  const int64_t out_image = w.out_h * w.out_w * static_cast<int64_t>(s.project.out_channels);
  const auto run = [&](size_t slot, int64_t image, int64_t begin, int64_t end) {
    run_rows(s, w, plan, input.const_data_ptr<float>() + image * in_image,
             out.mutable_data_ptr<float>() + image * out_image, begin, end, scratch + slot * floats);
  };
  share_units(context.pool(), plan.slots, input.size(0), w.out_h, run);
  return Error::Ok;
}

constexpr Kernel kKernels[] = {
    make_stateful_kernel<&prepare, &run>(signature::separable_convolution_out),
};

}  // namespace

ET_KERNEL_TABLE(separable_convolution, kKernels)

}  // namespace et::kernels::optimized::conv
