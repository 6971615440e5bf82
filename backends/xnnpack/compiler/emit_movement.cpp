#include <algorithm>

#include "backends/xnnpack/compiler/emitters.h"
#include "backends/xnnpack/compiler/quantization.h"
#include "ir/op_views.h"
#include "ops/names.h"

namespace et::backends::xnnpack {
namespace {

using passes::int_of;
using passes::ints_of;
using payload::NodeUnion;

/// Position of dimension `dim` of the IR in a form.
size_t position_in(size_t dim, size_t rank, Form form) {
  if (form == Form::kRowMajor || dim == 0) {
    return dim;
  }
  return dim == 1 ? 3 : rank == 4 ? dim - 1 : 2;  // [N, C, L] is [N, 1, L, C]
}

size_t dim_of(const ir::Argument& argument, size_t rank) {
  const int64_t dim = int_of(argument).value_or(0);
  return static_cast<size_t>(dim < 0 ? dim + static_cast<int64_t>(rank) : dim);
}

Form movement_form(const Lowering& lowering, const ir::Value* value) {
  const size_t rank = value->type.tensor.rank();
  return (rank == 3 || rank == 4) && lowering.form_of(value) == Form::kImage ? Form::kImage : Form::kRowMajor;
}

/// [N, C, H, W] and [N, C, H * W], in image form the same elements in the same order.
bool same_pixels(const ir::TensorType& image, const ir::TensorType& line) {
  if (image.rank() != 4 || line.rank() != 3 || !image.dims[1].is_static() || !(image.dims[1] == line.dims[1])) {
    return false;
  }
  const bool same_batch = image.dims[0].is_static() && image.dims[0] == line.dims[0];
  return same_batch || (image.dims[2].is_static() && image.dims[3].is_static() && line.dims[2].is_static() &&
                        image.dims[2].max * image.dims[3].max == line.dims[2].max);
}

/// Sizes that a reshape can say.
bool is_one_dynamic(const ir::TensorType& type) {
  return std::count_if(type.dims.begin(), type.dims.end(), [](const ir::Dim& dim) { return !dim.is_static(); }) <= 1;
}

/// A permutation of [N, C, L] to [N, L, C], the image form's order, or back.
bool swaps_channels(const ir::Node& node) {
  const auto dims = node.op == op::permute_copy ? ints_of(ops::PermuteCopy(node).dims()) : std::nullopt;
  return dims && dims->size() == 3 && (*dims)[0] == 0 && ((*dims)[1] + 3) % 3 == 2 && ((*dims)[2] + 3) % 3 == 1;
}

/// True when all that reads a value makes rows of it.
bool becomes_rows(const ir::Value* value) {
  const auto& users = value->users();
  return !users.empty() && std::all_of(users.begin(), users.end(), [](const ir::Node* user) {
    const bool converts = user->op == op::quantized_decomposed_dequantize_per_tensor;
    return converts ? becomes_rows(user->result()) : swaps_channels(*user);
  });
}

/// True when all that reads a value wants its image form.
bool becomes_image(const ir::Value* value) {
  const auto& users = value->users();
  return !users.empty() && std::all_of(users.begin(), users.end(), [&](const ir::Node* user) {
    if (user->op == op::view_copy) {
      const ir::Value* pixels = user->result();
      return same_pixels(pixels->type.tensor, value->type.tensor) && becomes_image(pixels);
    }
    const bool passes_on = passes::is_one_of(
        user->op, {op::quantized_decomposed_dequantize_per_tensor, op::quantized_decomposed_quantize_per_tensor});
    return passes_on ? becomes_image(user->result()) : user->op == op::convolution && user->args()[0].value() == value;
  });
}

/// A permutation of the last two dimensions.
bool swaps_matrix(const std::vector<uint32_t>& perm) {
  const size_t rank = perm.size();
  bool swaps = rank >= 2 && perm[rank - 2] == rank - 1 && perm[rank - 1] == rank - 2;
  for (size_t d = 0; d + 2 < rank; ++d) {
    swaps = swaps && perm[d] == d;
  }
  return swaps;
}

/// Views that leave the matrices of a batch alone.
bool keeps_matrices(const ir::TensorType& in, const ir::TensorType& out) {
  const auto same = [&](size_t from_end) {
    const ir::Dim &a = in.dims[in.rank() - from_end], &b = out.dims[out.rank() - from_end];
    return a.is_static() && a == b;
  };
  return in.rank() >= 2 && out.rank() >= 2 && same(1) && same(2);
}

/// True when all that reads a value multiplies by its matrices, from the right, where a node can say that they stand
/// transposed.
bool becomes_factor(const Lowering& lowering, const ir::Value* value) {
  const auto& users = value->users();
  return !users.empty() && !lowering.is_output(value) &&
         std::all_of(users.begin(), users.end(), [&](const ir::Node* user) {
           if (user->op == op::view_copy) {
             return keeps_matrices(value->type.tensor, user->result()->type.tensor) &&
                    becomes_factor(lowering, user->result());
           }
           return passes::is_one_of(user->op, {op::mm, op::bmm}) && ops::Mm(*user).mat2().value() == value &&
                  ops::Mm(*user).self().value() != value;
         });
}

/// Writes the part [start, start + size) of one dimension.
void slice_into(Lowering& lowering, const ir::Node& node, const ir::Value* from, size_t dim, uint32_t start,
                uint32_t size, Form form, uint32_t output) {
  const ir::TensorType& type = from->type.tensor;
  const size_t position = position_in(dim, type.rank(), form);
  std::vector<uint32_t> sizes = Lowering::shape_of(type, form);  // 0 = the whole of a dynamic dim
  std::vector<uint32_t> offsets(sizes.size(), 0);
  sizes[position] = size;
  offsets[position] = start;
  const auto count = static_cast<uint32_t>(sizes.size());
  lowering.writer.add_node(
      NodeUnion::NodeUnion_StaticSlice,
      payload::CreateSliceDirect(lowering.writer.builder, count, &offsets, &sizes, lowering.id_of(from, form), output),
      node.debug_handle);
}

}  // namespace

void join(Lowering& lowering, const ir::Node& node, uint32_t axis, const std::vector<uint32_t>& ids, uint32_t output) {
  constexpr NodeUnion kNodes[] = {NodeUnion::NodeUnion_Concatenate2, NodeUnion::NodeUnion_Concatenate3,
                                  NodeUnion::NodeUnion_Concatenate4, NodeUnion::NodeUnion_Concatenate5};
  std::vector<uint32_t> all = ids;
  all.resize(5, kInvalidId);
  lowering.writer.add_node(
      kNodes[ids.size() - 2],
      payload::CreateConcatenate(lowering.writer.builder, axis, all[0], all[1], all[2], all[3], output, 0, all[4]),
      node.debug_handle);
}

Error emit_concatenate(Lowering& lowering, const ir::Node& node) {
  std::vector<const ir::Value*> parts;
  node.for_each_input([&](const ir::Value* input) { parts.push_back(input); });
  const ir::TensorType& type = node.result()->type.tensor;
  if (emit_quantized_concatenate(lowering, node, parts)) {
    return Error::Ok;
  }
  const bool image = std::any_of(parts.begin(), parts.end(),
                                 [&](const ir::Value* part) { return movement_form(lowering, part) == Form::kImage; });
  return concatenate_values(lowering, node, parts, node.result(), dim_of(ops::Cat(node).dim(), type.rank()),
                            image ? Form::kImage : Form::kRowMajor);
}

Error concatenate_values(Lowering& lowering, const ir::Node& node, const std::vector<const ir::Value*>& parts,
                         const ir::Value* result, size_t dim, Form form) {
  const auto axis = static_cast<uint32_t>(position_in(dim, result->type.tensor.rank(), form));
  std::vector<uint32_t> ids;
  uint32_t size = 0;  // along the axis, of what is in `ids`
  for (size_t i = 0; i < parts.size(); ++i) {
    ids.push_back(lowering.id_of(parts[i], form));
    size += static_cast<uint32_t>(parts[i]->type.tensor.dims[dim].max);
    if (ids.size() == 5 && i + 1 < parts.size()) {  // no node takes more
      ValueSpec spec = lowering.spec_of(result, form);
      spec.dims[axis] = size;
      const uint32_t joined = lowering.define_hidden(spec);
      join(lowering, node, axis, ids, joined);
      ids = {joined};
    }
  }
  join(lowering, node, axis, ids, lowering.define(result, form));
  return Error::Ok;
}

Error emit_permute(Lowering& lowering, const ir::Node& node) {
  const auto [from, to] = movement_of(lowering, node);
  std::vector<uint32_t> perm;
  const auto rank = static_cast<int64_t>(from->type.tensor.rank());
  const auto dims = ints_of(ops::PermuteCopy(node).dims());
  for (const int64_t dim : *dims) {
    perm.push_back(static_cast<uint32_t>(dim < 0 ? dim + rank : dim));
  }
  const bool to_last = perm == std::vector<uint32_t>{0, 2, 3, 1};
  const bool to_first = perm == std::vector<uint32_t>{0, 3, 1, 2};
  // Only the name changes: an image read row by row, or rows that are an image.
  if (to_last && lowering.form_of(from) == Form::kImage) {
    lowering.rename(to, Form::kRowMajor, lowering.id_of(from, Form::kImage));
    return Error::Ok;
  }
  if (to_first && lowering.has(from, Form::kRowMajor)) {
    lowering.rename(to, Form::kImage, lowering.id_of(from, Form::kRowMajor));
    return Error::Ok;
  }
  if (swaps_channels(node) && lowering.form_of(from) == Form::kImage && is_one_dynamic(to->type.tensor)) {
    lowering.reshape(lowering.id_of(from, Form::kImage), lowering.define(to, Form::kRowMajor),
                     Lowering::shape_of(to->type.tensor, Form::kRowMajor), node.debug_handle);
    return Error::Ok;
  }
  if (swaps_channels(node) && lowering.has(from, Form::kRowMajor) && becomes_image(to) &&
      is_one_dynamic(to->type.tensor)) {
    lowering.reshape(lowering.id_of(from, Form::kRowMajor), lowering.define(to, Form::kImage),
                     Lowering::shape_of(to->type.tensor, Form::kImage), node.debug_handle);
    return Error::Ok;
  }
  const uint32_t input = lowering.id_of(from, Form::kRowMajor);
  if (swaps_matrix(perm) && becomes_factor(lowering, to)) {
    lowering.set_swapped(to, input);
    return Error::Ok;
  }
  lowering.transpose(input, lowering.define(to, Form::kRowMajor), perm, node.debug_handle);
  return Error::Ok;
}

Error emit_view(Lowering& lowering, const ir::Node& node) {
  const auto [from, to] = movement_of(lowering, node);
  const ir::TensorType& in = from->type.tensor;
  const ir::TensorType& out = to->type.tensor;
  if (const uint32_t factor = lowering.swapped(from); factor != kInvalidId) {
    ir::TensorType stored = out;
    std::swap(stored.dims[out.rank() - 1], stored.dims[out.rank() - 2]);
    ValueSpec spec = lowering.spec_of(to, Form::kRowMajor);
    spec.dims = Lowering::dims_of(stored, Form::kRowMajor);
    const uint32_t id = lowering.define_hidden(spec);
    lowering.reshape(factor, id, Lowering::shape_of(stored, Form::kRowMajor), node.debug_handle);
    lowering.set_swapped(to, id);
    return Error::Ok;
  }
  // Without rows of its own the source is turned in any case: here, or behind, where rows are wanted.
  const bool only_image = lowering.form_of(from) == Form::kImage && !lowering.has(from, Form::kRowMajor);
  const bool joins = same_pixels(in, out) && (only_image || becomes_rows(to));
  const bool splits = same_pixels(out, in) && (only_image || becomes_image(to));
  if (lowering.form_of(from) == Form::kImage && (joins || splits)) {
    lowering.reshape(lowering.id_of(from, Form::kImage), lowering.define(to, Form::kImage),
                     Lowering::shape_of(out, Form::kImage), node.debug_handle);
    return Error::Ok;
  }
  // [N, C, 1, 1] seen as [N, C]: in image form the same elements in the same order, so no transpose comes between.
  const bool one_pixel = in.rank() == 4 && in.dims[2] == ir::Dim(1) && in.dims[3] == ir::Dim(1);
  const Form form = one_pixel && lowering.form_of(from) == Form::kImage ? Form::kImage : Form::kRowMajor;
  const uint32_t input = lowering.id_of(from, form);
  lowering.reshape(input, lowering.define(to, Form::kRowMajor), Lowering::shape_of(out, Form::kRowMajor),
                   node.debug_handle);
  return Error::Ok;
}

Error emit_slice(Lowering& lowering, const ir::Node& node) {
  const ops::SliceCopyTensor call(node);
  const auto [from, to] = movement_of(lowering, node);
  const ir::TensorType& type = from->type.tensor;
  const size_t dim = dim_of(call.dim(), type.rank());
  const int64_t size = type.dims[dim].max;
  int64_t start = int_of(call.start()).value_or(0);
  start = std::clamp<int64_t>(start < 0 ? start + size : start, 0, size);
  const Form form = movement_form(lowering, from);
  slice_into(lowering, node, from, dim, static_cast<uint32_t>(start),
             static_cast<uint32_t>(to->type.tensor.dims[dim].max), form, lowering.define(to, form));
  return Error::Ok;
}

Error emit_select(Lowering& lowering, const ir::Node& node) {
  const ops::SelectCopyInt call(node);
  const auto [from, to] = movement_of(lowering, node);
  const ir::TensorType& type = from->type.tensor;
  const size_t dim = dim_of(call.dim(), type.rank());
  const int64_t index = int_of(call.index()).value_or(0);
  ValueSpec spec = lowering.spec_of(from, Form::kRowMajor);
  spec.dims[dim] = 1;
  const uint32_t row = lowering.define_hidden(spec);
  slice_into(lowering, node, from, dim, static_cast<uint32_t>(index < 0 ? index + type.dims[dim].max : index), 1,
             Form::kRowMajor, row);
  lowering.reshape(row, lowering.define(to, Form::kRowMajor), Lowering::shape_of(to->type.tensor, Form::kRowMajor),
                   node.debug_handle);
  return Error::Ok;
}

Error emit_split(Lowering& lowering, const ir::Node& node) {
  const ops::SplitCopyTensor call(node);
  const ir::Value* whole = call.self().value();
  const size_t dim = dim_of(call.dim(), whole->type.tensor.rank());
  const Form form = movement_form(lowering, whole);
  uint32_t start = 0;
  for (const auto& part : node.results()) {
    const auto size = static_cast<uint32_t>(part->type.tensor.dims[dim].max);
    if (!part->users().empty() || node.graph()->is_output(part.get())) {
      const Movement moved = movement_of(lowering, whole, part.get());
      slice_into(lowering, node, moved.from, dim, start, size, form, lowering.define(moved.to, form));
    }
    start += size;
  }
  return Error::Ok;
}

Error emit_pad(Lowering& lowering, const ir::Node& node) {
  const ops::ConstantPadNd call(node);
  const auto [from, to] = movement_of(lowering, node);
  const size_t rank = from->type.tensor.rank();
  const Form form = movement_form(lowering, from);
  const auto list = *ints_of(call.pad());  // pairs, innermost dimension first
  const size_t count = Lowering::dims_of(from->type.tensor, form).size();
  std::vector<uint32_t> before(count, 0), after(count, 0);
  for (size_t i = 0; 2 * i + 1 < list.size(); ++i) {
    const size_t position = position_in(rank - 1 - i, rank, form);
    before[position] = static_cast<uint32_t>(list[2 * i]);
    after[position] = static_cast<uint32_t>(list[2 * i + 1]);
  }
  const auto value = static_cast<float>(*passes::number_of(call.value()));
  const uint32_t input = lowering.id_of(from, form);
  const uint32_t output = lowering.define(to, form);
  lowering.writer.add_node(NodeUnion::NodeUnion_StaticConstantPad,
                           payload::CreatePadDirect(lowering.writer.builder, &before, &after, value, input, output),
                           node.debug_handle);
  return Error::Ok;
}

}  // namespace et::backends::xnnpack
