// Bags of embeddings: rows of a table are summed, averaged or maximised over segments of the indices.
#include "kernels/portable/op_embedding_bag.h"

#include "kernels/portable/convert.h"
#include "kernels/portable/index_checks.h"
#include "kernels/portable/shape.h"

namespace et::kernels::portable {
namespace {

constexpr const char* kOp = "aten::_embedding_bag";
constexpr int64_t kSum = 0;
constexpr int64_t kMean = 1;
constexpr int64_t kMax = 2;

Error check_offsets(const Tensor& offsets, int64_t num_indices, bool include_last_offset) {
  ET_RETURN_IF_ERROR(check_rank(kOp, "offsets", offsets, 1, 1));
  ET_CHECK_OR_RETURN(!include_last_offset || offsets.size(0) > 0, InvalidArgument, "%s: offsets are empty", kOp);
  ET_RETURN_IF_ERROR(check_indices(kOp, offsets, num_indices + 1, 0));
  for (int64_t i = 0; i < offsets.size(0); ++i) {
    const int64_t before = i == 0 ? 0 : index_at(offsets, i - 1);
    ET_CHECK_OR_RETURN(index_at(offsets, i) >= before && (i > 0 || index_at(offsets, 0) == 0), InvalidArgument,
                       "%s: offsets must begin with 0 and not decrease, position %" PRId64 " holds %" PRId64, kOp, i,
                       index_at(offsets, i));
  }
  return Error::Ok;
}

}  // namespace

Error embedding_bag_out(KernelContext& context, const Tensor& weight, const Tensor& indices, const Tensor& offsets,
                        bool, int64_t mode, bool, const OptionalTensor& per_sample_weights, bool include_last_offset,
                        int64_t padding_idx, Tensor& out0, Tensor& out1, Tensor& out2, Tensor& out3) {
  ET_RETURN_IF_ERROR(check_rank(kOp, "weight", weight, 2, 2));
  ET_RETURN_IF_ERROR(check_rank(kOp, "indices", indices, 1, 1));
  ET_RETURN_IF_ERROR(check_same_dtype(kOp, "out0", out0, weight));
  ET_CHECK_OR_RETURN(is_floating(weight.scalar_type()) && mode >= kSum && mode <= kMax, InvalidArgument,
                     "%s: weight is %s, mode is %" PRId64, kOp, to_string(weight.scalar_type()), mode);
  ET_CHECK_OR_RETURN(
      !per_sample_weights.has_value() || (mode == kSum && per_sample_weights->numel() == indices.numel()),
      InvalidArgument, "%s: per_sample_weights go with mode sum and one weight an index", kOp);
  const int64_t rows = weight.size(0);
  const int64_t width = weight.size(1);
  ET_RETURN_IF_ERROR(check_indices(kOp, indices, rows, 0));
  ET_RETURN_IF_ERROR(check_offsets(offsets, indices.numel(), include_last_offset));
  const int64_t bags = offsets.size(0) - (include_last_offset ? 1 : 0);
  const int64_t skipped = padding_idx < 0 ? -1 : padding_idx;
  ET_RETURN_IF_ERROR(resize_tensor(context, out0, {bags, width}));
  // What the backward pass wants: the bag of each index (not for a plain sum), bag sizes, the rows of maxima.
  const bool wants_bags = out1.numel() == indices.numel();
  const bool wants_rows = mode == kMax;
  ET_RETURN_IF_ERROR(resize_tensor(context, out1, {wants_bags ? indices.numel() : 0}));
  ET_RETURN_IF_ERROR(resize_tensor(context, out2, {bags}));
  if (wants_rows) {
    ET_RETURN_IF_ERROR(resize_tensor(context, out3, {bags, width}));
  } else {
    ET_RETURN_IF_ERROR(resize_tensor(context, out3, {bags}));
  }
  ET_RETURN_IF_ERROR(check_row_major(kOp, {&weight, &out0}));
  const ScalarType dtype = weight.scalar_type();
  ET_TRY(void* memory, context.allocate_temp(static_cast<size_t>(width) * (2 * sizeof(double) + sizeof(int64_t))));
  // The row of a bag: sums, averages or maxima of the rows of indices [first, last), `count` of which count.
  const auto combine = [&](int64_t bag, int64_t first, int64_t last, int64_t count) {
    return dispatch_float(dtype, [&](auto zero) {
      using C = decltype(zero);
      auto* const rows_of_max = static_cast<int64_t*>(memory);
      C* const totals = reinterpret_cast<C*>(rows_of_max + width);
      C* const buffer = totals + width;
      for (int64_t c = 0; c < width; ++c) {
        totals[c] = C(0);
        rows_of_max[c] = 0;
      }
      bool any = false;
      for (int64_t i = first; i < last; ++i) {
        const int64_t row = index_at(indices, i);
        if (row == skipped) {
          continue;
        }
        const char* const from = static_cast<const char*>(weight.const_data_ptr()) +
                                 row * width * static_cast<int64_t>(weight.element_size());
        const C* values = reinterpret_cast<const C*>(from);
        if (dtype != dtype_of<C>) {
          load(dtype, from, 1, width, buffer);
          values = buffer;
        }
        if (mode == kMax) {
          for (int64_t c = 0; c < width; ++c) {
            if (!any || values[c] > totals[c]) {
              totals[c] = values[c];
              rows_of_max[c] = row;
            }
          }
        } else {
          const C factor = per_sample_weights.has_value()
                               ? load_one<C>(per_sample_weights->scalar_type(), per_sample_weights->const_data_ptr(), i)
                               : C(1);
          for (int64_t c = 0; c < width; ++c) {
            totals[c] += factor * values[c];
          }
        }
        any = true;
      }
      for (int64_t c = 0; c < width && mode == kMean && count > 0; ++c) {
        totals[c] /= static_cast<C>(count);
      }
      store(dtype, totals, width,
            static_cast<char*>(out0.mutable_data_ptr()) + bag * width * static_cast<int64_t>(out0.element_size()), 1);
      if (wants_rows) {
        store(out3.scalar_type(), rows_of_max, width,
              static_cast<char*>(out3.mutable_data_ptr()) + bag * width * static_cast<int64_t>(out3.element_size()), 1);
      }
      return Error::Ok;
    });
  };
  for (int64_t bag = 0; bag < bags; ++bag) {
    const int64_t first = index_at(offsets, bag);
    const int64_t last = bag + 1 < offsets.size(0) ? index_at(offsets, bag + 1) : indices.numel();
    int64_t count = 0;
    for (int64_t i = first; i < last; ++i) {
      count += index_at(indices, i) != skipped ? 1 : 0;
      if (wants_bags) {
        store_one<int64_t>(out1.scalar_type(), bag, out1.mutable_data_ptr(), i);
      }
    }
    store_one<int64_t>(out2.scalar_type(), count, out2.mutable_data_ptr(), bag);
    if (!wants_rows) {
      store_one<int64_t>(out3.scalar_type(), count, out3.mutable_data_ptr(), bag);
    }
    ET_RETURN_IF_ERROR(combine(bag, first, last, count));
  }
  return Error::Ok;
}

}  // namespace et::kernels::portable
