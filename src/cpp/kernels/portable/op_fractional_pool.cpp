// Fractional max pooling: windows at places that random numbers decide.
#include "kernels/portable/op_fractional_pool.h"

#include "kernels/portable/arithmetic.h"
#include "kernels/portable/convert.h"
#include "kernels/portable/shape.h"

namespace et::kernels::portable {
namespace {

// Where windows begin along one dimension.
struct Intervals {
  int64_t in, out, pool;
  float alpha;

  Intervals(int64_t in_size, int64_t out_size, int64_t pool_size)
      : in(in_size),
        out(out_size),
        pool(pool_size),
        alpha(out_size > 1 ? static_cast<float>(in_size - pool_size) / static_cast<float>(out_size - 1) : 0.0f) {}

  int64_t start(double sample, int64_t i) const {
    if (i == out - 1) {
      return in - pool;
    }
    const auto u = static_cast<float>(sample);
    return static_cast<int64_t>((static_cast<float>(i) + u) * alpha) - static_cast<int64_t>(u * alpha);
  }
};

// The position in a plane [in[0], in[1], in[2]] of the largest element of a window that begins at (z0, y0, x0). NaN
// wins.
template <typename C>
int64_t largest_in(const C* plane, const int64_t* in, const int64_t* pool, int64_t z0, int64_t y0, int64_t x0) {
  int64_t place = -1;
  C best = 0;
  for (int64_t z = z0; z < z0 + pool[0]; ++z) {
    for (int64_t y = y0; y < y0 + pool[1]; ++y) {
      const int64_t row = (z * in[1] + y) * in[2];
      for (int64_t x = x0; x < x0 + pool[2]; ++x) {
        const C value = plane[row + x];
        if (place < 0 || value > best || is_nan(value)) {
          best = value;
          place = row + x;
        }
      }
    }
  }
  return place;
}

Error fractional_max_pool(KernelContext& context, const char* op, const Tensor& self, IntArrayRef kernel_size,
                          IntArrayRef output_size, const Tensor& samples, int64_t spatial, Tensor& output,
                          Tensor& indices) {
  ET_RETURN_IF_ERROR(check_rank(op, "self", self, spatial + 1, spatial + 2));
  const int64_t lead = self.dim() - spatial;
  ET_CHECK_OR_RETURN(is_floating(self.scalar_type()) && indices.scalar_type() == ScalarType::Long, InvalidType,
                     "%s: self is %s, indices are %s", op, to_string(self.scalar_type()),
                     to_string(indices.scalar_type()));
  ET_RETURN_IF_ERROR(check_same_dtype(op, "output", output, self));
  const int64_t planes = product(self.sizes(), 0, static_cast<size_t>(lead));
  ET_CHECK_OR_RETURN(samples.dim() == 3 && samples.size(2) == spatial && samples.numel() == planes * spatial,
                     InvalidArgument, "%s: random samples of shape %s for an input of shape %s", op,
                     ShapeText(samples.sizes()).text, ShapeText(self.sizes()).text);
  // In three dimensions; the outermost has one window where there are two.
  int64_t in[] = {1, 1, 1}, out[] = {1, 1, 1}, pool[] = {1, 1, 1};
  Sizes sizes(self.sizes());
  for (int64_t d = 0; d < spatial; ++d) {
    const int64_t to = d + 3 - spatial;
    in[to] = self.size(lead + d);
    out[to] = list_item(output_size, static_cast<size_t>(d), 1);
    pool[to] = list_item(kernel_size, static_cast<size_t>(d), 1);
    ET_CHECK_OR_RETURN(out[to] > 0 && pool[to] > 0 && out[to] <= in[to] && pool[to] - 1 <= in[to] - out[to],
                       InvalidArgument, "%s: %" PRId64 " windows of %" PRId64 " do not fit %" PRId64 " elements", op,
                       out[to], pool[to], in[to]);
    sizes[lead + d] = out[to];
  }
  for (int64_t i = 0; i < samples.numel(); ++i) {
    const double sample = load_one<double>(samples.scalar_type(), samples.const_data_ptr(), i);
    ET_CHECK_OR_RETURN(sample >= 0.0 && sample <= 1.0, InvalidArgument,
                       "%s: random sample %" PRId64 " is %g, must lie in [0, 1)", op, i, sample);
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, output, sizes));
  ET_RETURN_IF_ERROR(resize_tensor(context, indices, sizes));
  ET_RETURN_IF_ERROR(check_row_major(op, {&self, &samples, &output, &indices}));
  const Intervals along[] = {{in[0], out[0], pool[0]}, {in[1], out[1], pool[1]}, {in[2], out[2], pool[2]}};
  const ScalarType dtype = self.scalar_type();
  const auto size = static_cast<int64_t>(output.element_size());
  auto* positions = static_cast<int64_t*>(indices.mutable_data_ptr());
  const int64_t elements = in[0] * in[1] * in[2];
  return dispatch_float(dtype, [&](auto zero) {
    using C = decltype(zero);
    C* converted = nullptr;
    if (dtype != dtype_of<C>) {
      ET_TRY(void* memory, context.allocate_temp(static_cast<size_t>(elements) * sizeof(C)));
      converted = static_cast<C*>(memory);
    }
    constexpr int64_t kRow = 64;
    C values[kRow];
    int64_t to = 0;
    for (int64_t plane = 0; plane < planes; ++plane) {
      const char* const data = static_cast<const char*>(self.const_data_ptr()) +
                               plane * elements * static_cast<int64_t>(self.element_size());
      if (converted != nullptr) {
        load(dtype, data, 1, elements, converted);
      }
      const C* const from = converted != nullptr ? converted : reinterpret_cast<const C*>(data);
      const auto sample = [&](int64_t i) {
        return load_one<double>(samples.scalar_type(), samples.const_data_ptr(), plane * spatial + i);
      };
      // The samples of a plane are for (width, height) of an image, for (depth, height, width) of a volume.
      const double by_dim[] = {spatial == 3 ? sample(0) : 0.0, sample(1), spatial == 3 ? sample(2) : sample(0)};
      for (int64_t i = 0; i < out[0] * out[1]; ++i) {
        const int64_t z0 = along[0].start(by_dim[0], i / out[1]);
        const int64_t y0 = along[1].start(by_dim[1], i % out[1]);
        for (int64_t first = 0; first < out[2]; first += kRow) {
          const int64_t n = out[2] - first < kRow ? out[2] - first : kRow;
          for (int64_t x = 0; x < n; ++x) {
            const int64_t x0 = along[2].start(by_dim[2], first + x);
            positions[to + x] = largest_in(from, in, pool, z0, y0, x0);
            values[x] = from[positions[to + x]];
          }
          store(dtype, values, n, static_cast<char*>(output.mutable_data_ptr()) + to * size, 1);
          to += n;
        }
      }
    }
    return Error::Ok;
  });
}

}  // namespace

Error fractional_max_pool2d_output(KernelContext& context, const Tensor& self, IntArrayRef kernel_size,
                                   IntArrayRef output_size, const Tensor& random_samples, Tensor& output,
                                   Tensor& indices) {
  return fractional_max_pool(context, "aten::fractional_max_pool2d", self, kernel_size, output_size, random_samples, 2,
                             output, indices);
}

Error fractional_max_pool3d_output(KernelContext& context, const Tensor& self, IntArrayRef kernel_size,
                                   IntArrayRef output_size, const Tensor& random_samples, Tensor& output,
                                   Tensor& indices) {
  return fractional_max_pool(context, "aten::fractional_max_pool3d", self, kernel_size, output_size, random_samples, 3,
                             output, indices);
}

}  // namespace et::kernels::portable
