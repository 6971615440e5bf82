#include "backends/tosa/compiler/lowering.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "backends/tosa/compiler/op_support.h"
#include "base/half.h"
#include "passes/rewrite.h"

namespace et::backends::tosa::compiler {
namespace {

/// True when the image form has the elements in the same order: one channel, or one pixel.
bool is_same_memory(const ir::TensorType& type) {
  const bool one_pixel =
      std::all_of(type.dims.begin() + 2, type.dims.end(), [](const ir::Dim& dim) { return dim.max == 1; });
  return one_pixel || type.dims[1].max == 1;
}

template <typename T, typename Number>
std::string bytes_of(const std::vector<Number>& numbers) {
  std::string out;
  for (const Number number : numbers) {
    const auto value = static_cast<T>(number);
    out.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  return out;
}

std::string bytes_of_48_bits(const std::vector<int64_t>& numbers) {
  std::string out;
  for (const int64_t number : numbers) {
    out.append(reinterpret_cast<const char*>(&number), 6);  // little-endian, as the file
  }
  return out;
}

/// A transposition of more than four axes without axes of one element, and with axes that stay neighbours as one: Vela
/// makes many copies otherwise. Up to four axes stay: an image of one row is far slower on Ethos-U85.
struct MergedTranspose {
  Shape shape;
  std::vector<int32_t> perms;
};
MergedTranspose merge_axes(const Shape& shape, const std::vector<int32_t>& perms) {
  constexpr size_t kOwnAxes = 4;
  if (perms.size() <= kOwnAxes) {
    return {shape, perms};
  }
  std::vector<int32_t> kept;  // in the result's order
  std::copy_if(perms.begin(), perms.end(), std::back_inserter(kept),
               [&](int32_t dim) { return shape[static_cast<size_t>(dim)] != 1; });
  std::map<int32_t, int32_t> sizes;  // first axis of each group -> its elements
  std::vector<int32_t> firsts;
  int32_t last = -1;
  for (const int32_t dim : kept) {
    // Neighbours: only axes of one element stand between them.
    const bool follows =
        last >= 0 && last < dim &&
        std::all_of(shape.begin() + last + 1, shape.begin() + dim, [](int32_t size) { return size == 1; });
    if (!follows) {
      firsts.push_back(dim);
      sizes[dim] = 1;
    }
    sizes[firsts.back()] *= shape[static_cast<size_t>(dim)];
    last = dim;
  }
  MergedTranspose out;
  for (const auto& [first, size] : sizes) {
    out.shape.push_back(size);
  }
  for (const int32_t first : firsts) {
    out.perms.push_back(static_cast<int32_t>(std::distance(sizes.begin(), sizes.find(first))));
  }
  return out;
}

std::string bytes_of_floats(payload::DType type, const std::vector<float>& numbers) {
  switch (type) {
    case payload::DType_FP16: return bytes_of<Half>(numbers);
    case payload::DType_BF16: return bytes_of<BFloat16>(numbers);
    default: return bytes_of<float>(numbers);
  }
}

std::string bytes_as(payload::DType type, const std::vector<int64_t>& numbers) {
  switch (type) {
    case payload::DType_INT8: return bytes_of<int8_t>(numbers);
    case payload::DType_INT16: return bytes_of<int16_t>(numbers);
    case payload::DType_INT48: return bytes_of_48_bits(numbers);
    case payload::DType_INT32: return bytes_of<int32_t>(numbers);
    default: return bytes_of_floats(type, std::vector<float>(numbers.begin(), numbers.end()));
  }
}

}  // namespace

int64_t reach_of(payload::DType type, int64_t zero_point) {
  const int64_t highest = type == payload::DType_INT16 ? INT16_MAX : INT8_MAX;
  return std::max(zero_point + highest + 1, highest - zero_point);
}

Error Lowering::refuse(const ir::Node& node, std::string why) {
  return ir::diagnose(diagnostics_, Error::NotSupported, part_.graph, &node,
                      "the TOSA backend " + std::move(why) + "; the partitioner should not have taken it");
}

Error Lowering::run(passes::BackendPayload& out) {
  std::vector<TensorId> inputs, outputs;
  for (const auto& input : graph_.inputs()) {
    if (!input->type.is_tensor()) {
      return ir::diagnose(diagnostics_, Error::NotSupported, part_.graph, nullptr,
                          "the TOSA backend takes tensors only, input " + input->name + " is none");
    }
    inputs.push_back(
        writer.add_tensor(type_of(input->type.tensor.dtype), shape_of(input->type.tensor, Form::kRowMajor)));
    set(input.get(), Form::kRowMajor, inputs.back());
  }
  for (const auto& node : graph_.nodes()) {
    if (node->op == "constant") {
      continue;
    }
    const OperatorRow* row = find_operator(node->op);
    if (row == nullptr) {
      return refuse(*node, "has no such operator");
    }
    writer.set_source(*node);
    ET_RETURN_IF_ERROR(row->emit(*this, *node));
  }
  std::set<TensorId> taken(inputs.begin(), inputs.end());
  for (const ir::Output& output : graph_.outputs) {
    TensorId id = get(output.value(), Form::kRowMajor);
    if (!taken.insert(id).second) {  // an input, or an output already
      const TensorId own = writer.add_tensor(writer.type_of(id), writer.shape_of(id));
      writer.add(payload::Op_IDENTITY, payload::CreateIdentityAttribute(writer.builder).Union(), {id}, own);
      id = own;
    }
    outputs.push_back(id);
  }
  out.bytes = writer.finish(inputs, outputs);
  return Error::Ok;
}

payload::DType Lowering::type_of(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Char: return payload::DType_INT8;
    case ScalarType::Short: return payload::DType_INT16;
    case ScalarType::Int: return payload::DType_INT32;
    case ScalarType::Bool: return payload::DType_BOOL;
    case ScalarType::Half: return payload::DType_FP16;
    case ScalarType::BFloat16: return payload::DType_BF16;
    default: return payload::DType_FP32;
  }
}

Shape Lowering::shape_of(const ir::TensorType& type, Form form) {
  Shape out;
  for (const ir::Dim& dim : type.dims) {
    out.push_back(static_cast<int32_t>(dim.max));
  }
  if (form == Form::kImage) {
    if (out.size() == 3) {
      out.insert(out.begin() + 2, 1);
    }
    std::rotate(out.begin() + 1, out.begin() + 2, out.end());
  }
  return out;
}

int32_t Lowering::axis_in(Form form, size_t rank, size_t d) {
  if (form == Form::kRowMajor || d == 0) {
    return static_cast<int32_t>(d);
  }
  return d == 1 ? 3 : static_cast<int32_t>(rank == 3 ? d : d - 1);
}

bool Lowering::has(const ir::Value* value, Form form) const {
  const auto found = forms_.find(value);
  return found != forms_.end() && found->second.ids[static_cast<size_t>(form)] != kNoTensor;
}

Form Lowering::form_of(const ir::Value* value) const {
  return !has(value, Form::kRowMajor) && has(value, Form::kImage) ? Form::kImage : Form::kRowMajor;
}

void Lowering::set(const ir::Value* value, Form form, TensorId tensor) {
  forms_[value].ids[static_cast<size_t>(form)] = tensor;
}

TensorId Lowering::get(const ir::Value* value, Form form) {
  TensorId& id = forms_[value].ids[static_cast<size_t>(form)];
  return id != kNoTensor ? id : id = convert(value, form);
}

TensorId Lowering::convert(const ir::Value* value, Form form) {
  const ir::TensorType& type = value->type.tensor;
  const Shape shape = shape_of(type, form);
  const Form other = form == Form::kImage ? Form::kRowMajor : Form::kImage;
  if (!has(value, other)) {  // a constant
    const ir::Constant* constant = passes::constant_of(program_, ir::Argument{const_cast<ir::Value*>(value)});
    const auto* const bytes = static_cast<const char*>(constant->data);
    const std::vector<size_t> perm = type.rank() == 3 ? std::vector<size_t>{0, 2, 1} : std::vector<size_t>{0, 2, 3, 1};
    return writer.add_constant(type_of(type.dtype), shape,
                               form == Form::kImage ? passes::permuted_bytes(*constant, perm)
                                                    : std::string(bytes, static_cast<size_t>(type.max_nbytes())));
  }
  const TensorId from = get(value, other);
  if (is_same_memory(type)) {
    return reshape(from, shape);
  }
  if (form == Form::kImage) {
    return type.rank() == 4 ? transpose(from, {0, 2, 3, 1}) : reshape(transpose(from, {0, 2, 1}), shape);
  }
  if (type.rank() == 4) {
    return transpose(from, {0, 3, 1, 2});
  }
  return transpose(reshape(from, {shape[0], shape[2], shape[1]}), {0, 2, 1});
}

TensorId Lowering::reshape(TensorId from, const Shape& shape) {
  if (writer.shape_of(from) == shape) {
    return from;
  }
  const TensorId sizes = writer.add_shape(std::vector<int64_t>(shape.begin(), shape.end()));
  const TensorId out = writer.add_tensor(writer.type_of(from), shape);
  writer.add(payload::Op_RESHAPE, payload::CreateReshapeAttribute(writer.builder).Union(), {from, sizes}, out);
  return out;
}

TensorId Lowering::transpose(TensorId from, const std::vector<int32_t>& perms) {
  const Shape shape = writer.shape_of(from);
  Shape result;
  for (const int32_t dim : perms) {
    result.push_back(shape[static_cast<size_t>(dim)]);
  }
  const MergedTranspose merged = merge_axes(shape, perms);
  if (std::is_sorted(merged.perms.begin(), merged.perms.end())) {
    return reshape(from, result);
  }
  const TensorId in = reshape(from, merged.shape);
  Shape moved;
  for (const int32_t dim : merged.perms) {
    moved.push_back(merged.shape[static_cast<size_t>(dim)]);
  }
  const TensorId out = writer.add_tensor(writer.type_of(in), moved);
  const auto attribute = payload::CreateTransposeAttributeDirect(writer.builder, &merged.perms);
  writer.add(payload::Op_TRANSPOSE, attribute.Union(), {in}, out);
  return reshape(out, result);
}

TensorId Lowering::slice(TensorId from, const std::vector<int64_t>& start, const Shape& size) {
  if (writer.shape_of(from) == size) {
    return from;
  }
  const TensorId starts = writer.add_shape(start);
  const TensorId sizes = writer.add_shape(std::vector<int64_t>(size.begin(), size.end()));
  const TensorId out = writer.add_tensor(writer.type_of(from), size);
  writer.add(payload::Op_SLICE, payload::CreateSliceAttribute(writer.builder).Union(), {from, starts, sizes}, out);
  return out;
}

TensorId Lowering::pad(TensorId from, const std::vector<int64_t>& pairs, TensorId filling) {
  Shape shape = writer.shape_of(from);
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    shape[axis] += static_cast<int32_t>(pairs[2 * axis] + pairs[2 * axis + 1]);
  }
  if (shape == writer.shape_of(from)) {
    return from;
  }
  const TensorId paddings = writer.add_shape(pairs);
  const TensorId out = writer.add_tensor(writer.type_of(from), shape);
  writer.add(payload::Op_PAD, payload::CreatePadAttribute(writer.builder).Union(), {from, paddings, filling}, out);
  return out;
}

TensorId Lowering::tile(TensorId from, const std::vector<int64_t>& times) {
  Shape shape = writer.shape_of(from);
  for (size_t d = 0; d < shape.size(); ++d) {
    shape[d] *= static_cast<int32_t>(times[d]);
  }
  if (shape == writer.shape_of(from)) {
    return from;
  }
  const TensorId multiples = writer.add_shape(times);
  const TensorId out = writer.add_tensor(writer.type_of(from), shape);
  writer.add(payload::Op_TILE, payload::CreateTileAttribute(writer.builder).Union(), {from, multiples}, out);
  return out;
}

TensorId Lowering::every(TensorId from, size_t axis, int64_t step) {
  if (step == 1) {
    return from;
  }
  // The first of each group of `step`; the last group is filled up.
  Shape shape = writer.shape_of(from);
  std::vector<int64_t> pairs(shape.size() * 2, 0);
  pairs[2 * axis + 1] = (step - shape[axis] % step) % step;
  from = pad(from, pairs, scalar(writer.type_of(from), 0));
  shape[axis] = static_cast<int32_t>((shape[axis] + pairs[2 * axis + 1]) / step);
  Shape groups = {1, shape[axis], static_cast<int32_t>(step), 1};
  for (size_t d = 0; d < shape.size(); ++d) {
    groups[d < axis ? 0 : 3] *= d == axis ? 1 : shape[d];
  }
  from = reshape(from, groups);
  groups[2] = 1;
  return reshape(slice(from, {0, 0, 0, 0}, groups), shape);
}

TensorId Lowering::crop(TensorId image, int64_t rows, int64_t columns) {
  Shape size = writer.shape_of(image);
  size[1] -= static_cast<int32_t>(rows);
  size[2] -= static_cast<int32_t>(columns);
  return slice(image, {0, 0, 0, 0}, size);
}

TensorId Lowering::concat(const std::vector<TensorId>& parts, int32_t axis) {
  if (parts.size() == 1) {
    return parts.front();
  }
  Shape shape = writer.shape_of(parts.front());
  int32_t& joined = shape[static_cast<size_t>(axis)];
  joined = 0;
  for (const TensorId part : parts) {
    joined += writer.shape_of(part)[static_cast<size_t>(axis)];
  }
  const TensorId out = writer.add_tensor(writer.type_of(parts.front()), shape);
  writer.add(payload::Op_CONCAT, payload::CreateConcatAttribute(writer.builder, axis).Union(), parts, out);
  return out;
}

TensorId Lowering::scalar(payload::DType type, int64_t value) {
  return writer.add_constant(type, {1}, bytes_as(type, {value}));
}

TensorId Lowering::reals(payload::DType type, Shape shape, const std::vector<double>& values) {
  return writer.add_constant(type, std::move(shape),
                             bytes_of_floats(type, std::vector<float>(values.begin(), values.end())));
}

TensorId Lowering::rescale(TensorId from, payload::DType type, const std::vector<Rescale>& factors, int64_t in_zero,
                           int64_t out_zero) {
  const bool is_48 = writer.type_of(from) == payload::DType_INT48;  // then multipliers have 16 bits
  std::vector<int64_t> multipliers;
  std::vector<int8_t> shifts;
  for (const Rescale& factor : factors) {
    multipliers.push_back(factor.multiplier);
    shifts.push_back(factor.shift);
  }
  const auto count = static_cast<int32_t>(factors.size());
  const payload::DType scale_type = is_48 ? payload::DType_INT16 : payload::DType_INT32;
  const TensorId multiplier = writer.add_constant(scale_type, {count}, bytes_as(scale_type, multipliers));
  const TensorId shift = writer.add_numbers(payload::DType_INT8, {count}, shifts);
  const TensorId in = scalar(writer.type_of(from), in_zero), out_of = scalar(type, out_zero);
  const TensorId out = writer.add_tensor(type, writer.shape_of(from));
  const auto attribute = payload::CreateRescaleAttribute(writer.builder, !is_48, payload::RoundingMode_SINGLE_ROUND,
                                                         count > 1, false, false);
  writer.add(payload::Op_RESCALE, attribute.Union(), {from, multiplier, shift, in, out_of}, out);
  return out;
}

TensorId Lowering::widen(TensorId from, int64_t zero_point) {
  return rescale(from, payload::DType_INT32, {Rescale{1 << 30, 30}}, zero_point, 0);
}

TensorId Lowering::clamp(TensorId from, const Output& output) {
  const payload::DType type = writer.type_of(from);
  const int64_t lowest_of_type = type == payload::DType_INT16 ? INT16_MIN : INT8_MIN;
  if (output.min <= lowest_of_type && output.max >= -1 - lowest_of_type) {
    return from;
  }
  return clamp_to(from, bytes_as(type, {output.min}), bytes_as(type, {output.max}));
}

TensorId Lowering::clamp(TensorId from, double low, double high) {
  const payload::DType type = writer.type_of(from);
  return clamp_to(from, bytes_of_floats(type, {static_cast<float>(low)}),
                  bytes_of_floats(type, {static_cast<float>(high)}));
}

TensorId Lowering::clamp_to(TensorId from, const std::string& low, const std::string& high) {
  const auto bytes = [&](const std::string& text) {
    writer.builder.ForceVectorAlignment(text.size(), 1, 8);
    return writer.builder.CreateVector(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  };
  const auto lowest = bytes(low);
  const auto highest = bytes(high);
  const TensorId out = writer.add_tensor(writer.type_of(from), writer.shape_of(from));
  const auto attribute =
      payload::CreateClampAttribute(writer.builder, lowest, highest, payload::NanPropagationMode_PROPAGATE);
  writer.add(payload::Op_CLAMP, attribute.Union(), {from}, out);
  return out;
}

payload::DType Lowering::sum_type(TensorId activations) const {
  switch (writer.type_of(activations)) {
    case payload::DType_INT8: return payload::DType_INT32;
    case payload::DType_INT16: return payload::DType_INT48;
    default: return writer.type_of(activations);
  }
}

payload::DType Lowering::accumulator(TensorId activations) const {
  const payload::DType type = sum_type(activations);
  return type == payload::DType_FP16 || type == payload::DType_BF16 ? payload::DType_FP32 : type;
}

TensorId Lowering::bias(TensorId activations, const std::vector<int32_t>& values) {
  const payload::DType type = sum_type(activations);
  return writer.add_constant(type, {static_cast<int32_t>(values.size())},
                             bytes_as(type, std::vector<int64_t>(values.begin(), values.end())));
}

Error Lowering::to_integers(const ir::Node& node, TensorId sums, const std::vector<float>& factors,
                            const std::vector<int64_t>& largest, const Output& output, TensorId* out, int surplus) {
  if (node.result()->type.tensor.dtype == ScalarType::Short) {
    return to_16_bits(node, sums, factors, *std::max_element(largest.begin(), largest.end()), surplus, output, out);
  }
  std::vector<Rescale> rescales;
  for (size_t i = 0; i < factors.size(); ++i) {
    const int64_t most = std::min<int64_t>(largest[largest.size() == 1 ? 0 : i], INT32_MAX);
    const auto factor =
        matching_rescale({factors[i], output.min - output.zero_point, output.max - output.zero_point, most});
    if (!factor) {
      return refuse(node, "cannot rescale by " + std::to_string(factors[i]));
    }
    rescales.push_back(*factor);
  }
  *out = clamp(rescale(sums, payload::DType_INT8, rescales, 0, output.zero_point), output);
  return Error::Ok;
}

Error Lowering::to_16_bits(const ir::Node& node, TensorId sums, const std::vector<float>& factors, int64_t largest,
                           int surplus, const Output& output, TensorId* out) {
  if (writer.type_of(sums) == payload::DType_INT48) {  // a multiplier of INT48 has 16 bits: too few for a scale
    sums = rescale(sums, payload::DType_INT32, {Rescale{1 << 14, static_cast<int8_t>(14 + surplus)}}, 0, 0);
  }
  std::vector<Rescale> rescales;
  int64_t reach = INT32_MAX;
  for (const float factor : factors) {
    const auto exact = exact_rescale(std::ldexp(factor, surplus));
    if (!exact) {
      return refuse(node, "cannot rescale by " + std::to_string(factor));
    }
    rescales.push_back(*exact);
    reach = std::min(reach, reach_of(*exact));
  }
  if (reach < largest >> surplus) {
    const Shape shape = writer.shape_of(sums);
    const auto bound = [&](payload::Op op, int64_t value) {
      sums = binary(op, sums,
                    writer.add_numbers(payload::DType_INT32, Shape(shape.size(), 1),
                                       std::vector<int32_t>{static_cast<int32_t>(value)}),
                    shape);
    };
    bound(payload::Op_MINIMUM, reach);
    bound(payload::Op_MAXIMUM, -reach);
  }
  *out = clamp(rescale(sums, payload::DType_INT16, rescales, 0, output.zero_point), output);
  return Error::Ok;
}

TensorId Lowering::binary(payload::Op op, TensorId a, TensorId b, const Shape& shape, int shift) {
  const bool compares = op == payload::Op_EQUAL || op == payload::Op_GREATER || op == payload::Op_GREATER_EQUAL;
  const TensorId out = writer.add_tensor(compares ? payload::DType_BOOL : writer.type_of(a), shape);
  std::vector<TensorId> inputs = {a, b};
  flatbuffers::Offset<void> attribute;
  if (op == payload::Op_MUL) {
    inputs.push_back(scalar(payload::DType_INT8, shift));
  }
  if (op == payload::Op_MAXIMUM) {
    attribute = payload::CreateMaximumAttribute(writer.builder, payload::NanPropagationMode_PROPAGATE).Union();
  } else if (op == payload::Op_MINIMUM) {
    attribute = payload::CreateMinimumAttribute(writer.builder, payload::NanPropagationMode_PROPAGATE).Union();
  } else {
    attribute = writer.no_content();
  }
  writer.add(op, attribute, inputs, out);
  return out;
}

}  // namespace et::backends::tosa::compiler
