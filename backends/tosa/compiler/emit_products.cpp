#include <algorithm>
#include <cmath>

#include "backends/tosa/compiler/convolution.h"
#include "backends/tosa/compiler/emitters.h"
#include "backends/tosa/compiler/op_support.h"
#include "numerics/exact_factor.h"
#include "numerics/nibbles.h"
#include "ops/arguments.h"
#include "ops/names.h"
#include "passes/rewrite.h"

namespace et::backends::tosa::compiler {
namespace {

using passes::constant_of;
using passes::int_of;
using passes::ints_of;
using passes::number_of;

/// Weights, scales and bias of a product, and how large its sums may be.
struct Product {
  Shape dims;                  ///< of the weight, as in the IR, output channels first (transposed: second)
  std::string values;          ///< int8
  bool has_4_bits = false;     ///< all are within [-7, 7], which INT4 has
  std::vector<float> factors;  ///< of the sums, by output channel
  std::vector<int32_t> bias;
  std::vector<int64_t> largest;  ///< magnitudes of the sums
};

Output output_of(const ir::Node& node, size_t zero_point) {
  return {*int_of(node.args()[zero_point]), *int_of(node.args()[zero_point + 1]), *int_of(node.args()[zero_point + 2])};
}

/// Reads them; `rows`: dims of the weight's first dim, of which two may share a byte; `axis`: of the output channels.
Product read_product(const ir::Program& program, const ir::Argument& weight, const ir::Argument& scales,
                     const ir::Argument& bias, int64_t rows, double input_scale, double output_scale, bool is_matrix) {
  Product out;
  const ir::Constant& integers = *constant_of(program, weight);
  for (const ir::Dim& dim : integers.type.dims) {
    out.dims.push_back(static_cast<int32_t>(dim.max));
  }
  const auto* const bytes = static_cast<const char*>(integers.data);
  if (integers.type.dtype == ScalarType::Byte) {
    const auto* const packed = static_cast<const uint8_t*>(integers.data);
    if (is_matrix) {
      const auto columns = static_cast<size_t>(rows);  // of a row, which begins a byte
      const auto stride = static_cast<size_t>(out.dims[1]);
      out.values.resize(static_cast<size_t>(out.dims[0]) * columns);
      for (size_t row = 0; row < static_cast<size_t>(out.dims[0]); ++row) {
        unpack_nibbles(packed + row * stride, columns, reinterpret_cast<int8_t*>(out.values.data()) + row * columns);
      }
      out.dims[1] = static_cast<int32_t>(rows);
    } else {
      const size_t size = static_cast<size_t>(integers.type.numel()) / static_cast<size_t>(out.dims[0]);
      out.values.resize(static_cast<size_t>(rows) * size);
      unpack_nibble_rows(packed, static_cast<size_t>(rows), size, reinterpret_cast<int8_t*>(out.values.data()));
      out.dims[0] = static_cast<int32_t>(rows);
    }
    out.has_4_bits = std::find(out.values.begin(), out.values.end(), static_cast<char>(-8)) == out.values.end();
  } else {
    out.values.assign(bytes, static_cast<size_t>(integers.type.max_nbytes()));
  }
  const ir::Constant& given = *constant_of(program, scales);
  const auto* const weight_scales = static_cast<const float*>(given.data);
  const auto in = static_cast<float>(input_scale), to = static_cast<float>(output_scale);
  for (int64_t i = 0; i < given.type.numel(); ++i) {
    out.factors.push_back(in * weight_scales[i] / to);  // in the kernels' order
  }
  if (const ir::Constant* const added = constant_of(program, bias)) {
    const auto* const numbers = static_cast<const int32_t*>(added->data);
    out.bias.assign(numbers, numbers + added->type.numel());
  }
  return out;
}

/// Weights for such activations: in 4 bits where they fit and the specification has those.
TensorId weight_constant(Lowering& lowering, const Product& p, TensorId activations, Shape shape,
                         const std::string& values) {
  PayloadWriter& writer = lowering.writer;
  if (!p.has_4_bits || writer.type_of(activations) != payload::DType_INT8 ||
      !read_target(lowering.compile_specs()).int4) {
    return writer.add_constant(payload::DType_INT8, std::move(shape), values);
  }
  std::string packed((values.size() + 1) / 2, '\0');
  for (size_t i = 0; i < values.size(); ++i) {
    const unsigned nibble = static_cast<unsigned char>(values[i]) & 15u;
    packed[i / 2] = static_cast<char>(static_cast<unsigned char>(packed[i / 2]) | nibble << (i % 2 * 4));
  }
  return writer.add_constant(payload::DType_INT4, std::move(shape), std::move(packed));
}

/// How far sums of an input, at most `reach` from its zero point, times `weights` can be from 0.
int64_t largest_sum(const char* weights, size_t count, int64_t reach, int64_t bias) {
  int64_t sum = 0;
  for (size_t i = 0; i < count; ++i) {
    sum += std::abs(int64_t{static_cast<int8_t>(weights[i])});
  }
  return sum * reach + std::abs(bias);
}

/// Adds the bounds of all output channels, whose `count` weights stand together.
void add_bounds(Product& p, const std::string& values, size_t count, int64_t reach) {
  for (size_t o = 0; o < p.bias.size(); ++o) {
    p.largest.push_back(largest_sum(values.data() + o * count, count, reach, p.bias[o]));
  }
}

/// Factors, one for all where they are equal, and bounds.
Error finish_product(Lowering& lowering, const ir::Node& node, TensorId sums, Product& p, size_t first, size_t count,
                     const Output& output, size_t terms, TensorId* out) {
  const int surplus = surplus_bits(static_cast<int64_t>(terms), kWeightedBits);
  std::vector<float> factors;
  std::vector<int64_t> largest(p.largest.begin() + static_cast<std::ptrdiff_t>(first),
                               p.largest.begin() + static_cast<std::ptrdiff_t>(first + count));
  for (size_t i = 0; i < count; ++i) {
    factors.push_back(p.factors[p.factors.size() == 1 ? 0 : first + i]);
  }
  if (p.factors.size() == 1) {
    factors.resize(1);
    largest = {*std::max_element(largest.begin(), largest.end())};
  }
  return lowering.to_integers(node, sums, factors, largest, output, out, surplus);
}

/// The convolution of each group, side by side. `count`: weights of an output channel; `weights_of`: a group's bytes.
template <typename Weights>
Error emit_groups(Lowering& lowering, const ir::Node& node, Product& p, const Convolution& c, TensorId image,
                  int64_t zero_point, const Output& output, size_t count, const Weights& weights_of) {
  std::vector<TensorId> parts;
  for (const Convolution::Group& group : c.parts()) {
    const TensorId weight = weight_constant(lowering, p, image, c.weight_shape(), weights_of(group));
    const auto first = p.bias.begin() + static_cast<std::ptrdiff_t>(group.first);
    const std::vector<int32_t> bias(first, first + static_cast<std::ptrdiff_t>(group.count));
    TensorId sums =
        c.convolve(lowering, c.part_of(lowering, image, group), weight, lowering.bias(image, bias), zero_point);
    ET_RETURN_IF_ERROR(finish_product(lowering, node, sums, p, group.first, group.count, output, count, &sums));
    parts.push_back(sums);
  }
  lowering.set(node.result(), Form::kImage, lowering.concat(parts, 3));
  return Error::Ok;
}

Error emit_transposed(Lowering& lowering, const ir::Node& node, Product& p, const Convolution& c, int64_t zero_point,
                      const Output& output) {
  const size_t groups = c.parts().size(), size = p.values.size() / groups;
  const size_t count = p.values.size() / static_cast<size_t>(c.out_channels);
  std::string values;  // of each output channel together
  for (size_t group = 0; group < groups; ++group) {
    values += c.arranged_weights(p.values.data() + group * size, 1);
  }
  const TensorId image =
      lowering.get(node.args()[ops::arguments::et_quantized_convolution::kInput].value(), Form::kImage);
  add_bounds(p, values, count, reach_of(lowering.writer.type_of(image), zero_point));
  return emit_groups(lowering, node, p, c, image, zero_point, output, count,
                     [&](const Convolution::Group& group) { return values.substr(group.first * count, size); });
}

}  // namespace

Error emit_convolution(Lowering& lowering, const ir::Node& node) {
  using namespace ops::arguments::et_quantized_convolution;
  const auto& args = node.args();
  Convolution c(node, kConvolutionOfIntegers);
  Product p = read_product(lowering.program(), args[kWeight], args[kWeightScales], args[kBias],
                           c.transposed ? c.in_channels : c.out_channels, *number_of(args[kInputScale]),
                           *number_of(args[kOutputScale]), false);
  p.bias.resize(static_cast<size_t>(c.out_channels), 0);
  const int64_t zero_point = *int_of(args[kInputZeroPoint]);
  const Output output = output_of(node, kOutputZeroPoint);
  if (c.transposed) {
    return emit_transposed(lowering, node, p, c, zero_point, output);
  }
  const size_t count = p.values.size() / static_cast<size_t>(c.out_channels);
  TensorId image = c.cropped(lowering, lowering.get(args[kInput].value(), Form::kImage));
  add_bounds(p, p.values, count, reach_of(lowering.writer.type_of(image), zero_point));
  const Accelerator* device = read_target(lowering.compile_specs()).accelerator;
  if (device != nullptr && c.takes_blocks(device->max_stride)) {
    image = c.blocks_of(lowering, image, zero_point);
    p.values = c.weights_in_blocks(p.values);
    c = c.in_blocks();
  }
  const size_t size = p.values.size() / static_cast<size_t>(c.out_channels);
  return emit_groups(lowering, node, p, c, image, zero_point, output, count, [&](const Convolution::Group& group) {
    return c.arranged_weights(p.values.data() + group.first * size, 1);
  });
}

Error emit_linear(Lowering& lowering, const ir::Node& node) {
  using namespace ops::arguments::et_quantized_linear;
  const auto& args = node.args();
  const ir::TensorType& in = args[kInput].value()->type.tensor;
  const int64_t columns = in.dims.back().max;
  Product p = read_product(lowering.program(), args[kWeight], args[kWeightScales], args[kBias], columns,
                           *number_of(args[kInputScale]), *number_of(args[kOutputScale]), true);
  const int32_t outs = p.dims[0];
  p.bias.resize(static_cast<size_t>(outs), 0);
  const int64_t zero_point = *int_of(args[kInputZeroPoint]);
  const auto rows = static_cast<int32_t>(in.max_numel() / columns);
  const Convolution c = Convolution::of_rows(rows, outs);
  const TensorId image = lowering.reshape(lowering.get(args[kInput].value(), Form::kRowMajor),
                                          {1, rows, 1, static_cast<int32_t>(columns)});
  const auto count = static_cast<size_t>(columns);
  add_bounds(p, p.values, count, reach_of(lowering.writer.type_of(image), zero_point));
  const TensorId weight = weight_constant(lowering, p, image, {outs, 1, 1, static_cast<int32_t>(columns)}, p.values);
  TensorId out = c.convolve(lowering, image, weight, lowering.bias(image, p.bias), zero_point);
  ET_RETURN_IF_ERROR(
      finish_product(lowering, node, out, p, 0, p.bias.size(), output_of(node, kOutputZeroPoint), count, &out));
  lowering.set(node.result(), Form::kRowMajor,
               lowering.reshape(out, Lowering::shape_of(node.result()->type.tensor, Form::kRowMajor)));
  return Error::Ok;
}

Error emit_matmul(Lowering& lowering, const ir::Node& node) {
  using namespace ops::arguments::et_quantized_matmul;
  const auto& args = node.args();
  const auto matrices = [&](size_t i) {
    Shape shape = Lowering::shape_of(args[i].value()->type.tensor, Form::kRowMajor);
    const TensorId id = lowering.get(args[i].value(), Form::kRowMajor);
    if (shape.size() == 2) {
      shape.insert(shape.begin(), 1);
    }
    return lowering.reshape(id, shape);
  };
  const TensorId a = matrices(kSelf), b = matrices(kMat2);
  PayloadWriter& writer = lowering.writer;
  const Shape left = writer.shape_of(a), right = writer.shape_of(b);
  const int64_t a_zero = *int_of(args[kSelfZeroPoint]), b_zero = *int_of(args[kMat2ZeroPoint]);
  const payload::DType type = writer.type_of(a);
  TensorId out = writer.add_tensor(lowering.sum_type(a), {left[0], left[1], right[2]});
  writer.add(payload::Op_MATMUL, payload::CreateMatMulAttribute(writer.builder).Union(),
             {a, b, lowering.scalar(type, a_zero), lowering.scalar(type, b_zero)}, out);
  const float factor = static_cast<float>(*number_of(args[kSelfScale])) *
                       static_cast<float>(*number_of(args[kMat2Scale])) /
                       static_cast<float>(*number_of(args[kOutputScale]));
  const int64_t largest = left[2] * reach_of(type, a_zero) * reach_of(type, b_zero);
  ET_RETURN_IF_ERROR(lowering.to_integers(node, out, {factor}, {largest}, output_of(node, kOutputZeroPoint), &out,
                                          surplus_bits(left[2], kProductBits)));
  lowering.set(node.result(), Form::kRowMajor,
               lowering.reshape(out, Lowering::shape_of(node.result()->type.tensor, Form::kRowMajor)));
  return Error::Ok;
}

}  // namespace et::backends::tosa::compiler
