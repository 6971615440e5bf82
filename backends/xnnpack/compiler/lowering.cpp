#include "backends/xnnpack/compiler/lowering.h"

#include <algorithm>
#include <numeric>

#include "backends/xnnpack/compiler/op_support.h"
#include "base/half.h"
#include "ir/op_views.h"
#include "ops/names.h"

namespace et::backends::xnnpack {
namespace {

/// The handle of nodes that only change a layout, as other writers of the format give it.
constexpr uint32_t kLayoutHandle = 65535;

bool is_dequantize(const ir::Node& node) { return node.op == op::quantized_decomposed_dequantize_per_tensor; }

/// True when the image form is the same bytes, one channel or one pixel, and a reshape can say so.
bool is_same_memory(const ir::TensorType& type) {
  const auto dynamic =
      std::count_if(type.dims.begin(), type.dims.end(), [](const ir::Dim& d) { return !d.is_static(); });
  if (dynamic > 1) {
    return false;
  }
  const auto is_one = [](const ir::Dim& dim) { return dim.is_static() && dim.max == 1; };
  bool one_pixel = true;
  for (size_t d = 2; d < type.rank(); ++d) {
    one_pixel = one_pixel && is_one(type.dims[d]);
  }
  return one_pixel || is_one(type.dims[1]);
}

}  // namespace

Error Lowering::refuse(const ir::Node& node, std::string why) {
  return ir::diagnose(diagnostics_, Error::NotSupported, part_.graph, &node,
                      "the XNNPACK delegate " + std::move(why) + "; the partitioner should not have taken it");
}

Error Lowering::run(passes::BackendPayload& out) {
  add_inputs(out);
  for (const auto& node : part_.graph.nodes()) {
    if (node->op == "constant" || done_.count(node.get()) != 0) {
      continue;
    }
    const OperatorRow* row = find_operator(node->op);
    if (row == nullptr) {
      return refuse(*node, "has no such operator");
    }
    current_ = node.get();
    ET_RETURN_IF_ERROR(row->emit(*this, *node));
  }
  ET_RETURN_IF_ERROR(add_outputs());
  say_handles(out);
  writer.finish(input_ids_, output_ids_, out);
  return Error::Ok;
}

/// Each node goes to the payload's node that does it. That is its own, or that of the node that took it along. A
/// dequantize or a constant's permutation goes to a node which reads it, what is left to the one that it reads.
void Lowering::say_handles(passes::BackendPayload& out) const {
  std::map<const ir::Node*, const ir::Node*> owners;
  const auto owner_of = [&](const ir::Node* node) {
    const auto found = owners.find(node);
    return found == owners.end() ? nullptr : found->second;
  };
  const auto& nodes = part_.graph.nodes();
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    const auto taken = done_.find(node->get());
    if (writer.has_handle((*node)->debug_handle)) {
      owners[node->get()] = node->get();
    } else if (taken != done_.end() && writer.has_handle(taken->second->debug_handle)) {
      owners[node->get()] = taken->second;
    }
    for (const auto& result : (*node)->results()) {
      for (const ir::Node* user : result->users()) {
        if (owner_of(node->get()) == nullptr && owner_of(user) != nullptr) {
          owners[node->get()] = owner_of(user);
        }
      }
    }
  }
  for (const auto& node : nodes) {
    node->for_each_input([&](ir::Value* value) {
      if (owner_of(node.get()) == nullptr && value->producer() != nullptr && owner_of(value->producer()) != nullptr) {
        owners[node.get()] = owner_of(value->producer());
      }
    });
    if (const ir::Node* const owner = owner_of(node.get()); owner == node.get()) {
      std::vector<uint32_t>& handles = out.debug_handles[owner->debug_handle];
      handles.insert(handles.begin(), owner->debug_handle);
    } else if (owner != nullptr) {
      out.debug_handles[owner->debug_handle].push_back(node->debug_handle);
    }
  }
}

void Lowering::add_inputs(passes::BackendPayload& out) {
  uint32_t position = 0;
  for (const auto& input : part_.graph.inputs()) {
    if (!input->type.is_tensor()) {
      out.dropped_inputs.push_back(input->result_index());  // a size, which the runtime half sees in the tensors
      continue;
    }
    for (const ir::Node* user : input->users()) {
      if (is_dequantize(*user)) {
        const ops::QuantizedDecomposedDequantizePerTensor call(*user);
        parameters_[input.get()] = {static_cast<float>(*passes::number_of(call.scale())),
                                    static_cast<int32_t>(*passes::int_of(call.zero_point()))};
      }
    }
    const uint32_t id = writer.add_value(spec_of(input.get(), Form::kRowMajor), position++, kExternalInput);
    forms_[input.get()].ids[0] = id;
    input_ids_.push_back(id);
  }
  for (const ir::Output& output : part_.graph.outputs) {
    external_.emplace(output.value(), position++);
  }
}

Error Lowering::add_outputs() {
  for (const ir::Output& output : part_.graph.outputs) {
    const ir::Value* value = output.value();
    const uint32_t id = id_of(value, Form::kRowMajor);
    if (is_written_.count(value) != 0) {
      output_ids_.push_back(id);
      continue;
    }
    // Another name of something that exists: an input, or another output.
    const uint32_t own = writer.add_value(spec_of(value, Form::kRowMajor), external_.at(value), kExternalOutput);
    writer.add_unary(payload::NodeUnion_Copy, id, own, kLayoutHandle);
    output_ids_.push_back(own);
  }
  return Error::Ok;
}

payload::Datatype Lowering::datatype_of(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Half: return payload::Datatype_fp16;
    case ScalarType::Char: return payload::Datatype_qint8;
    case ScalarType::Byte: return payload::Datatype_quint8;
    default: return payload::Datatype_fp32;
  }
}

std::vector<uint32_t> Lowering::dims_of(const ir::TensorType& type, Form form) {
  std::vector<uint32_t> dims;
  for (const ir::Dim& dim : type.dims) {
    dims.push_back(static_cast<uint32_t>(dim.max));
  }
  if (form == Form::kRowMajor) {
    return dims;
  }
  return dims.size() == 3 ? std::vector<uint32_t>{dims[0], 1, dims[2], dims[1]}
                          : std::vector<uint32_t>{dims[0], dims[2], dims[3], dims[1]};
}

std::vector<uint32_t> Lowering::shape_of(const ir::TensorType& type, Form form) {
  ir::TensorType open = type;
  for (ir::Dim& dim : open.dims) {
    dim = dim.is_static() ? dim : ir::Dim(0);
  }
  return dims_of(open, form);
}

ValueSpec Lowering::spec_of(const ir::Value* value, Form form) const {
  ValueSpec spec;
  spec.datatype = datatype_of(value->type.tensor.dtype);
  spec.dims = dims_of(value->type.tensor, form);
  if (const AffineParameters* own = parameters(value)) {
    spec.quant.scale = own->scale;
    spec.quant.zero_point = own->zero_point;
  }
  return spec;
}

bool Lowering::has(const ir::Value* value, Form form) const {
  if (passes::constant_of(part_.program, value) != nullptr) {
    const size_t rank = value->type.tensor.rank();  // lines and images can be written either way
    return form == Form::kRowMajor || rank == 3 || rank == 4;
  }
  const auto found = forms_.find(value);
  return found != forms_.end() && found->second.ids[static_cast<size_t>(form)] != kInvalidId;
}

Form Lowering::form_of(const ir::Value* value) const {
  const ir::Value* source = dequantized(value) != nullptr ? integers(value) : value;
  return has(source, Form::kImage) || has(value, Form::kImage) ? Form::kImage : Form::kRowMajor;
}

uint32_t Lowering::define(const ir::Value* value, Form form) {
  const auto external = form == Form::kRowMajor ? external_.find(value) : external_.end();
  const ValueSpec spec = spec_of(value, form);
  uint32_t id;
  if (external != external_.end()) {
    id = writer.add_value(spec, external->second, kExternalOutput);
    is_written_.insert(value);
  } else {
    id = writer.add_value(spec);
  }
  forms_[value].ids[static_cast<size_t>(form)] = id;
  return id;
}

void Lowering::rename(const ir::Value* value, Form form, uint32_t id) {
  forms_[value].ids[static_cast<size_t>(form)] = id;
}

uint32_t Lowering::define_hidden(payload::Datatype datatype, std::vector<uint32_t> dims) {
  ValueSpec spec;
  spec.datatype = datatype;
  spec.dims = std::move(dims);
  return writer.add_value(spec);
}

void Lowering::reshape(uint32_t from, uint32_t to, const std::vector<uint32_t>& shape, uint32_t debug_handle) {
  const auto count = static_cast<uint32_t>(shape.size());
  writer.add_node(payload::NodeUnion_StaticReshape,
                  payload::CreateReshapeDirect(writer.builder, count, &shape, from, to), debug_handle);
}

void Lowering::transpose(uint32_t from, uint32_t to, const std::vector<uint32_t>& perm, uint32_t debug_handle) {
  const auto count = static_cast<uint32_t>(perm.size());
  writer.add_node(payload::NodeUnion_StaticTranspose,
                  payload::CreateTransposeDirect(writer.builder, count, &perm, from, to), debug_handle);
}

uint32_t Lowering::id_of(const ir::Value* value, Form form) {
  const uint32_t known = forms_[value].ids[static_cast<size_t>(form)];
  if (known != kInvalidId) {
    return known;
  }
  if (const ir::Constant* constant = passes::constant_of(part_.program, value)) {
    return forms_[value].ids[static_cast<size_t>(form)] = add_constant(value, *constant, form);
  }
  if (dequantized(value) != nullptr && !has(value, Form::kRowMajor) && !has(value, Form::kImage)) {
    const uint32_t from = id_of(integers(value), form);  // a reader wants numbers: convert
    const uint32_t to = define(value, form);
    writer.add_unary(payload::NodeUnion_Convert, from, to, value->producer()->debug_handle);
    return to;
  }
  return convert(value, form);
}

uint32_t Lowering::convert(const ir::Value* value, Form form) {
  const bool to_image = form == Form::kImage;
  const uint32_t from = forms_[value].ids[to_image ? 0 : 1];
  const ir::TensorType& type = value->type.tensor;
  if (is_same_memory(type)) {
    const uint32_t to = define(value, form);
    reshape(from, to, shape_of(type, form), kLayoutHandle);
    return to;
  }
  if (type.rank() == 4) {
    const uint32_t to = define(value, form);
    transpose(from, to, to_image ? std::vector<uint32_t>{0, 2, 3, 1} : std::vector<uint32_t>{0, 3, 1, 2},
              kLayoutHandle);
    return to;
  }
  // [N, C, L] <-> [N, L, C] <-> [N, 1, L, C]
  ValueSpec between = spec_of(value, Form::kRowMajor);
  std::swap(between.dims[1], between.dims[2]);
  const uint32_t middle = define_hidden(between);
  const uint32_t to = define(value, form);
  if (to_image) {
    transpose(from, middle, {0, 2, 1}, kLayoutHandle);
    reshape(middle, to, shape_of(type, form), kLayoutHandle);
  } else {
    const auto open = shape_of(type, Form::kRowMajor);
    reshape(from, middle, {open[0], open[2], open[1]}, kLayoutHandle);
    transpose(middle, to, {0, 2, 1}, kLayoutHandle);
  }
  return to;
}

uint32_t Lowering::add_constant(const ir::Value* value, const ir::Constant& constant, Form form) {
  std::vector<size_t> perm(constant.type.rank());
  std::iota(perm.begin(), perm.end(), size_t{0});
  if (form == Form::kImage) {
    std::rotate(perm.begin() + 1, perm.begin() + 2, perm.end());  // channels last
  }
  ValueSpec spec = spec_of(value, form);
  spec.external_file = passes::external_file_of(program(), value);
  return writer.add_constant(spec, passes::permuted_bytes(constant, perm));
}

uint32_t Lowering::operand_constant(const ir::Value* value, Form form, size_t rank) {
  if (form == Form::kRowMajor) {
    return id_of(value, form);
  }
  ir::Constant padded = *passes::constant_of(part_.program, value);
  padded.type.dims.insert(padded.type.dims.begin(), rank - padded.type.rank(), ir::Dim(1));
  std::vector<size_t> perm(rank);
  std::iota(perm.begin(), perm.end(), size_t{0});
  std::rotate(perm.begin() + 1, perm.begin() + 2, perm.end());
  ValueSpec spec;
  spec.datatype = datatype_of(padded.type.dtype);
  spec.dims = dims_of(padded.type, form);
  spec.external_file = passes::external_file_of(program(), value);
  return writer.add_constant(spec, passes::permuted_bytes(padded, perm));
}

uint32_t Lowering::scalar(const ir::TensorType& like, double value) {
  ValueSpec spec;
  spec.datatype = datatype_of(like.dtype);
  spec.dims.assign(like.rank() == 0 ? 0 : 1, 1);  // one dim more would give a number's result that dim
  std::string bytes;
  if (like.dtype == ScalarType::Half) {
    const Half half(static_cast<float>(value));
    bytes.assign(reinterpret_cast<const char*>(&half), sizeof(half));
  } else {
    const auto number = static_cast<float>(value);
    bytes.assign(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  return writer.add_constant(spec, std::move(bytes));
}

Lowering::Tail Lowering::take_clamps(const ir::Node& node) {
  Tail tail{node.result(), std::nullopt};
  passes::Clamp all;
  while (tail.result->users().size() == 1 && external_.count(tail.result) == 0) {
    const ir::Node* user = tail.result->users().front();
    const std::optional<passes::Clamp> next = passes::clamp_of(*user);
    if (!next) {
      break;
    }
    all = all.then(*next);
    tail.clamp = in_floats(all);
    skip(user);
    tail.result = user->result();
  }
  return tail;
}

uint32_t Lowering::swapped(const ir::Value* value) const {
  const auto found = swapped_.find(value);
  return found == swapped_.end() ? kInvalidId : found->second;
}

const AffineParameters* Lowering::parameters(const ir::Value* integers) const {
  const auto found = parameters_.find(integers);
  return found == parameters_.end() ? nullptr : &found->second;
}

const ir::Value* Lowering::integers(const ir::Value* value) const {
  const ir::Node* producer = value->producer();
  return producer != nullptr && is_dequantize(*producer) ? producer->args()[0].value() : nullptr;
}

const AffineParameters* Lowering::dequantized(const ir::Value* value) const {
  const ir::Value* source = value == nullptr ? nullptr : integers(value);
  return source == nullptr ? nullptr : parameters(source);
}

const ir::Node* Lowering::quantize_behind(const ir::Value* result) const {
  if (result->users().size() != 1 || external_.count(result) != 0) {
    return nullptr;
  }
  const ir::Node* user = result->users().front();
  return user->op == op::quantized_decomposed_quantize_per_tensor ? user : nullptr;
}

}  // namespace et::backends::xnnpack
