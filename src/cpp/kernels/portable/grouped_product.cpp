#include "kernels/portable/grouped_product.h"

#include <cinttypes>
#include <cstring>

#include "kernels/portable/shape.h"

namespace et::kernels::portable {
namespace {

/// The first matrix of a tensor.
MatrixView first_matrix(const Tensor& tensor) {
  return {static_cast<char*>(tensor.mutable_data_ptr()), tensor.size(-2), tensor.size(-1), tensor.stride(-2),
          tensor.stride(-1)};
}

int64_t bytes_of_first_dim(const Tensor& tensor) {
  return tensor.dim() == 3 ? tensor.stride(0) * static_cast<int64_t>(tensor.element_size()) : 0;
}

Error check_ends(const char* op, const Tensor& offs, int64_t extent) {
  const int32_t* const ends = offs.const_data_ptr<int32_t>();
  int32_t last = 0;
  for (int64_t g = 0; g < offs.numel(); ++g) {
    ET_CHECK_OR_RETURN(ends[g] >= last && ends[g] <= extent, InvalidArgument,
                       "%s: group %" PRId64 " ends at %" PRId32 ", after %" PRId32 " and in a dimension of %" PRId64,
                       op, g, ends[g], last, extent);
    last = ends[g];
  }
  return Error::Ok;
}

}  // namespace

Result<GroupedProduct> GroupedProduct::of(KernelContext& context, const char* op, const Tensor& self,
                                          const Tensor& mat2, const OptionalTensor& offs, Tensor& out) {
  ET_RETURN_IF_ERROR(check_rank(op, "the left operand", self, 2, 3));
  ET_RETURN_IF_ERROR(check_rank(op, "the right operand", mat2, 2, 3));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "the right operand", mat2, self));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out", out, self));
  ET_RETURN_IF_ERROR(check_row_major(op, {&out}));
  const bool left_groups = self.dim() == 3;
  const bool right_groups = mat2.dim() == 3;
  ET_CHECK_OR_RETURN(self.size(-1) == mat2.size(-2) && (!left_groups || !right_groups || self.size(0) == mat2.size(0)),
                     InvalidArgument, "%s: shapes %s and %s do not multiply", op, ShapeText(self.sizes()).text,
                     ShapeText(mat2.sizes()).text);
  ET_CHECK_OR_RETURN(offs.has_value() != (left_groups && right_groups), InvalidArgument,
                     "%s: offsets are for groups that are parts of a matrix; shapes are %s and %s", op,
                     ShapeText(self.sizes()).text, ShapeText(mat2.sizes()).text);

  GroupedProduct grouped;
  int64_t extent = 0;
  if (!offs) {
    grouped.count_ = self.size(0);
  } else {
    ET_CHECK_OR_RETURN(offs->scalar_type() == ScalarType::Int, InvalidType, "%s: offsets must be torch.int32", op);
    ET_RETURN_IF_ERROR(check_rank(op, "offsets", *offs, 1, 1));
    grouped.count_ = offs->size(0);
    const int64_t stored = left_groups ? self.size(0) : right_groups ? mat2.size(0) : grouped.count_;
    ET_CHECK_OR_RETURN(stored == grouped.count_, InvalidArgument, "%s: %" PRId64 " offsets for %" PRId64 " matrices",
                       op, grouped.count_, stored);
    grouped.cut_ = right_groups ? kRows : left_groups ? kColumns : kDepth;
    extent = grouped.cut_ == kRows ? self.size(-2) : grouped.cut_ == kColumns ? mat2.size(-1) : self.size(-1);
    ET_RETURN_IF_ERROR(check_ends(op, *offs, extent));
    grouped.ends_ = offs->const_data_ptr<int32_t>();
  }
  const bool out_groups = left_groups == right_groups;
  const int64_t sizes[] = {grouped.count_, self.size(-2), mat2.size(-1)};
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {sizes + (out_groups ? 0 : 1), out_groups ? 3u : 2u}));

  grouped.left_ = first_matrix(self);
  grouped.right_ = first_matrix(mat2);
  grouped.out_ = first_matrix(out);
  grouped.left_step_ = bytes_of_first_dim(self);
  grouped.right_step_ = bytes_of_first_dim(mat2);
  grouped.out_step_ = bytes_of_first_dim(out);
  grouped.element_ = static_cast<int64_t>(out.element_size());
  const bool is_covered =
      grouped.cut_ == kNothing || (grouped.count_ > 0 && grouped.ends_[grouped.count_ - 1] == extent);
  if ((!is_covered || self.size(-1) == 0 || grouped.cut_ == kDepth) && out.numel() > 0) {
    std::memset(out.mutable_data_ptr(), 0, out.nbytes());
  }
  return grouped;
}

MatrixPair GroupedProduct::operator[](int64_t g) const {
  MatrixPair pair{left_, right_, out_};
  pair.left.data += g * left_step_;
  pair.right.data += g * right_step_;
  pair.out.data += g * out_step_;
  if (cut_ == kNothing) {
    return pair;
  }
  const int64_t begin = g == 0 ? 0 : ends_[g - 1];
  const int64_t n = ends_[g] - begin;
  switch (cut_) {
    case kRows:
      pair.left.data += begin * pair.left.row * element_;
      pair.out.data += begin * pair.out.row * element_;
      pair.left.rows = pair.out.rows = n;
      break;
    case kColumns:
      pair.right.data += begin * pair.right.column * element_;
      pair.out.data += begin * pair.out.column * element_;
      pair.right.columns = pair.out.columns = n;
      break;
    default:
      pair.left.data += begin * pair.left.column * element_;
      pair.right.data += begin * pair.right.row * element_;
      pair.left.columns = pair.right.rows = n;
      break;
  }
  return pair;
}

}  // namespace et::kernels::portable
