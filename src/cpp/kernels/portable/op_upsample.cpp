// Resizing by nearest neighbour and by (bi, tri)linear or cubic interpolation.
#include "kernels/portable/op_upsample.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <initializer_list>

#include "kernels/portable/convert.h"
#include "kernels/portable/dispatch.h"
#include "kernels/portable/resize_taps.h"
#include "kernels/portable/strided_copy.h"
#include "threads/parallel.h"

namespace et::kernels::portable {
namespace {

// Calls body(begin, end) for the elements of a row; a long one looks in between whether the caller asked to stop.
template <typename Body>
void along_row(const KernelContext& context, size_t n, const Body& body) {
  constexpr size_t kLook = 1 << 16;
  if (n <= kLook) {
    body(size_t{0}, n);
  } else {
    threads::in_pieces(context, n, kLook, body);
  }
}

// Three spatial dimensions; fewer have leading sizes of 1.
struct Resize {
  int64_t batch;
  int64_t channels;
  int64_t spatial;
  ResizeAxis axes[3];
  int64_t in_strides[5];
  int64_t out_strides[5];

  // Taps along an axis, `taps` if the tensor has it.
  int64_t taps_along(int axis, int64_t taps) const { return axis < 3 - spatial ? 1 : taps; }
};

Error plan(KernelContext& context, const char* op, const Tensor& input, int64_t spatial, const ResizeSizes& output_size,
           const ResizeFactors& factors, bool align_corners, Tensor& out, Resize* r) {
  ET_RETURN_IF_ERROR(check_same_dtype(op, "out", out, input));
  Sizes sizes(input.sizes());
  ET_RETURN_IF_ERROR(
      resize_axes(op, input, static_cast<size_t>(spatial), output_size, factors, align_corners, r->axes, &sizes));
  r->batch = input.size(0);
  r->channels = input.size(1);
  r->spatial = spatial;
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  spread_strides(input, spatial, r->in_strides);
  spread_strides(out, spatial, r->out_strides);
  return Error::Ok;
}

// Calls f(address of the input plane, address in out, od, oh, ow).
template <typename F>
void for_each_pixel(const KernelContext& context, const Resize& r, const Tensor& input, const Tensor& out, F&& f) {
  const int64_t size = static_cast<int64_t>(input.element_size());
  const char* in_base = static_cast<const char*>(input.const_data_ptr());
  char* out_base = static_cast<char*>(out.mutable_data_ptr());
  for (int64_t n = 0; out.numel() > 0 && n < r.batch; ++n) {
    for (int64_t c = 0; c < r.channels; ++c) {
      const char* plane = in_base + (n * r.in_strides[0] + c * r.in_strides[1]) * size;
      char* target = out_base + (n * r.out_strides[0] + c * r.out_strides[1]) * size;
      for (int64_t d = 0; d < r.axes[0].out; ++d) {
        for (int64_t h = 0; h < r.axes[1].out && !context.cancelled(); ++h) {
          for (int64_t w = 0; w < r.axes[2].out; ++w) {
            f(plane, target + (d * r.out_strides[2] + h * r.out_strides[3] + w * r.out_strides[4]) * size, d, h, w);
          }
        }
      }
    }
  }
}

Error nearest(KernelContext& context, const char* op, const Tensor& input, int64_t spatial,
              const ResizeSizes& output_size, const ResizeFactors& factors, bool exact, Tensor& out) {
  Resize r;
  ET_RETURN_IF_ERROR(plan(context, op, input, spatial, output_size, factors, false, out, &r));
  const size_t size = input.element_size();
  const NearestRule rule = nearest_rule(input, static_cast<size_t>(spatial), exact);
  const auto position = [&](int d, int64_t o) { return nearest_position(r.axes[d], o, rule); };
  return dispatch_by_size(size, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for_each_pixel(context, r, input, out, [&](const char* plane, char* target, int64_t d, int64_t h, int64_t w) {
      const int64_t offset =
          position(0, d) * r.in_strides[2] + position(1, h) * r.in_strides[3] + position(2, w) * r.in_strides[4];
      std::memcpy(target, plane + offset * static_cast<int64_t>(sizeof(T)), sizeof(T));
    });
    return Error::Ok;
  });
}

// The byte nearest to sum(weight[k] * value[k]), the weights in fixed point.
template <typename ValueOf>
uint8_t weighted_byte(const Taps<int32_t>& along, const ByteAxis& axis, const ValueOf& value_of) {
  int32_t sum = fixed_point_half(axis.bits());
  for (int64_t k = 0; k < axis.num_taps(); ++k) {
    sum += along.weight[k] == 0 ? 0 : along.weight[k] * value_of(k);
  }
  return byte_of(sum, axis.bits());
}

// Images of bytes as ATen resizes them: along rows, then along columns, with bytes in between.
void resize_bytes(const KernelContext& context, const Resize& r, const Tensor& input, Tensor& out, const ByteAxis& rows,
                  const ByteAxis& columns) {
  for_each_pixel(context, r, input, out, [&](const char* plane, char* target, int64_t, int64_t h, int64_t w) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(plane);
    const Taps<int32_t> along_w = columns.taps(w);
    const Taps<int32_t> along_h = rows.taps(h);
    const auto row_value = [&](int64_t k) {
      const unsigned char* row = bytes + along_h.position[k] * r.in_strides[3];
      return weighted_byte(along_w, columns, [&](int64_t c) { return row[along_w.position[c] * r.in_strides[4]]; });
    };
    *reinterpret_cast<unsigned char*>(target) = weighted_byte(along_h, rows, row_value);
  });
}

// Input rows as they are after the resize along w: an input row goes into several output rows.
template <typename C>
class ResizedRows {
 public:
  static constexpr int64_t kRows = 4;  // that one output row is made of at most

  Error init(KernelContext& context, const Resize& r, ScalarType dtype, int64_t taps) {
    context_ = &context;
    ET_TRY(void* along, context.allocate_temp(static_cast<size_t>(r.axes[2].out) * sizeof(Taps<C>)));
    ET_TRY(void* line, context.allocate_temp(static_cast<size_t>(r.axes[2].in) * sizeof(C)));
    ET_TRY(void* rows, context.allocate_temp(static_cast<size_t>(kRows * r.axes[2].out) * sizeof(C)));
    along_ = static_cast<Taps<C>*>(along);
    line_ = static_cast<C*>(line);
    rows_ = static_cast<C*>(rows);
    in_ = r.axes[2].in;
    out_ = r.axes[2].out;
    step_ = r.in_strides[4];
    taps_ = taps;
    dtype_ = dtype;
    return Error::Ok;
  }
  Taps<C>* along() { return along_; }
  /// Forgets all rows but those in `needed`, which the next output row is made of.
  void keep(const char* const* needed, int64_t count) {
    for (int64_t slot = 0; slot < kRows; ++slot) {
      bool is_needed = false;
      for (int64_t k = 0; k < count; ++k) {
        is_needed = is_needed || sources_[slot] == needed[k];
      }
      sources_[slot] = is_needed ? sources_[slot] : nullptr;
    }
  }
  /// The row at this address, resized.
  const C* get(const char* source) {
    int64_t free = 0;
    for (int64_t slot = 0; slot < kRows; ++slot) {
      if (sources_[slot] == source) {
        return rows_ + slot * out_;
      }
      free = sources_[slot] == nullptr ? slot : free;
    }
    sources_[free] = source;
    C* const row = rows_ + free * out_;
    const C* values = reinterpret_cast<const C*>(source);
    int64_t step = step_;
    if (dtype_ != dtype_of<C>) {
      load(dtype_, source, step_, in_, line_);
      values = line_;
      step = 1;
    }
    along_row(*context_, static_cast<size_t>(out_), [&](size_t w, size_t end) {
      for (; w < end; ++w) {
        const Taps<C>& t = along_[w];
        C part = 0;
        for (int64_t c = 0; c < taps_; ++c) {
          part += t.weight[c] * values[t.position[c] * step];  // a weight of 0, too: NaN stays
        }
        row[w] = part;
      }
    });
    return row;
  }

 private:
  const KernelContext* context_ = nullptr;
  Taps<C>* along_ = nullptr;
  C* line_ = nullptr;
  C* rows_ = nullptr;
  const char* sources_[kRows] = {};
  int64_t in_ = 0, out_ = 0, step_ = 0, taps_ = 0;
  ScalarType dtype_ = ScalarType::Float;
};

// Along rows first, then the rows that an output row is made of are added up.
template <typename C, typename TapsOf>
Error resize_rows(KernelContext& context, const Resize& r, const Tensor& input, const Tensor& out, int64_t taps,
                  const TapsOf& taps_of) {
  const ScalarType dtype = input.scalar_type();
  const auto size = static_cast<int64_t>(input.element_size());
  ResizedRows<C> rows;
  ET_RETURN_IF_ERROR(rows.init(context, r, dtype, taps));
  ET_TRY(void* memory, context.allocate_temp(static_cast<size_t>(r.axes[2].out) * sizeof(C)));
  auto* const sums = static_cast<C*>(memory);
  const auto width = static_cast<size_t>(r.axes[2].out);
  along_row(context, width, [&](size_t w, size_t end) {
    for (; w < end; ++w) {
      rows.along()[w] = taps_of(2, static_cast<int64_t>(w));
    }
  });
  ET_CHECK_OR_RETURN(!context.cancelled(), Cancelled, "resizing: cancelled");
  const auto make_row = [&](const char* plane, char* target, const Taps<C>& along_d, const Taps<C>& along_h) {
    const char* sources[16];
    C weights[16];
    int64_t count = 0;
    for (int64_t a = 0; a < r.taps_along(0, taps); ++a) {
      for (int64_t b = 0; b < r.taps_along(1, taps); ++b) {
        sources[count] = plane + (along_d.position[a] * r.in_strides[2] + along_h.position[b] * r.in_strides[3]) * size;
        weights[count++] = along_d.weight[a] * along_h.weight[b];
      }
    }
    rows.keep(sources, count);
    std::memset(sums, 0, static_cast<size_t>(r.axes[2].out) * sizeof(C));
    for (int64_t k = 0; k < count; ++k) {
      const C* const row = rows.get(sources[k]);
      const C weight = weights[k];
      along_row(context, width, [&](size_t w, size_t end) {
        for (; w < end; ++w) {
          sums[w] += weight * row[w];
        }
      });
    }
    if (dtype == ScalarType::Byte) {
      for (int64_t w = 0; w < r.axes[2].out; ++w) {
        const C sum = std::nearbyint(sums[w]);
        sums[w] = sum < C(0) ? C(0) : sum > C(255) ? C(255) : sum;
      }
    }
    store(dtype, sums, r.axes[2].out, target, r.out_strides[4]);
  };
  for (int64_t n = 0; out.numel() > 0 && n < r.batch; ++n) {
    for (int64_t c = 0; c < r.channels; ++c) {
      const char* const plane =
          static_cast<const char*>(input.const_data_ptr()) + (n * r.in_strides[0] + c * r.in_strides[1]) * size;
      char* const target =
          static_cast<char*>(out.mutable_data_ptr()) + (n * r.out_strides[0] + c * r.out_strides[1]) * size;
      for (int64_t d = 0; d < r.axes[0].out; ++d) {
        const Taps<C> along_d = taps_of(0, d);
        for (int64_t h = 0; h < r.axes[1].out && !context.cancelled(); ++h) {
          make_row(plane, target + (d * r.out_strides[2] + h * r.out_strides[3]) * size, along_d, taps_of(1, h));
        }
      }
    }
  }
  return Error::Ok;
}

Error interpolate(KernelContext& context, const char* op, const Tensor& input, int64_t spatial,
                  const ResizeSizes& output_size, const ResizeFactors& factors, bool align_corners, bool cubic,
                  Tensor& out) {
  Resize r;
  ET_RETURN_IF_ERROR(plan(context, op, input, spatial, output_size, factors, align_corners, out, &r));
  const ScalarType dtype = input.scalar_type();
  ET_CHECK_OR_RETURN(is_floating(dtype) || dtype == ScalarType::Byte, InvalidType,
                     "%s: input is %s, must be floating or torch.uint8", op, to_string(dtype));
  if (out.numel() == 0) {  // rows may be longer than any memory
    return Error::Ok;
  }
  if (dtype == ScalarType::Byte && spatial == 2) {
    resize_bytes(context, r, input, out, ByteAxis(r.axes[1], align_corners, cubic),
                 ByteAxis(r.axes[2], align_corners, cubic));
    return Error::Ok;
  }
  return dispatch_float(dtype, [&](auto zero) {
    using C = decltype(zero);
    const auto taps_of = [&](int d, int64_t o) {
      return r.axes[d].in == 1 && r.axes[d].out == 1 ? Taps<C>{{0, 0, 0, 0}, {C(1), C(0), C(0), C(0)}}
             : cubic                                 ? cubic_taps<C>(r.axes[d], o, align_corners)
                                                     : linear_taps<C>(r.axes[d], o, align_corners);
    };
    return resize_rows<C>(context, r, input, out, cubic ? 4 : 2, taps_of);
  });
}

using Factor = std::optional<double>;

// Factors given one by one; a missing one counts as 0, which means: from the sizes.
struct FactorList {
  double values[3] = {};
  size_t size;
  FactorList(std::initializer_list<Factor> factors) : size(factors.size()) {
    std::transform(factors.begin(), factors.end(), values, [](Factor factor) { return factor.value_or(0.0); });
  }
  ResizeFactors span() const { return Span<const double>(values, size); }
};

}  // namespace

#define ET_NEAREST_VEC(name, spatial, exact)                                                         \
  Error name##_vec_out(KernelContext& context, const Tensor& input, ResizeSizes output_size,         \
                       ResizeFactors scale_factors, Tensor& out) {                                   \
    return nearest(context, "aten::" #name, input, spatial, output_size, scale_factors, exact, out); \
  }

ET_NEAREST_VEC(upsample_nearest1d, 1, false)
ET_NEAREST_VEC(upsample_nearest2d, 2, false)
ET_NEAREST_VEC(upsample_nearest3d, 3, false)
ET_NEAREST_VEC(upsample_nearest_exact1d, 1, true)
ET_NEAREST_VEC(upsample_nearest_exact2d, 2, true)
ET_NEAREST_VEC(upsample_nearest_exact3d, 3, true)

#define ET_INTERPOLATE_VEC(name, spatial, cubic)                                                                  \
  Error name##_vec_out(KernelContext& context, const Tensor& input, ResizeSizes output_size, bool align_corners,  \
                       ResizeFactors scale_factors, Tensor& out) {                                                \
    return interpolate(context, "aten::" #name, input, spatial, output_size, scale_factors, align_corners, cubic, \
                       out);                                                                                      \
  }

ET_INTERPOLATE_VEC(upsample_linear1d, 1, false)
ET_INTERPOLATE_VEC(upsample_bilinear2d, 2, false)
ET_INTERPOLATE_VEC(upsample_trilinear3d, 3, false)
ET_INTERPOLATE_VEC(upsample_bicubic2d, 2, true)

// The overloads with sizes, beside which scales may stand that say something else.
#define ET_NEAREST_1D(name, exact)                                                                                    \
  Error name##_out(KernelContext& context, const Tensor& self, IntArrayRef output_size, Factor scales, Tensor& out) { \
    return nearest(context, "aten::" #name, self, 1, output_size, FactorList({scales}).span(), exact, out);           \
  }
#define ET_NEAREST_2D(name, exact)                                                                                \
  Error name##_out(KernelContext& context, const Tensor& self, IntArrayRef output_size, Factor scales_h,          \
                   Factor scales_w, Tensor& out) {                                                                \
    return nearest(context, "aten::" #name, self, 2, output_size, FactorList({scales_h, scales_w}).span(), exact, \
                   out);                                                                                          \
  }
#define ET_NEAREST_3D(name, exact)                                                                                   \
  Error name##_out(KernelContext& context, const Tensor& self, IntArrayRef output_size, Factor scales_d,             \
                   Factor scales_h, Factor scales_w, Tensor& out) {                                                  \
    return nearest(context, "aten::" #name, self, 3, output_size, FactorList({scales_d, scales_h, scales_w}).span(), \
                   exact, out);                                                                                      \
  }

ET_NEAREST_1D(upsample_nearest1d, false)
ET_NEAREST_1D(upsample_nearest_exact1d, true)
ET_NEAREST_2D(upsample_nearest2d, false)
ET_NEAREST_2D(upsample_nearest_exact2d, true)
ET_NEAREST_3D(upsample_nearest3d, false)
ET_NEAREST_3D(upsample_nearest_exact3d, true)

Error upsample_linear1d_out(KernelContext& context, const Tensor& self, IntArrayRef output_size, bool align_corners,
                            Factor scales, Tensor& out) {
  return interpolate(context, "aten::upsample_linear1d", self, 1, output_size, FactorList({scales}).span(),
                     align_corners, false, out);
}

Error upsample_bilinear2d_out(KernelContext& context, const Tensor& self, IntArrayRef output_size, bool align_corners,
                              Factor scales_h, Factor scales_w, Tensor& out) {
  return interpolate(context, "aten::upsample_bilinear2d", self, 2, output_size,
                     FactorList({scales_h, scales_w}).span(), align_corners, false, out);
}

Error upsample_bicubic2d_out(KernelContext& context, const Tensor& self, IntArrayRef output_size, bool align_corners,
                             Factor scales_h, Factor scales_w, Tensor& out) {
  return interpolate(context, "aten::upsample_bicubic2d", self, 2, output_size, FactorList({scales_h, scales_w}).span(),
                     align_corners, true, out);
}

Error upsample_trilinear3d_out(KernelContext& context, const Tensor& self, IntArrayRef output_size, bool align_corners,
                               Factor scales_d, Factor scales_h, Factor scales_w, Tensor& out) {
  return interpolate(context, "aten::upsample_trilinear3d", self, 3, output_size,
                     FactorList({scales_d, scales_h, scales_w}).span(), align_corners, false, out);
}

}  // namespace et::kernels::portable
