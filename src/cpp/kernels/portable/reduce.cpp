#include "kernels/portable/reduce.h"

namespace et::kernels::portable {

Error Reduction::plan(KernelContext& context, const char* op, const Tensor& self, IntArrayRef dims, bool keepdim,
                      std::initializer_list<const Tensor*> outs) {
  bool reduced[kMaxRank] = {};
  for (const int64_t item : dims) {
    int64_t dim;
    ET_RETURN_IF_ERROR(normalize_dim(op, item, self.dim(), &dim));
    ET_CHECK_OR_RETURN(!reduced[dim], InvalidArgument, "%s: dim %" PRId64 " is named twice", op, dim);
    reduced[dim] = true;
  }
  Sizes out_sizes;
  Sizes kept_sizes;
  Sizes kept_strides;
  Sizes reduced_sizes;
  Sizes reduced_strides;
  count_ = 1;
  for (int64_t d = 0; d < self.dim(); ++d) {
    if (dims.empty() || reduced[d]) {
      reduced_sizes.push_back(self.size(d));
      reduced_strides.push_back(self.stride(d));
      count_ *= self.size(d);
      if (keepdim) {
        out_sizes.push_back(1);
      }
    } else {
      kept_sizes.push_back(self.size(d));
      kept_strides.push_back(self.stride(d));
      out_sizes.push_back(self.size(d));
    }
  }
  kept_ = LoopNest(kept_sizes);
  num_outs_ = 0;
  for (const Tensor* out : outs) {
    ET_RETURN_IF_ERROR(resize_tensor(context, *out, out_sizes));
    Sizes strides;
    for (int64_t d = 0; d < out->dim(); ++d) {
      const bool is_kept = !keepdim || !(dims.empty() || reduced[d]);
      if (is_kept) {
        strides.push_back(out->stride(d));
      }
    }
    kept_.add(out->const_data_ptr(), strides, out->element_size());
    data_[num_outs_++] = static_cast<char*>(out->mutable_data_ptr());
  }
  kept_.add(self.const_data_ptr(), kept_strides, self.element_size());
  data_[num_outs_] = static_cast<char*>(const_cast<void*>(self.const_data_ptr()));
  kept_.simplify();
  reduced_ = LoopNest(reduced_sizes);
  reduced_.add(self.const_data_ptr(), reduced_strides, self.element_size());
  reduced_.merge();
  dtype_ = self.scalar_type();
  context_ = &context;
  return Error::Ok;
}

void Reduction::take_part(int part) {
  if (part == 0) {
    dtype_ = dtype_ == ScalarType::ComplexDouble ? ScalarType::Double : ScalarType::Float;
    return;
  }
  for (size_t k = 0; k <= num_outs_; ++k) {
    kept_.rebase(k, data_[k] + element_size(dtype_));
  }
}

template <typename C>
void Reduction::load_columns(ScalarType dtype, const char* data, int64_t row_stride, int64_t rows, int64_t columns,
                             C* out) {
  if (columns == 1) {
    load(dtype, data, row_stride, rows, out);
    return;
  }
  const int64_t row_bytes = row_stride * static_cast<int64_t>(element_size(dtype));
  C converted[kColumns];
  for (int64_t r = 0; r < rows; ++r, data += row_bytes) {
    const C* row = reinterpret_cast<const C*>(data);
    if (dtype != dtype_of<C>) {
      load(dtype, data, 1, columns, converted);
      row = converted;
    }
    for (int64_t c = 0; c < columns; ++c) {
      out[c * kRows + r] = row[c];
    }
  }
}

template void Reduction::load_columns(ScalarType, const char*, int64_t, int64_t, int64_t, float*);
template void Reduction::load_columns(ScalarType, const char*, int64_t, int64_t, int64_t, double*);
template void Reduction::load_columns(ScalarType, const char*, int64_t, int64_t, int64_t, int64_t*);

}  // namespace et::kernels::portable
