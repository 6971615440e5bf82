#include "kernels/portable/op_distance.h"

#include <cmath>

#include "kernels/portable/convert.h"
#include "kernels/portable/dispatch.h"
#include "kernels/portable/shape.h"

namespace et::kernels::portable {
namespace {

// The p-norm of a - b over `n` elements. p = 0 counts differences, p = infinity takes the largest; NaN wins.
template <typename T>
T distance(const T* a, const T* b, int64_t n, double p) {
  T sum = 0;
  for (int64_t i = 0; i < n; ++i) {
    const T d = std::abs(a[i] - b[i]);
    if (p == 0) {
      sum += std::isnan(d) ? d : d != T(0) ? T(1) : T(0);
    } else if (p == 1) {
      sum += d;
    } else if (p == 2) {
      sum += d * d;
    } else if (std::isinf(p)) {
      sum = d > sum || std::isnan(d) ? d : sum;
    } else {
      sum += std::pow(d, static_cast<T>(p));
    }
  }
  if (p == 0 || p == 1 || std::isinf(p)) {
    return sum;
  }
  return p == 2 ? std::sqrt(sum) : std::pow(sum, static_cast<T>(1 / p));
}

using DistanceTypes = DTypes<ScalarType::Float, ScalarType::Double>;

Error check_norm(const char* op, double p) {
  ET_CHECK_OR_RETURN(p >= 0, InvalidArgument, "%s: p is %g, must not be negative", op, p);
  return Error::Ok;
}

}  // namespace

Error cdist_forward_out(KernelContext& context, const Tensor& x1, const Tensor& x2, double p, std::optional<int64_t>,
                        Tensor& out) {
  const char* op = "aten::_cdist_forward";
  ET_RETURN_IF_ERROR(check_norm(op, p));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "x2", x2, x1));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out", out, x1));
  ET_CHECK_OR_RETURN(x1.dim() >= 2 && x2.dim() >= 2, InvalidArgument,
                     "%s: inputs have rank %" PRId64 " and %" PRId64 ", must have 2 or more", op, x1.dim(), x2.dim());
  ET_CHECK_OR_RETURN(x1.size(-1) == x2.size(-1), InvalidArgument,
                     "%s: points of x1 have %" PRId64 " coordinates, those of x2 have %" PRId64, op, x1.size(-1),
                     x2.size(-1));
  const size_t rank1 = static_cast<size_t>(x1.dim());
  const size_t rank2 = static_cast<size_t>(x2.dim());
  const int64_t rows1 = x1.size(-2);
  const int64_t rows2 = x2.size(-2);
  const int64_t width = x1.size(-1);
  Sizes batch;
  ET_RETURN_IF_ERROR(broadcast_sizes(op, IntArrayRef(x1.sizes()).subspan(0, rank1 - 2),
                                     IntArrayRef(x2.sizes()).subspan(0, rank2 - 2), &batch));
  Sizes sizes = batch;
  sizes.push_back(rows1);
  sizes.push_back(rows2);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  ET_RETURN_IF_ERROR(check_row_major(op, {&x1, &x2, &out}));
  if (out.numel() == 0) {
    return Error::Ok;
  }

  return dispatch<DistanceTypes>(x1.scalar_type(), op, [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* to = out.mutable_data_ptr<T>();
    const int64_t batches = batch.numel();
    for (int64_t b = 0; b < batches; ++b) {
      // Position of batch `b` in each input, whose sizes of 1 are repeated.
      int64_t offset1 = 0, offset2 = 0, stride1 = rows1 * width, stride2 = rows2 * width, rest = b;
      for (size_t k = 0; k < batch.size(); ++k) {
        const int64_t size = batch[static_cast<int64_t>(batch.size() - 1 - k)];
        const int64_t index = rest % size;
        rest /= size;
        if (k + 2 < rank1) {
          const int64_t size1 = x1.sizes()[rank1 - 3 - k];
          offset1 += size1 == 1 ? 0 : index * stride1;
          stride1 *= size1;
        }
        if (k + 2 < rank2) {
          const int64_t size2 = x2.sizes()[rank2 - 3 - k];
          offset2 += size2 == 1 ? 0 : index * stride2;
          stride2 *= size2;
        }
      }
      for (int64_t i = 0; i < rows1; ++i) {
        for (int64_t j = 0; j < rows2 && !context.cancelled(); ++j) {
          *to++ = distance(x1.const_data_ptr<T>() + offset1 + i * width, x2.const_data_ptr<T>() + offset2 + j * width,
                           width, p);
        }
      }
    }
    return Error::Ok;
  });
}

Error pdist_forward_out(KernelContext& context, const Tensor& self, double p, Tensor& out) {
  const char* op = "aten::_pdist_forward";
  ET_RETURN_IF_ERROR(check_norm(op, p));
  ET_RETURN_IF_ERROR(check_rank(op, "self", self, 2, 2));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out", out, self));
  const int64_t rows = self.size(0);
  const int64_t width = self.size(1);
  ET_TRY(const int64_t pairs, count_pairs(op, rows));
  ET_RETURN_IF_ERROR(resize_tensor(context, out, {pairs}));
  ET_RETURN_IF_ERROR(check_row_major(op, {&self, &out}));
  return dispatch<DistanceTypes>(self.scalar_type(), op, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* from = self.const_data_ptr<T>();
    T* to = out.mutable_data_ptr<T>();
    for (int64_t i = 0; i < rows; ++i) {
      for (int64_t j = i + 1; j < rows && !context.cancelled(); ++j) {
        *to++ = distance(from + i * width, from + j * width, width, p);
      }
    }
    return Error::Ok;
  });
}

}  // namespace et::kernels::portable
