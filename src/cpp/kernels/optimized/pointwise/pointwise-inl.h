// Loops over pointwise blocks, compiled once a target. Included inside the target's pass only.
//
// There are two families. map_numbers, pair_numbers and their like take a functor over vectors of float or double
// (pair_floats: of float). map_elements and pair_elements take one over single elements of any types, whose plain
// loops the compiler makes vectors of.

#if defined(ET_KERNELS_OPTIMIZED_POINTWISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef ET_KERNELS_OPTIMIZED_POINTWISE_INL_H_
#undef ET_KERNELS_OPTIMIZED_POINTWISE_INL_H_
#else
#define ET_KERNELS_OPTIMIZED_POINTWISE_INL_H_
#endif

#include <type_traits>

#include <hwy/highway.h>

#include "kernels/optimized/pointwise/pointwise.h"
#include "kernels/optimized/vec/half-inl.h"
#include "kernels/optimized/vec/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::pointwise::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

/// The larger and the smaller number; not a number on either side is the result, as in ATen.
template <class V>
HWY_INLINE V maximum(V a, V b) {
  return hn::IfThenElse(hn::Or(hn::Gt(a, b), hn::IsNaN(a)), a, b);
}
template <class V>
HWY_INLINE V minimum(V a, V b) {
  return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(a)), a, b);
}

/// out = fn(d, x) for one operand of T, float or double, in the output's order: a block of one row.
template <class T, class Fn>
HWY_INLINE void map_numbers(const Fn& fn, const PointwiseBlock& block) {
  const hn::ScalableTag<T> d;
  const size_t lanes = hn::Lanes(d);
  const auto* const x = static_cast<const T*>(block.in[0]);
  auto* const y = static_cast<T*>(block.out);
  const size_t n = block.columns;
  size_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const auto y0 = fn(d, hn::LoadU(d, x + i));
    const auto y1 = fn(d, hn::LoadU(d, x + i + lanes));
    hn::StoreU(y0, d, y + i);
    hn::StoreU(y1, d, y + i + lanes);
  }
  for (; i < n; i += lanes) {
    const size_t left = HWY_MIN(lanes, n - i);
    hn::StoreN(fn(d, hn::LoadN(d, x + i, left)), d, y + i, left);
  }
}

/// Calls row(a_moves, b_moves, a, b, out, n) for the rows of a block of two operands. What does not move is one element
/// for all n.
template <class In, class Out, class Row>
HWY_INLINE void pair_rows(const Row& row, const PointwiseBlock& block) {
  const bool a_moves = block.column_stride[0] == 1, b_moves = block.column_stride[1] == 1;
  const size_t rows = block.rows, columns = block.columns;  // copies: what a byte is written to may be the block
  for (size_t r = 0; r < rows; ++r) {
    const In* const a = static_cast<const In*>(block.in[0]) + static_cast<int64_t>(r) * block.row_stride[0];
    const In* const b = static_cast<const In*>(block.in[1]) + static_cast<int64_t>(r) * block.row_stride[1];
    Out* const out = static_cast<Out*>(block.out) + r * columns;
    if (a_moves && b_moves) {
      row(std::true_type(), std::true_type(), a, b, out, columns);
    } else if (a_moves) {
      row(std::true_type(), std::false_type(), a, b, out, columns);
    } else {
      row(std::false_type(), std::true_type(), a, b, out, columns);
    }
  }
}

/// out = fn(d, a, b) for two operands of T, float or double.
template <class T, class Fn>
HWY_INLINE void pair_numbers(const Fn& fn, const PointwiseBlock& block) {
  pair_rows<T, T>(
      [&fn](auto a_moves, auto b_moves, const T* a, const T* b, T* out, size_t n) HWY_ATTR {
        const hn::ScalableTag<T> d;
        const auto splat_a = hn::Set(d, *a);
        const auto splat_b = hn::Set(d, *b);
        over_vectors<T>(n, [&](auto whole, size_t i, size_t left) HWY_ATTR {
          const auto x = a_moves ? load(d, whole, a + i, left) : splat_a;
          const auto y = b_moves ? load(d, whole, b + i, left) : splat_b;
          store(d, whole, fn(d, x, y), out + i, left);
        });
      },
      block);
}
template <class Fn>
HWY_INLINE void pair_floats(const Fn& fn, const PointwiseBlock& block) {
  pair_numbers<float>(fn, block);
}

/// fn(dd, v…) in doubles, for vectors of floats: where a product or a difference must be exact.
template <class D, class Fn, class... V>
HWY_INLINE hn::Vec<D> in_doubles(D d, const Fn& fn, V... v) {
  if constexpr (hn::MaxLanes(d) == 1) {
    const hn::Rebind<double, D> dd;
    return hn::DemoteTo(d, fn(dd, hn::PromoteTo(dd, v)...));
  } else {
    const hn::Repartition<double, D> dd;
    const hn::Half<D> half;
    const auto low = hn::DemoteTo(half, fn(dd, hn::PromoteLowerTo(dd, v)...));
    const auto high = hn::DemoteTo(half, fn(dd, hn::PromoteUpperTo(dd, v)...));
    return hn::Combine(d, high, low);
  }
}

/// Floats as the elements of 16 bits nearest to them, where ATen rounds between two steps of an operator.
struct RoundNothing {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x) const {
    return x;
  }
};
struct RoundHalf {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return half_to_float(d, float_to_half(d, x));
  }
};
struct RoundBFloat16 {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, x);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFu)));
    const auto kept = hn::And(rounded, hn::Set(du, 0xFFFF0000u));
    return hn::IfThenElse(hn::IsNaN(x), x, hn::BitCast(d, kept));
  }
};

/// out = fn(d, a, b, c) for three operands of floats.
template <class Fn>
HWY_INLINE void triple_floats(const Fn& fn, const PointwiseBlock& block) {
  const hn::ScalableTag<float> d;
  const hn::CappedTag<float, 1> one;
  const size_t lanes = hn::Lanes(d);
  const int64_t* const column = block.column_stride;
  for (size_t r = 0; r < block.rows; ++r) {
    const float* in[3];
    for (size_t k = 0; k < 3; ++k) {
      in[k] = static_cast<const float*>(block.in[k]) + static_cast<int64_t>(r) * block.row_stride[k];
    }
    float* const out = static_cast<float*>(block.out) + r * block.columns;
    size_t c = 0;
    const auto vector_of = [&](size_t k)
                               HWY_ATTR { return column[k] != 0 ? hn::LoadU(d, in[k] + c) : hn::Set(d, *in[k]); };
    for (; c + lanes <= block.columns; c += lanes) {
      hn::StoreU(fn(d, vector_of(0), vector_of(1), vector_of(2)), d, out + c);
    }
    const auto element_of = [&](size_t k) HWY_ATTR { return hn::Set(one, in[k][static_cast<int64_t>(c) * column[k]]); };
    for (; c < block.columns; ++c) {
      out[c] = hn::GetLane(fn(one, element_of(0), element_of(1), element_of(2)));
    }
  }
}

/// out = fn(x) element by element. A bool is a byte that may hold anything: pass uint8_t.
template <class In, class Out, class Fn>
HWY_INLINE void map_elements(const Fn& fn, const PointwiseBlock& block) {
  const size_t rows = block.rows, columns = block.columns;  // copies: what a byte is written to may be the block
  for (size_t r = 0; r < rows; ++r) {
    const In* const x = static_cast<const In*>(block.in[0]) + static_cast<int64_t>(r) * block.row_stride[0];
    Out* const out = static_cast<Out*>(block.out) + r * columns;
    for (size_t c = 0; c < columns; ++c) {
      out[c] = fn(x[c]);
    }
  }
}

/// out = fn(a, b) element by element.
template <class In, class Out, class Fn>
HWY_INLINE void pair_elements(const Fn& fn, const PointwiseBlock& block) {
  pair_rows<In, Out>(
      [&fn](auto a_moves, auto b_moves, const In* a, const In* b, Out* out, size_t n) HWY_ATTR {
        const In one_a = *a, one_b = *b;
        for (size_t c = 0; c < n; ++c) {
          out[c] = fn(a_moves ? a[c] : one_a, b_moves ? b[c] : one_b);
        }
      },
      block);
}

/// out = mask ? a : b for elements of one size.
template <class T>
HWY_INLINE void choose_elements(const PointwiseBlock& block) {
  const size_t rows = block.rows, columns = block.columns;  // copies, as above
  const int64_t step[3] = {block.column_stride[0], block.column_stride[1], block.column_stride[2]};
  for (size_t r = 0; r < rows; ++r) {
    const auto row = static_cast<int64_t>(r);
    const auto* const mask = static_cast<const uint8_t*>(block.in[0]) + row * block.row_stride[0];
    const T* const a = static_cast<const T*>(block.in[1]) + row * block.row_stride[1];
    const T* const b = static_cast<const T*>(block.in[2]) + row * block.row_stride[2];
    T* const out = static_cast<T*>(block.out) + r * columns;
    if (step[0] == 1 && step[1] == 1 && step[2] == 0) {
      const T y = *b;
      for (size_t c = 0; c < columns; ++c) {
        out[c] = mask[c] != 0 ? a[c] : y;
      }
      continue;
    }
    for (size_t c = 0; c < columns; ++c) {
      const auto i = static_cast<int64_t>(c);
      out[c] = mask[i * step[0]] != 0 ? a[i * step[1]] : b[i * step[2]];
    }
  }
}

}  // namespace et::kernels::optimized::pointwise::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per target
