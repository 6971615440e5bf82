#include "backends/tosa/compiler/op_support.h"

#include <algorithm>
#include <cmath>

#include "backends/tosa/compiler/emitters.h"
#include "backends/tosa/compiler/float_operators.h"
#include "backends/tosa/compiler/limits.h"
#include "ir/op_views.h"
#include "numerics/exact_factor.h"
#include "numerics/integer_softmax.h"
#include "ops/arguments.h"
#include "ops/names.h"
#include "ops/op_table.h"
#include "passes/quantized_values.h"

namespace et::backends::tosa::compiler {
namespace {

using passes::int_of;
using passes::ints_of;
using passes::number_of;

constexpr const char* kTaken = "";
constexpr size_t kMaxRank = 6;  // TOSA's level 8K
constexpr int64_t kMaxExtent = 1 << 30;

/// What `vela --supported-ops-report` (5.2) says of TOSA operators: U85 has level 8K whole, but no more channels.
constexpr Accelerator kAccelerators[] = {
    {"ethos-u55", 3, 64, 4096, 256, 65536, 65536, 2, false, false},
    {"ethos-u65", 3, 64, 4096, 256, 65536, 65536, 2, false, false},
    {"ethos-u85", kMaxKernel, kMaxKernel, kMaxKernel * kMaxKernel, kMaxKernel, kMaxKernel * kMaxKernel, 65536,
     kMaxKernel, true, true},
};

std::string number(int64_t value) { return std::to_string(value); }

/// Whether a factor between scales is one that RESCALE has.
std::string factor_refusal(double factor) {
  return nearest_rescale(factor) ? kTaken : "scales whose ratio RESCALE cannot say";
}

/// Channels that products add up.
std::string depth_refusal(const Question& q, int64_t depth) {
  const Accelerator* device = q.target.accelerator;
  if (device == nullptr || depth <= device->max_depth) {
    return kTaken;
  }
  return "products over " + number(depth) + " channels, " + std::string(device->prefix) + " has " +
         number(device->max_depth);
}

/// The same of sums of `terms` products, which lose some digits where results have 16 bits.
std::string sum_factor_refusal(const Question& q, double factor, int64_t terms, int bits) {
  const bool is_wide = q.result_type().dtype == ScalarType::Short;
  const std::string why = factor_refusal(std::ldexp(factor, is_wide ? surplus_bits(terms, bits) : 0));
  return why.empty() ? factor_refusal(factor) : why;
}

std::string product_factors_refusal(const Question& q, size_t scales, double in, double out, int64_t terms) {
  for (const double scale : passes::numbers_of(*passes::constant_of(q.program, q.arg(scales)))) {
    if (const std::string why = sum_factor_refusal(q, in * scale / out, terms, kWeightedBits); !why.empty()) {
      return why;
    }
  }
  return kTaken;
}

std::string convolution(const Question& q) {
  using namespace ops::arguments::et_quantized_convolution;
  std::string why = constants_refusal(q, {kWeight, kWeightScales, kBias});
  why = why.empty() ? convolution_refusal(q, kConvolutionOfIntegers) : why;
  const ir::TensorType& weight = q.type(kWeight);
  why = why.empty() ? depth_refusal(q, weight.dims[1].max) : why;
  const int64_t in_a_byte = weight.dtype == ScalarType::Byte ? 2 : 1;
  const int64_t terms = weight.max_numel() * in_a_byte / q.result_type().dims[1].max;
  return why.empty() ? product_factors_refusal(q, kWeightScales, *number_of(q.arg(kInputScale)),
                                               *number_of(q.arg(kOutputScale)), terms)
                     : why;
}

std::string linear(const Question& q) {
  using namespace ops::arguments::et_quantized_linear;
  if (q.type(kInput).rank() == 0) {
    return "a scalar";
  }
  std::string why = constants_refusal(q, {kWeight, kWeightScales, kBias});
  const int64_t terms = q.type(kInput).dims.back().max;
  why = why.empty() ? depth_refusal(q, terms) : why;
  return why.empty() ? product_factors_refusal(q, kWeightScales, *number_of(q.arg(kInputScale)),
                                               *number_of(q.arg(kOutputScale)), terms)
                     : why;
}

std::string matmul(const Question& q) {
  using namespace ops::arguments::et_quantized_matmul;
  const Accelerator* device = q.target.accelerator;
  if (q.result_type().dtype == ScalarType::Short && device != nullptr && !device->has_matmul_of_16_bits) {
    return "a product of activations of 16 bits, " + std::string(device->prefix) + " has those of 8";
  }
  const double factor = *number_of(q.arg(kSelfScale)) * *number_of(q.arg(kMat2Scale)) / *number_of(q.arg(kOutputScale));
  return sum_factor_refusal(q, factor, q.type(kSelf).dims.back().max, kProductBits);
}

/// Sums are exact in 21 bits where the larger scale is between 2^-10 and 2^8 of the result's.
std::string sum(const Question& q) {
  using namespace ops::arguments::et_quantized_add;
  const auto scale = [&](size_t i) { return static_cast<float>(*number_of(q.arg(i))); };
  const float largest = std::max(scale(kSelfScale), scale(kOtherScale)) / scale(kOutputScale);
  const bool is_wide = q.result_type().dtype == ScalarType::Short;
  return largest >= 0x1p-10f && largest < 0x1p+8f && (!is_wide || wide_sum_of(q.node))
             ? kTaken
             : "scales of operands and result that are too far apart";
}

std::string product(const Question& q) {
  using namespace ops::arguments::et_quantized_mul;
  return factor_refusal(*number_of(q.arg(kSelfScale)) * *number_of(q.arg(kOtherScale)) /
                        *number_of(q.arg(kOutputScale)));
}

std::string table(const Question& q) {
  if (passes::constant_of(q.program, ops::EtQuantizedTable(q.node).table()) == nullptr) {
    return "a table that is not constant";
  }
  const Accelerator* device = q.target.accelerator;
  const bool is_wide = q.result_type().dtype == ScalarType::Short;
  return is_wide && device != nullptr && !device->has_table_of_16_bits
             ? "a function of 16 bits, " + std::string(device->prefix) + " has tables of 8"
             : kTaken;
}

std::string softmax(const Question& q) {
  using namespace ops::arguments::et_quantized_softmax;
  if (q.type(kSelf).rank() == 0) {
    return "a scalar";
  }
  const auto rank = static_cast<int64_t>(q.type(kSelf).rank());
  const int64_t dim = *int_of(q.arg(kDim));
  const bool is_wide = q.type(kSelf).dtype == ScalarType::Short;
  const int64_t longest = is_wide ? WideSoftmaxPowers::kMaxLength : SoftmaxShares::kMaxLength;
  if (q.type(kSelf).dims[static_cast<size_t>(dim < 0 ? dim + rank : dim)].max > longest) {
    return "a softmax over more than " + number(longest) + " elements" + (is_wide ? " of 16 bits" : "") +
           ", whose sum does not fit 32 bits";
  }
  const FixedFactor factor = SoftmaxShares::to_output(*number_of(q.arg(kOutputScale)));
  return factor.shift >= 32 && factor.multiplier >= 1 << 30 ? kTaken : "scales whose ratio RESCALE cannot say";
}

std::string layer_norm(const Question& q) {
  using namespace ops::arguments::et_quantized_layer_norm;
  if (const std::string why = constants_refusal(q, {kWeight, kBias}); !why.empty()) {
    return why;
  }
  if (!ints_of(q.arg(kNormalizedShape))) {
    return "sizes that are computed at run time";
  }
  const IntegerNorm norm = norm_of(q.node);
  if (norm.length() > IntegerNorm::kMaxLength) {
    return "a norm of more than " + number(IntegerNorm::kMaxLength) + " elements, whose sum does not fit 32 bits";
  }
  return norm_output_of(q.program, q.node, norm).fits ? kTaken : "scales whose ratio RESCALE cannot say";
}

std::string max_pool(const Question& q) {
  using namespace ops::arguments::max_pool2d_with_indices;
  if (const auto dilation = spatial(q.arg(kDilation), 2, {1}); dilation != std::vector<int64_t>{1, 1}) {
    return dilation ? "a pooling with dilation" : "windows that are computed at run time";
  }
  for (size_t i = 1; i < q.node.results().size(); ++i) {
    if (!q.node.graph()->is_unused(q.node.result(i))) {
      return "the places of its maxima are used";
    }
  }
  const std::string why = pool_refusal(q, kKernelSize, kStride, kPadding);
  return why.empty() ? window_refusal(q, windows_of(q.node, kKernelSize, kStride, kPadding), true) : why;
}

std::string average_factor(const Question& q, size_t output_scale, int64_t count) {
  if (count < 1) {
    return "a divisor that is not positive";
  }
  if (count > INT32_MAX / (q.type(0).dtype == ScalarType::Short ? 32768 : 255)) {
    return "so many elements that their sum does not fit 32 bits";
  }
  return factor_refusal(*number_of(ops::EtQuantizedMean(q.node).self_scale()) / *number_of(q.arg(output_scale)) /
                        static_cast<double>(count));
}

std::string avg_pool(const Question& q) {
  using namespace ops::arguments::et_quantized_avg_pool2d;
  std::string why = pool_refusal(q, kKernelSize, kStride, kPadding);
  if (!why.empty()) {
    return why;
  }
  const Windows windows = windows_of(q.node, kKernelSize, kStride, kPadding);
  const std::vector<int64_t> padding = *spatial(q.arg(kPadding), 2, {0});
  const std::vector<int32_t> pad = windows.pad();
  const bool is_padded = std::any_of(pad.begin(), pad.end(), [](int32_t p) { return p > 0; });
  const bool beyond = windows.rows.after > padding[0] || windows.columns.after > padding[1];
  if (is_padded && !int_of(q.arg(kDivisorOverride)) && (beyond || int_of(q.arg(kCountIncludePad)).value_or(1) == 0)) {
    return "averages whose divisor is not the same everywhere";
  }
  const int64_t area = windows.rows.kernel * windows.columns.kernel;
  why = average_factor(q, kOutputScale, int_of(q.arg(kDivisorOverride)).value_or(area));
  return why.empty() ? window_refusal(q, windows, false) : why;
}

std::string adaptive_pool(const Question& q) {
  using namespace ops::arguments::et_quantized_adaptive_avg_pool2d;
  const std::string why = adaptive_pool_refusal(q);
  if (!why.empty()) {
    return why;
  }
  const Windows windows = adaptive_windows_of(q.node);
  const std::string factor = average_factor(q, kOutputScale, windows.rows.kernel * windows.columns.kernel);
  const bool is_whole = windows.rows.out == 1 && windows.columns.out == 1;
  return factor.empty() && !is_whole ? window_refusal(q, windows, false) : factor;
}

std::string mean(const Question& q) {
  using namespace ops::arguments::et_quantized_mean;
  int64_t count = 1;
  const auto dims = ints_of(q.arg(kDim));
  const auto rank = static_cast<int64_t>(q.type(0).rank());
  for (int64_t dim = 0; dim < rank; ++dim) {
    const bool is_reduced = !dims || dims->empty() || std::find(dims->begin(), dims->end(), dim) != dims->end() ||
                            std::find(dims->begin(), dims->end(), dim - rank) != dims->end();
    count *= is_reduced ? q.type(0).dims[static_cast<size_t>(dim)].max : 1;
  }
  return average_factor(q, kOutputScale, count);
}

std::string moves(const Question&) { return kTaken; }

std::string permute(const Question& q) {
  return ints_of(ops::PermuteCopy(q.node).dims()) && q.type(0).rank() >= 1 ? kTaken : "a permutation of nothing";
}

std::string flip(const Question& q) {
  return ints_of(ops::Flip(q.node).dims()) && q.type(0).rank() >= 1 ? kTaken : "dims that are computed at run time";
}

std::string slice(const Question& q) {
  const ops::SliceCopyTensor call(q.node);
  return int_of(call.dim()) && int_of(call.step()) && (call.start().is_none() || int_of(call.start()))
             ? kTaken
             : "a start or step that is computed at run time";
}

std::string select(const Question& q) {
  const ops::SelectCopyInt call(q.node);
  return int_of(call.dim()) && int_of(call.index()) ? kTaken : "an index that is computed at run time";
}

std::string split(const Question& q) {
  return int_of(ops::SplitCopyTensor(q.node).dim()) ? kTaken : "a dim that is computed at run time";
}

std::string pixel_shuffle(const Question& q) {
  return q.type(0).rank() != 4                                ? "only images of rank 4"
         : int_of(ops::PixelShuffle(q.node).upscale_factor()) ? kTaken
                                                              : "a factor that is computed at run time";
}

std::string concatenate(const Question& q) {
  const auto* items = ops::Cat(q.node).tensors().as<ir::Argument::List>();
  const bool fits = items != nullptr && std::all_of(items->begin(), items->end(), [&](const ir::Argument& item) {
                      return item.value() != nullptr && item.value()->type.tensor.rank() == q.result_type().rank();
                    });
  return fits ? kTaken : "tensors of different ranks";
}

std::string pad(const Question& q) {
  const ops::ConstantPadNd call(q.node);
  const auto list = ints_of(call.pad());
  if (!list || !number_of(call.value())) {
    return "paddings that are computed at run time";
  }
  const double filling = *number_of(call.value());
  const double half = q.type(0).dtype == ScalarType::Short ? 0x1p15 : 0x1p7;
  if (!is_floating(q.type(0).dtype) && (filling < -half || filling >= half || filling != std::floor(filling))) {
    return "a filling that is none of its integers";
  }
  return std::all_of(list->begin(), list->end(), [](int64_t p) { return p >= 0 && p <= kMaxKernel; })
             ? kTaken
             : "a negative padding, or one above 8192";
}

/// Conversions that are left over. Between a part and the floats around it they stay outside; those of an operator that
/// is refused are judged again without it. A quantize behind a dequantize brings integers to another scale or range.
std::string conversion(const Question& q) {
  const ir::Value* from = q.arg(0).value();
  if (q.target.floats) {
    return "it is from or to integers, which the profile FP leaves outside: TOSA-1.0+INT takes what is between them";
  }
  if (q.node.op != passes::kQuantizePerTensor) {
    return q.node.graph()->is_output(q.node.result()) ? "its numbers are used as floats: integers end before it"
                                                      : kTaken;
  }
  if (from->producer() == nullptr || !passes::affine_of(*from->producer())) {
    return "its numbers are floats: integers begin behind it";
  }
  const auto in = passes::affine_of(*from->producer()), out = passes::affine_of(q.node);
  constexpr double kLargest = 1 << 14;  // by which RESCALE multiplies all integers of 16 bits
  return !out || in->scale / out->scale >= kLargest ? "scales whose ratio RESCALE cannot say"
                                                    : factor_refusal(in->scale / out->scale);
}

/// Of the profile FP; in INT a quantizer writes the steps.
std::string recurrent(const Question&) {
  return "a recurrent layer, whose steps are not spelled out: call an nn.LSTMCell or nn.GRUCell for each, or quantize";
}

constexpr OperatorRow kRows[] = {
    {op::et_quantized_convolution, "CONV2D, DEPTHWISE_CONV2D or TRANSPOSE_CONV2D, RESCALE", &convolution,
     &emit_convolution},
    {op::et_quantized_linear, "CONV2D, RESCALE", &linear, &emit_linear},
    {op::et_quantized_matmul, "MATMUL, RESCALE", &matmul, &emit_matmul},
    {op::et_quantized_add, "RESCALE, ADD, RESCALE", &sum, &emit_add},
    {op::et_quantized_sub, "RESCALE, SUB, RESCALE", &sum, &emit_sub},
    {op::et_quantized_mul, "RESCALE, MUL, RESCALE", &product, &emit_mul},
    {op::et_quantized_table, "TABLE", &table, &emit_table},
    {passes::kDequantizePerTensor, "another name, before a quantize", &conversion, &emit_dequantize},
    {passes::kQuantizePerTensor, "RESCALE", &conversion, &emit_requantize},
    {op::et_quantized_softmax, "REDUCE_MAX, TABLE, REDUCE_SUM, CLZ, MUL, shifts, RESCALE", &softmax, &emit_softmax},
    {op::et_quantized_layer_norm, "REDUCE_SUM, CLZ, MUL, shifts, RESCALE", &layer_norm, &emit_layer_norm},
    {op::max_pool2d, "MAX_POOL2D", &max_pool, &emit_max_pool},
    {op::max_pool2d_with_indices, "MAX_POOL2D", &max_pool, &emit_max_pool},
    {op::et_quantized_avg_pool2d, "DEPTHWISE_CONV2D, RESCALE", &avg_pool, &emit_avg_pool},
    {op::et_quantized_adaptive_avg_pool2d, "DEPTHWISE_CONV2D or REDUCE_SUM, RESCALE", &adaptive_pool,
     &emit_adaptive_pool},
    {op::et_quantized_mean, "DEPTHWISE_CONV2D or REDUCE_SUM, RESCALE", &mean, &emit_mean},
    {op::view_copy, "RESHAPE", &moves, &emit_view},
    {op::unsqueeze_copy, "RESHAPE", &moves, &emit_view},
    {op::squeeze_copy_dim, "RESHAPE", &moves, &emit_view},
    {op::squeeze_copy_dims, "RESHAPE", &moves, &emit_view},
    {op::permute_copy, "TRANSPOSE, or another name", &permute, &emit_permute},
    {op::slice_copy_Tensor, "SLICE, with a step PAD, RESHAPE, SLICE, RESHAPE", &slice, &emit_slice},
    {op::select_copy_int, "SLICE, RESHAPE", &select, &emit_select},
    {op::split_copy_Tensor, "SLICE for each part", &split, &emit_split},
    {op::split_with_sizes_copy, "SLICE for each part", &split, &emit_split},
    {op::flip, "REVERSE for each dim", &flip, &emit_flip},
    {op::pixel_shuffle, "RESHAPE, TRANSPOSE, RESHAPE", &pixel_shuffle, &emit_pixel_shuffle},
    {op::pixel_unshuffle, "RESHAPE, TRANSPOSE, RESHAPE", &pixel_shuffle, &emit_pixel_shuffle},
    {op::unbind_copy_int, "SLICE, RESHAPE for each part", &moves, &emit_unbind},
    {op::stack, "RESHAPE, CONCAT", &moves, &emit_stack},
    {op::cat, "CONCAT", &concatenate, &emit_concatenate},
    {op::constant_pad_nd, "PAD", &pad, &emit_pad},
    {op::expand_copy, "TILE", &moves, &emit_expand},
    {op::repeat, "TILE", &moves, &emit_expand},
    {op::lstm_input, "", &recurrent, nullptr},
    {op::gru_input, "", &recurrent, nullptr},
    {op::rnn_tanh_input, "", &recurrent, nullptr},
    {op::rnn_relu_input, "", &recurrent, nullptr},
};

constexpr const char* kDynamic =
    "a size that is not known at compile time, and TOSA's are: export the model for one size, without dynamic_shapes";

std::string type_refusal(const Target& target, const ir::Value* value) {
  if (!value->type.is_tensor()) {
    return "a number that is computed at run time";
  }
  const ir::TensorType& type = value->type.tensor;
  if (type.rank() > kMaxRank) {
    return "a tensor of rank " + number(static_cast<int64_t>(type.rank())) + ", TOSA has 6";
  }
  if (!type.is_static()) {
    return kDynamic;
  }
  if (!type.is_row_major()) {
    return "another order of dims than row-major";
  }
  for (const ir::Dim& dim : type.dims) {
    if (dim.max == 0 || dim.max > kMaxExtent) {
      return "a tensor without elements, or too large";
    }
  }
  if (target.floats) {
    const bool is_taken = type.dtype == ScalarType::Float || type.dtype == ScalarType::Half ||
                          type.dtype == ScalarType::Bool || (type.dtype == ScalarType::BFloat16 && target.bf16);
    return is_taken ? kTaken
           : type.dtype == ScalarType::BFloat16
               ? "a tensor of torch.bfloat16, which a specification has with the extension bf16: TOSA-1.0+FP+bf16"
               : std::string("a tensor of type ") + to_string(type.dtype) + ", which the profile FP has not";
  }
  if (is_floating(type.dtype)) {
    return "it computes on floats, which the profile INT has not: it is not quantized, or has no form on such integers";
  }
  if (type.dtype == ScalarType::Short && !target.int16) {
    return "a tensor of torch.int16, which a specification has with the extension int16: TOSA-1.0+INT+int16";
  }
  return type.dtype == ScalarType::Char || type.dtype == ScalarType::Short
             ? kTaken
             : std::string("a tensor of type ") + to_string(type.dtype);
}

/// Integers of 16 bits are symmetric in TOSA.
std::string zero_point_refusal(const Question& q) {
  const ops::OpInfo* op = ops::find_op(q.node.op);
  const bool is_wide =
      op != nullptr && q.node.result()->type.is_tensor() && q.node.result()->type.tensor.dtype == ScalarType::Short;
  for (size_t i = 0; is_wide && i < op->arguments.size(); ++i) {
    const std::string_view name = op->arguments[i].name;
    if (name.find("zero_point") != name.npos && int_of(q.arg(i)).value_or(0) != 0) {
      return "integers of torch.int16 with a zero point of " + number(*int_of(q.arg(i))) + ", must be 0";
    }
  }
  return kTaken;
}

/// Whether an argument is a constant that the operator reads at compile time: weights, scales, tables.
bool is_data(const Question& q, const ir::Value* value) {
  const bool has_data = q.node.op == op::et_quantized_convolution || q.node.op == op::et_quantized_linear ||
                        q.node.op == op::et_quantized_table || q.node.op == op::et_quantized_layer_norm;
  return has_data && q.arg(0).value() != value;
}

bool is_conversion(const ir::Node& node) {
  return passes::is_one_of(node.op, {passes::kQuantizePerTensor, passes::kDequantizePerTensor,
                                     passes::kDequantizePerChannel, passes::kDequantizePerGroup});
}

/// A profile and extensions behind it.
void read_specification(std::string_view text, Target& out) {
  constexpr std::string_view kVersion = "TOSA-1.0", kIntegers = "+INT", kFloats = "+FP";
  const std::string_view profile = text.substr(std::min(kVersion.size(), text.size()));
  out.floats = profile.substr(0, kFloats.size()) == kFloats;
  bool is_known =
      text.substr(0, kVersion.size()) == kVersion && (out.floats || profile.substr(0, kIntegers.size()) == kIntegers);
  std::string_view rest = profile.substr(std::min((out.floats ? kFloats : kIntegers).size(), profile.size()));
  while (is_known && !rest.empty()) {
    const std::string_view word = rest.substr(0, rest.find('+', 1));
    out.int16 = out.int16 || word == "+int16";
    out.int4 = out.int4 || word == "+int4";
    out.bf16 = out.bf16 || word == "+bf16";
    is_known = out.floats ? word == "+bf16" : word == "+int16" || word == "+int4";
    rest.remove_prefix(word.size());
  }
  if (!is_known) {
    out.problem = "the compile spec tosa_spec is '" + std::string(text) +
                  "', must be TOSA-1.0+INT, with +int16, +int4, or TOSA-1.0+FP, with +bf16";
  }
}

}  // namespace

Target read_target(const std::vector<ir::Delegate::CompileSpec>& specs) {
  Target out;
  for (const auto& spec : specs) {
    if (spec.key == "tosa_spec") {
      read_specification(spec.value, out);
    } else if (spec.key == "accelerator") {
      for (const Accelerator& one : kAccelerators) {
        out.accelerator = spec.value.rfind(one.prefix, 0) == 0 ? &one : out.accelerator;
      }
      if (out.accelerator == nullptr) {
        out.problem = "the accelerator '" + spec.value + "' is not known; there are ethos-u55, ethos-u65 and ethos-u85";
      }
    }
  }
  return out;
}

const OperatorRow* find_operator(std::string_view op) {
  const Span<const OperatorRow> families[] = {{kRows, std::size(kRows)}, float_elementwise_operators(),
                                              float_product_operators(), float_reduction_operators(),
                                              float_pool_operators(),    resizing_operators()};
  for (const Span<const OperatorRow>& family : families) {
    for (const OperatorRow& row : family) {
      if (row.op == op) {
        return &row;
      }
    }
  }
  return nullptr;
}

std::string refusal_of(const Question& q) {
  if (!q.target.problem.empty()) {
    return q.target.problem;
  }
  if (q.node.op == "constant") {
    return kTaken;
  }
  if (is_conversion(q.node)) {
    const std::string why = conversion(q);
    return why.empty() && !q.node.result()->type.tensor.is_static() ? kDynamic : why;
  }
  const OperatorRow* row = find_operator(q.node.op);
  std::string why;
  for (const auto& result : q.node.results()) {
    const bool is_unused = result->users().empty() && !q.node.graph()->is_output(result.get());
    why = why.empty() && !is_unused ? type_refusal(q.target, result.get()) : why;
  }
  q.node.for_each_input(
      [&](const ir::Value* input) { why = why.empty() && !is_data(q, input) ? type_refusal(q.target, input) : why; });
  why = why.empty() ? zero_point_refusal(q) : why;
  if (why.empty() && row == nullptr) {
    return std::string("TOSA has no such operator on ") + (q.target.floats ? "floats" : "integers") +
           ", or it is not written yet";
  }
  return why.empty() ? row->refusal(q) : why;
}

}  // namespace et::backends::tosa::compiler
