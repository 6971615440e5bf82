// et::quantized_lstm and et::quantized_gru of 8 bits: the steps of a layer, each a product of integers whose sums stay
// in registers until they are gates, and the gates a new state.
//
// The weight is packed at load: a vector has a lane for each of so many units, and four columns of each; the vectors of
// a strip's gates lie side by side. Bytes are multiplied as the instructions have it, unsigned by signed: with u = q +
// o for the integer q of a state, o = 128 for signed integers and 0 for others,
//
//     Σ w (q - z) = Σ w u - (z + o) Σ w,
//
// where the last sum is part of the number that a sum starts with. All of it wraps in 32 bits, so results are the plain
// kernels'.

#define ET_TARGETS_WITH_BYTE_PRODUCTS
#include "kernels/optimized/vec/every_target-inl.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>

#include "base/rounding.h"
#include "kernels/optimized/recurrent/step_packing.h"
#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/math-inl.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/quantized/recurrent.h"
#include "numerics/nibbles.h"
#include "ops/signatures/quantized/op_recurrent.h"
#include "runtime/shared_cache.h"
#include "threads/parallel.h"

#ifndef ET_KERNELS_OPTIMIZED_QUANTIZED_RECURRENT_ONCE
#define ET_KERNELS_OPTIMIZED_QUANTIZED_RECURRENT_ONCE
namespace et::kernels::optimized::recurrent {

/// The weight of a layer, packed.
struct PackedSteps {
  size_t gates, hidden;
  const int8_t* weight;  // [strips, depth / 4, gates, lanes, 4]
  const int32_t* start;  // [strips, gates, lanes]: the bias less (z + o) Σ w

  /// Columns with zeros behind, which whole instructions take.
  size_t depth() const { return (hidden + 3) / 4 * 4; }
};

/// What signed integers have added to be unsigned.
inline constexpr int32_t kSignedOffset = 128;

/// A step of some sequences.
struct IntegerStep {
  const kernels::quantized::RecurrentPlan* plan;
  PackedSteps packed;
  const float* factors;  // [strips, gates, lanes]: units of the product's scale
  size_t rows;
  size_t padded;         // units of all strips
  int32_t offset;        // o: kSignedOffset where integers of input and first are i8, 0 where they are u8
  const uint8_t* input;  // [rows, gates * hidden]
  const uint8_t* state;  // [rows, padded]: the state before, u
  const void* first;     // its products where they are given: integers (LSTM) or f32 [rows or one, gates * hidden]
  size_t first_stride;   // between rows of them
  const float* before;   // GRU: [rows, hidden]
  float* after;          // [rows, hidden]
  float* cells;          // LSTM: [rows, padded]
  uint8_t* next;         // [rows, padded]: the state after, u
};

}  // namespace et::kernels::optimized::recurrent
#endif

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::recurrent::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec
namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;
using IntegerTag = hn::RebindToSigned<Tag>;
using V = hn::Vec<Tag>;
using I = hn::Vec<IntegerTag>;

/// Rows whose sums stand in registers at a time.
constexpr size_t kRows = hn::MaxLanes(Tag()) >= 16 ? 4 : 2;

size_t StepLanes() { return hn::Lanes(Tag()); }

/// Four integers of a state for every lane.
HWY_INLINE hn::Vec<hn::Repartition<uint8_t, Tag>> four(const uint8_t* from) {
  int32_t bits;
  std::memcpy(&bits, from, sizeof(bits));
  return hn::BitCast(hn::Repartition<uint8_t, Tag>(), hn::Set(IntegerTag(), bits));
}

/// sum[r][g] += state[r] · weight[:, g].
template <size_t kGates, size_t kCount>
HWY_INLINE void accumulate(const IntegerStep& s, size_t strip, size_t row, I (&sum)[kCount][kGates]) {
  const IntegerTag di;
  const hn::Repartition<int8_t, Tag> bytes;
  const size_t lanes = hn::Lanes(di);
  const size_t depth = s.packed.depth();
  const int8_t* weight = s.packed.weight + strip * depth * kGates * lanes;
  const uint8_t* const state = s.state + row * s.padded;
  size_t k = 0;
  if constexpr (kCount == 1) {
    // Too few sums for the latency of an instruction: a second set for every other four columns.
    I odd[kGates];
    for (size_t g = 0; g < kGates; ++g) {
      odd[g] = hn::Zero(di);
    }
    for (; k + 8 <= depth; k += 8, weight += 8 * kGates * lanes) {
      const auto even_state = four(state + k), odd_state = four(state + k + 4);
#pragma GCC unroll 4
      for (size_t g = 0; g < kGates; ++g) {
        const int8_t* const w = weight + g * 4 * lanes;
        sum[0][g] = hn::SumOfMulQuadAccumulate(di, even_state, hn::LoadU(bytes, w), sum[0][g]);
        odd[g] = hn::SumOfMulQuadAccumulate(di, odd_state, hn::LoadU(bytes, w + 4 * kGates * lanes), odd[g]);
      }
    }
    for (size_t g = 0; g < kGates; ++g) {
      sum[0][g] = hn::Add(sum[0][g], odd[g]);
    }
  }
  for (; k < depth; k += 4, weight += 4 * kGates * lanes) {
    hn::Vec<decltype(bytes)> w[kGates];
#pragma GCC unroll 4
    for (size_t g = 0; g < kGates; ++g) {
      w[g] = hn::LoadU(bytes, weight + g * 4 * lanes);
    }
#pragma GCC unroll 4
    for (size_t r = 0; r < kCount; ++r) {
      const auto columns = four(state + r * s.padded + k);
#pragma GCC unroll 4
      for (size_t g = 0; g < kGates; ++g) {
        sum[r][g] = hn::SumOfMulQuadAccumulate(di, columns, w[g], sum[r][g]);
      }
    }
  }
}

HWY_INLINE V dequantize(const kernels::quantized::Dequantizer& p, I q) {
  const Tag d;
  return hn::Mul(hn::Sub(hn::ConvertTo(d, q), hn::Set(d, p.zero_point)), hn::Set(d, p.scale));
}

/// Integers of 8 bits; those that are signed have an offset.
HWY_INLINE I load_integers(const uint8_t* from, size_t left, int32_t offset) {
  const hn::Rebind<uint8_t, Tag> narrow;
  const IntegerTag di;
  const I bits = hn::PromoteTo(di, left >= hn::Lanes(narrow) ? hn::LoadU(narrow, from) : hn::LoadN(narrow, from, left));
  return hn::Sub(hn::Xor(bits, hn::Set(di, offset)), hn::Set(di, offset));
}
HWY_INLINE V load_floats(const float* from, size_t left) {
  const Tag d;
  return left >= hn::Lanes(d) ? hn::LoadU(d, from) : hn::LoadN(d, from, left);
}

/// The integers of a product from its sum.
HWY_INLINE I requantize(const kernels::quantized::Requantizer& p, I sum, V factor) {
  const Tag d;
  const V units = hn::Mul(hn::ConvertTo(d, sum), factor);
  const V low = hn::Set(d, static_cast<float>(p.min() - p.zero_point()));
  const V high = hn::Set(d, static_cast<float>(p.max() - p.zero_point()));
  return hn::Add(hn::NearestInt(hn::Min(hn::Max(units, low), high)), hn::Set(IntegerTag(), p.zero_point()));
}

/// et::quantized_add.
HWY_INLINE I add(const kernels::quantized::RecurrentPlan& p, I product, I input) {
  const IntegerTag di;
  const I wide = hn::Add(hn::Add(hn::Set(di, p.fixed.bias), hn::Mul(product, hn::Set(di, p.fixed.a_factor))),
                         hn::Mul(input, hn::Set(di, p.fixed.b_factor)));
  const I sum = hn::Add(hn::ShiftRightSame(wide, static_cast<int>(p.fixed.shift)), hn::Set(di, p.sum.zero_point()));
  return hn::Min(hn::Max(sum, hn::Set(di, p.sum.min())), hn::Set(di, p.sum.max()));
}

/// A state as the integers u; of NaN as q = 0.
HWY_INLINE void store_state(const kernels::quantized::StateQuantizer& p, V x, int32_t offset, uint8_t* to) {
  const Tag d;
  const V shifted = hn::Add(hn::Round(hn::Mul(x, hn::Set(d, p.inverse))), hn::Set(d, p.zero_point));
  const V bounded = hn::Min(hn::Max(shifted, hn::Set(d, p.low)), hn::Set(d, p.high));
  const I q = hn::ConvertTo(IntegerTag(), hn::IfThenZeroElse(hn::IsNaN(shifted), bounded));
  const hn::Rebind<uint8_t, Tag> narrow;
  hn::StoreU(hn::DemoteTo(narrow, hn::Add(q, hn::Set(IntegerTag(), offset))), narrow, to);
}

/// The new state of a strip's units in one row, from the sums of its products.
template <size_t kGates>
HWY_INLINE void finish(const IntegerStep& s, size_t strip, size_t row, const I (&sum)[kGates]) {
  const Tag d;
  const kernels::quantized::RecurrentPlan& p = *s.plan;
  const size_t lanes = hn::Lanes(d);
  const size_t begin = strip * lanes;
  const size_t hidden = s.packed.hidden;
  const size_t left = hidden - begin;
  const uint8_t* const input = s.input + row * kGates * hidden + begin;
  const float* const factors = s.factors + strip * kGates * lanes;
  V state;
  if constexpr (kGates == 4) {
    V gate[kGates];
#pragma GCC unroll 4
    for (size_t g = 0; g < kGates; ++g) {
      I product;
      if (s.first != nullptr) {
        const auto* const first = static_cast<const uint8_t*>(s.first) + row * s.first_stride;
        product = load_integers(first + g * hidden + begin, left, s.offset);
      } else {
        product = requantize(p.product, sum[g], hn::LoadU(d, factors + g * lanes));
      }
      gate[g] = dequantize(p.sums, add(p, product, load_integers(input + g * hidden, left, s.offset)));
    }
    float* const cells = s.cells + row * s.padded + begin;
    const V kept = hn::Mul(sigmoid(d, gate[1]), hn::LoadU(d, cells));
    const V cell = hn::MulAdd(sigmoid(d, gate[0]), tanh(d, gate[2]), kept);
    hn::StoreU(cell, d, cells);
    state = hn::Mul(sigmoid(d, gate[3]), tanh(d, cell));
  } else {
    V own[kGates], given[kGates];
#pragma GCC unroll 3
    for (size_t g = 0; g < kGates; ++g) {
      if (s.first != nullptr) {
        own[g] = load_floats(static_cast<const float*>(s.first) + row * s.first_stride + g * hidden + begin, left);
      } else {
        own[g] = dequantize(p.products, requantize(p.product, sum[g], hn::LoadU(d, factors + g * lanes)));
      }
      given[g] = dequantize(p.input, load_integers(input + g * hidden, left, s.offset));
    }
    const V reset = sigmoid(d, hn::Add(own[0], given[0]));
    const V update = sigmoid(d, hn::Add(own[1], given[1]));
    const V candidate = tanh(d, hn::MulAdd(own[2], reset, given[2]));
    const V difference = hn::Sub(load_floats(s.before + row * hidden + begin, left), candidate);
    state = hn::MulAdd(difference, update, candidate);
  }
  float* const after = s.after + row * hidden + begin;
  left >= lanes ? hn::StoreU(state, d, after) : hn::StoreN(state, d, after, left);
  store_state(p.state, state, s.offset, s.next + row * s.padded + begin);
}

template <size_t kGates, size_t kCount>
HWY_INLINE void step_rows(const IntegerStep& s, size_t strip, size_t row) {
  const IntegerTag di;
  const size_t lanes = hn::Lanes(di);
  const int32_t* const start = s.packed.start + strip * kGates * lanes;
  I sum[kCount][kGates];
  for (size_t g = 0; g < kGates; ++g) {
    const I initial = hn::LoadU(di, start + g * lanes);
    for (size_t r = 0; r < kCount; ++r) {
      sum[r][g] = initial;
    }
  }
  if (s.first == nullptr) {
    accumulate<kGates, kCount>(s, strip, row, sum);
  }
  for (size_t r = 0; r < kCount; ++r) {
    finish<kGates>(s, strip, row + r, sum[r]);
  }
}

template <size_t kGates>
HWY_INLINE void step_strips(const IntegerStep& s, size_t begin, size_t end) {
  for (size_t strip = begin; strip < end; ++strip) {
    size_t row = 0;
    for (; row + kRows <= s.rows; row += kRows) {
      step_rows<kGates, kRows>(s, strip, row);
    }
    for (; row < s.rows; ++row) {
      step_rows<kGates, 1>(s, strip, row);
    }
  }
}

/// Units of strips [begin, end) of StepLanes().
void StepUnits(const IntegerStep& s, size_t begin, size_t end) {
  s.packed.gates == 4 ? step_strips<4>(s, begin, end) : step_strips<3>(s, begin, end);
}

/// A state [rows, hidden] of floats as integers u [rows, padded].
void QuantizeState(const kernels::quantized::StateQuantizer& p, int32_t offset, const float* state, size_t rows,
                   size_t hidden, size_t padded, uint8_t* to) {
  const size_t lanes = hn::Lanes(Tag());
  for (size_t row = 0; row < rows; ++row) {
    for (size_t i = 0; i < hidden; i += lanes) {
      store_state(p, load_floats(state + row * hidden + i, hidden - i), offset, to + row * padded + i);
    }
  }
}

}  // namespace et::kernels::optimized::recurrent::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::recurrent {

HWY_EXPORT(QuantizeState);
HWY_EXPORT(StepLanes);
HWY_EXPORT(StepUnits);

namespace {

using kernels::quantized::QuantizedRecurrentCall;
using kernels::quantized::RecurrentPlan;
using runtime::PrepareContext;

/// Products (of two integers) that are worth a hand-over to another thread.
constexpr size_t kWorthSharing = size_t{1} << 18;

/// Where the arguments of a call stand; those from `cell` on are one further behind in an LSTM, those from `sum` on
/// five.
struct Positions {
  size_t cell, hidden_scale, weight, first, product, sum, reverse, outs;
  explicit Positions(bool is_lstm)
      : cell(4),
        hidden_scale(is_lstm ? 5 : 4),
        weight(hidden_scale + 4),
        first(weight + 3),
        product(first + 1),
        sum(product + 4),
        reverse(sum + (is_lstm ? 4 : 0)),
        outs(reverse + 1) {}
};

template <bool kLstm>
constexpr const char* op_name() {
  return kLstm ? "et::quantized_lstm" : "et::quantized_gru";
}

struct StepsState {
  PackedSteps packed;
  const float* factors;
  size_t strips, padded;
  int32_t offset;
};

/// Of the input's integers; a type that no kernel here takes has none.
std::optional<int32_t> offset_of(ScalarType dtype) {
  return dtype == ScalarType::Char   ? std::optional<int32_t>(kSignedOffset)
         : dtype == ScalarType::Byte ? std::optional<int32_t>(0)
                                     : std::nullopt;
}

bool has_type_and_order(const EValue& value, ScalarType dtype) {
  return value.is_tensor() && value.to_tensor().scalar_type() == dtype && is_row_major(value);
}

/// All that a call is checked for again, as far as it is known at load.
template <bool kLstm>
bool fits(const PrepareContext& context, Arguments args) {
  const Positions at(kLstm);
  const EValue& weight = *args[at.weight];
  const EValue& scales = *args[at.weight + 1];
  const EValue& bias = *args[at.weight + 2];
  const EValue& first = *args[at.first];
  const ScalarType dtype = args[0]->to_tensor().scalar_type();
  if (!offset_of(dtype) || !has_type_and_order(*args[0], dtype) || args[0]->to_tensor().dim() != 3 ||
      !context.is_constant(weight) ||
      !(has_type_and_order(weight, ScalarType::Char) || has_type_and_order(weight, ScalarType::Byte)) ||
      !has_type_and_order(scales, ScalarType::Float) || !context.is_constant(scales) ||
      !(bias.is_none() || (has_type_and_order(bias, ScalarType::Int) && context.is_constant(bias))) ||
      !(first.is_none() || has_type_and_order(first, kLstm ? dtype : ScalarType::Float))) {
    return false;
  }
  for (const size_t i : {size_t{3}, kLstm ? size_t{4} : size_t{3}, at.outs, at.outs + (kLstm ? 1 : 0)}) {
    const bool may_be_none = kLstm && i == 3;
    if (!(may_be_none && args[i]->is_none()) && !has_type_and_order(*args[i], ScalarType::Float)) {
      return false;
    }
  }
  const Tensor w = weight.to_tensor();
  constexpr int64_t kGates = kLstm ? 4 : 3;
  const int64_t rows = args[0]->to_tensor().size(2);
  const int64_t hidden = rows / kGates;
  return hidden > 0 && rows % kGates == 0 && w.dim() == 2 && w.size(0) == rows &&
         w.size(1) == (w.scalar_type() == ScalarType::Byte ? packed_count(hidden) : hidden) &&
         (scales.to_tensor().numel() == 1 || scales.to_tensor().numel() == rows) &&
         (bias.is_none() || bias.to_tensor().numel() == rows);
}

/// What load computes with: constants, and a zero point of 8 bits. The plain kernel says what is wrong with others.
bool has_known_scales(const PrepareContext& context, Arguments args, const Positions& at, bool is_lstm) {
  const auto is_constant = [&](size_t i) { return context.is_constant(*args[i]); };
  const int64_t zero_point = args[at.hidden_scale + 1]->number_as_int();
  const int64_t lowest = -*offset_of(args[0]->to_tensor().scalar_type());
  return is_constant(1) && is_constant(at.hidden_scale) && is_constant(at.hidden_scale + 1) &&
         is_constant(at.product) && (!is_lstm || is_constant(at.sum)) && zero_point >= lowest &&
         zero_point <= lowest + 255;
}

/// Sums of scales that are far apart are of floats, which the plain kernel computes.
bool has_fixed_sums(Arguments args, const Positions& at) {
  kernels::quantized::FixedPointSum sum;
  const auto scale = [&](size_t i) { return static_cast<float>(args[i]->number_as_double()); };
  return sum.make(scale(at.product), 0, scale(1), 0, scale(at.sum), false);
}

template <bool kLstm>
Error prepare(PrepareContext& context, Arguments args, void** state) {
  const Positions at(kLstm);
  if (!fits<kLstm>(context, args) || !has_known_scales(context, args, at, kLstm) ||
      (kLstm && !has_fixed_sums(args, at))) {
    return Error::NotSupported;
  }
  const Tensor weight = args[at.weight]->to_tensor();
  const Tensor scales = args[at.weight + 1]->to_tensor();
  const EValue& bias = *args[at.weight + 2];
  const size_t lanes = HWY_DYNAMIC_DISPATCH(StepLanes)();
  constexpr size_t kGates = kLstm ? 4 : 3;
  const StepPacking packing{&weight, kGates, static_cast<size_t>(weight.size(0)) / kGates, lanes};
  const auto hidden_scale = static_cast<float>(args[at.hidden_scale]->number_as_double());
  const auto product_scale = static_cast<float>(args[at.product]->number_as_double());
  const int32_t offset = *offset_of(args[0]->to_tensor().scalar_type());
  const int32_t zero = static_cast<int32_t>(args[at.hidden_scale + 1]->number_as_int()) + offset;

  ET_TRY(void* const memory, context.allocate(sizeof(StepsState), alignof(StepsState)));
  auto* const made = new (memory) StepsState{};
  made->strips = divide_up(packing.hidden, lanes);
  made->padded = made->strips * lanes;
  ET_TRY(made->packed.weight, packed_steps(context, packing));
  const size_t count = made->padded * kGates;
  ET_TRY(void* const numbers, context.allocate(count * (sizeof(float) + sizeof(int32_t)) + packing.hidden, 64));
  auto* const start = static_cast<int32_t*>(numbers);
  auto* const factors = reinterpret_cast<float*>(start + count);
  auto* const row = reinterpret_cast<int8_t*>(factors + count);
  std::fill_n(start, count, 0);
  std::fill_n(factors, count, 0.0f);
  for (size_t n = 0; n < packing.rows(); ++n) {
    const int8_t* const integers = packing.row(n, row);
    int32_t sum = 0;
    for (size_t k = 0; k < packing.hidden; ++k) {
      sum = kernels::quantized::multiply_add(sum, int32_t{integers[k]}, 1);
    }
    const size_t lane = packing.lane(n);
    start[lane] = kernels::quantized::multiply_add(bias.is_none() ? 0 : bias.to_tensor().const_data_ptr<int32_t>()[n],
                                                   sum, -zero);
    factors[lane] = hidden_scale * scales.const_data_ptr<float>()[scales.numel() == 1 ? 0 : n] / product_scale;
  }
  made->packed.gates = kGates;
  made->packed.hidden = packing.hidden;
  made->packed.start = start;
  made->factors = factors;
  made->offset = offset;
  *state = made;
  runtime::release(context.shared(), weight.const_data_ptr());
  return Error::Ok;
}

/// What the steps of some sequences work on.
struct Memory {
  uint8_t* states[2];  // [batch, padded]
  float* cells;        // [batch, padded]
};

/// All steps of sequences [begin, end); `pool` shares the units of each.
void run_sequences(KernelContext& context, const QuantizedRecurrentCall& call, const RecurrentPlan& plan,
                   const StepsState& state, bool reverse, const Memory& memory, size_t begin, size_t end,
                   threads::ThreadPool* pool) {
  const bool is_lstm = call.gates == 4;
  const auto steps = static_cast<size_t>(plan.steps), batch = static_cast<size_t>(plan.batch);
  const size_t hidden = state.packed.hidden, padded = state.padded, width = state.packed.gates * hidden;
  const auto units = HWY_DYNAMIC_POINTER(StepUnits);
  const bool has_first = call.first->has_value();
  const float* before = call.hidden == nullptr ? nullptr : call.hidden->const_data_ptr<float>() + begin * hidden;
  auto* const out = call.out->mutable_data_ptr<float>();
  if (!has_first) {
    HWY_DYNAMIC_DISPATCH(QuantizeState)
    (plan.state, state.offset, before, end - begin, hidden, padded, memory.states[0] + begin * padded);
  }
  for (size_t b = begin; is_lstm && b < end; ++b) {
    float* const cells = memory.cells + b * padded;
    std::fill(std::copy_n(call.cell->const_data_ptr<float>() + b * hidden, hidden, cells), cells + padded, 0.0f);
  }
  const auto stride = static_cast<size_t>(plan.first_stride);
  const size_t grain = kWorthSharing / std::max<size_t>((end - begin) * width * padded / state.strips, 1) + 1;
  for (size_t i = 0; i < steps && !context.cancelled(); ++i) {
    const size_t t = reverse ? steps - 1 - i : i;
    IntegerStep step{&plan,   state.packed, state.factors, end - begin, padded,  state.offset, nullptr,
                     nullptr, nullptr,      stride,        before,      nullptr, nullptr,      nullptr};
    step.input = static_cast<const uint8_t*>(call.input->const_data_ptr()) + (t * batch + begin) * width;
    step.state = memory.states[i % 2] + begin * padded;
    step.next = memory.states[(i + 1) % 2] + begin * padded;
    step.after = out + (t * batch + begin) * hidden;
    step.cells = is_lstm ? memory.cells + begin * padded : nullptr;
    if (i == 0 && has_first) {
      step.first = static_cast<const char*>((*call.first)->const_data_ptr()) +
                   begin * stride * (is_lstm ? sizeof(uint8_t) : sizeof(float));
    }
    threads::parallel_for(pool, state.strips, grain, [&](size_t from, size_t to) { units(step, from, to); });
    before = step.after;
  }
  for (size_t b = begin; is_lstm && b < end; ++b) {
    std::copy_n(memory.cells + b * padded, hidden, call.last_cell->mutable_data_ptr<float>() + b * hidden);
  }
}

Error run_call(KernelContext& context, const QuantizedRecurrentCall& call, const StepsState& state, bool reverse) {
  RecurrentPlan plan;
  ET_RETURN_IF_ERROR(kernels::quantized::prepare_recurrent(context, call, &plan));
  const auto batch = static_cast<size_t>(plan.batch);
  if (batch == 0) {
    return Error::Ok;
  }
  ET_TRY(void* const bytes, context.allocate_temp(batch * state.padded * (2 + sizeof(float))));
  auto* const cells = static_cast<float*>(bytes);
  auto* const states = reinterpret_cast<uint8_t*>(cells + batch * state.padded);
  std::fill_n(states, 2 * batch * state.padded, uint8_t{0});
  const Memory memory{{states, states + batch * state.padded}, cells};
  threads::ThreadPool* const pool = context.pool();
  const size_t threads = pool == nullptr ? 1 : pool->num_threads();
  const size_t products = static_cast<size_t>(plan.steps) * state.packed.gates * state.padded * state.padded;
  if (threads > 1 && batch >= threads && batch * products >= 2 * kWorthSharing) {
    threads::parallel_tasks(pool, threads, [&](size_t i) {
      run_sequences(context, call, plan, state, reverse, memory, batch * i / threads, batch * (i + 1) / threads,
                    nullptr);
    });
  } else {
    run_sequences(context, call, plan, state, reverse, memory, 0, batch, pool);
  }
  return context.cancelled() ? Error::Cancelled : Error::Ok;
}

template <bool kLstm>
Error run(KernelContext& context, Arguments args, void* opaque) {
  const Positions at(kLstm);
  const Tensor input = args[0]->to_tensor(), weight = args[at.weight]->to_tensor(),
               scales = args[at.weight + 1]->to_tensor(), out = args[at.outs]->to_tensor();
  const Tensor cell = kLstm ? args[at.cell]->to_tensor() : input;
  const Tensor last_cell = kLstm ? args[at.outs + 1]->to_tensor() : out;
  const auto optional = [&](size_t i) {
    return args[i]->is_none() ? OptionalTensor() : OptionalTensor(args[i]->to_tensor());
  };
  const OptionalTensor hidden = optional(3), bias = optional(at.weight + 2), first = optional(at.first);
  const auto integer = [&](size_t i) { return args[i]->number_as_int(); };
  const auto parameters = [&](size_t i) {
    return kernels::quantized::OutputParameters{args[i]->number_as_double(), integer(i + 1), integer(i + 2),
                                                integer(i + 3)};
  };
  const QuantizedRecurrentCall call{{op_name<kLstm>(), kLstm ? 4 : 3, &input, hidden.has_value() ? &*hidden : nullptr,
                                     kLstm ? &cell : nullptr, &first, &out, kLstm ? &last_cell : nullptr},
                                    args[1]->number_as_double(),
                                    integer(2),
                                    parameters(at.hidden_scale),
                                    &weight,
                                    &scales,
                                    &bias,
                                    parameters(at.product),
                                    kLstm ? parameters(at.sum) : kernels::quantized::OutputParameters{}};
  return run_call(context, call, *static_cast<const StepsState*>(opaque), args[at.reverse]->number_as_bool());
}

constexpr Kernel kKernels[] = {
    make_stateful_kernel<&prepare<false>, &run<false>>(signature::quantized_gru_out),
    make_stateful_kernel<&prepare<true>, &run<true>>(signature::quantized_lstm_out),
};

}  // namespace

ET_KERNEL_TABLE(quantized_recurrent, kKernels)

}  // namespace et::kernels::optimized::recurrent
#endif  // HWY_ONCE
