// Pointwise operators of quantized tensors: sums, differences and products of 8-bit integers, tables of 256 entries,
// floats to integers and back. Bit for bit what the plain kernels give (docs/reference/numerics.md); calls that those
// refuse are left to them.

#define ET_TARGETS_WITH_BYTE_PRODUCTS  // they have tables of 128 bytes, too
#include "kernels/optimized/vec/every_target-inl.h"

#include "kernels/optimized/pointwise/pointwise-inl.h"
#include "kernels/optimized/quantized/arguments.h"
#include "kernels/optimized/quantized/pointwise.h"
#include "kernels/optimized/vec/table.h"
#include "ops/signatures/portable/op_quantize.h"
#include "ops/signatures/quantized/op_elementwise.h"
#include "threads/parallel.h"

HWY_BEFORE_NAMESPACE();
namespace et::kernels::optimized::quantized::HWY_NAMESPACE {
using namespace optimized::HWY_NAMESPACE;  // NOLINT: of vec

// Functors keep parameters by value: after a byte is stored a compiler would read them again.

/// out[i] = fn(a[i], b[i]) where a stride is 1, or one element for all where it is 0. T: a, b and out; fn: vectors of
/// int32.
template <class T, class Fn>
HWY_INLINE void pair_integers(const Fn& fn, const pointwise::PointwiseBlock& block) {
  pointwise::HWY_NAMESPACE::pair_rows<T, T>(
      [fn](auto a_moves, auto b_moves, const T* a, const T* b, T* out, size_t n) HWY_ATTR {
        const hn::ScalableTag<int32_t> d;
        const hn::Rebind<T, decltype(d)> bytes;
        const auto one_a = hn::Set(d, *a);
        const auto one_b = hn::Set(d, *b);
        over_vectors<int32_t>(n, [&](auto whole, size_t i, size_t left) HWY_ATTR {
          const auto x = a_moves ? hn::PromoteTo(d, load(bytes, whole, a + i, left)) : one_a;
          const auto y = b_moves ? hn::PromoteTo(d, load(bytes, whole, b + i, left)) : one_b;
          store(bytes, whole, narrow(bytes, fn(d, x, y)), out + i, left);
        });
      },
      block);
}

template <class T>
HWY_INLINE void add_integers(const pointwise::PointwiseBlock& block) {
  pair_integers<T>(
      [p = *static_cast<const SumParameters*>(block.parameters)](auto d, auto a, auto b) HWY_ATTR {
        const auto from_a = hn::Add(hn::Set(d, p.sum.bias), hn::Mul(a, hn::Set(d, p.sum.a_factor)));
        const auto wide = hn::Add(from_a, hn::Mul(b, hn::Set(d, p.sum.b_factor)));
        const auto sum = hn::Add(hn::ShiftRightSame(wide, static_cast<int>(p.sum.shift)), hn::Set(d, p.zero_point));
        return hn::Min(hn::Max(sum, hn::Set(d, p.min)), hn::Set(d, p.max));
      },
      block);
}

template <class T>
HWY_INLINE void multiply_integers(const pointwise::PointwiseBlock& block) {
  pair_integers<T>(
      [p = *static_cast<const ProductParameters*>(block.parameters)](auto d, auto a, auto b) HWY_ATTR {
        const hn::RebindToFloat<decltype(d)> df;
        const auto product = hn::Mul(hn::Sub(a, hn::Set(d, p.a_zero)), hn::Sub(b, hn::Set(d, p.b_zero)));
        const auto units = hn::Mul(hn::ConvertTo(df, product), hn::Set(df, p.scale));
        const auto bounded = hn::Min(hn::Max(units, hn::Set(df, p.low)), hn::Set(df, p.high));
        return hn::Add(hn::ConvertInRangeTo(d, hn::Round(bounded)), hn::Set(d, p.zero_point));
      },
      block);
}

void AddChar(const pointwise::PointwiseBlock& block) { add_integers<int8_t>(block); }
void AddByte(const pointwise::PointwiseBlock& block) { add_integers<uint8_t>(block); }
void MultiplyChar(const pointwise::PointwiseBlock& block) { multiply_integers<int8_t>(block); }
void MultiplyByte(const pointwise::PointwiseBlock& block) { multiply_integers<uint8_t>(block); }

/// out = fn(x) for one operand, converted by the functor from a vector of From to one of as many To; `one` for single
/// elements.
template <class From, class To, class Fn, class One>
HWY_INLINE void convert_elements(const Fn& fn, const One& one, const pointwise::PointwiseBlock& block) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<From, decltype(d)> from;
  const hn::Rebind<To, decltype(d)> to;
  const size_t lanes = hn::Lanes(d);
  const int64_t step = block.column_stride[0];
  for (size_t r = 0; r < block.rows; ++r) {
    const From* const x = static_cast<const From*>(block.in[0]) + static_cast<int64_t>(r) * block.row_stride[0];
    To* const out = static_cast<To*>(block.out) + r * block.columns;
    if (step != 1) {
      for (size_t c = 0; c < block.columns; ++c) {
        out[c] = one(x[static_cast<int64_t>(c) * step]);
      }
      continue;
    }
    size_t i = 0;
    for (; i + 2 * lanes <= block.columns; i += 2 * lanes) {
      const auto y0 = fn(d, to, hn::LoadU(from, x + i));
      const auto y1 = fn(d, to, hn::LoadU(from, x + i + lanes));
      hn::StoreU(y0, to, out + i);
      hn::StoreU(y1, to, out + i + lanes);
    }
    for (; i < block.columns; i += lanes) {
      const size_t left = HWY_MIN(lanes, block.columns - i);
      hn::StoreN(fn(d, to, hn::LoadN(from, x + i, left)), to, out + i, left);
    }
  }
}

/// NaN becomes 0, whatever the range: the plain kernel's conversion.
template <class T>
HWY_INLINE void quantize(const pointwise::PointwiseBlock& block) {
  const auto p = *static_cast<const QuantizeParameters*>(block.parameters);  // whose range is within T's
  const auto fn = [p](auto d, auto to, auto x) HWY_ATTR {
    const hn::RebindToSigned<decltype(d)> di;
    const auto shifted = hn::Add(hn::Round(hn::Mul(x, hn::Set(d, p.inverse))), hn::Set(d, p.zero_point));
    const auto bounded = hn::Min(hn::Max(shifted, hn::Set(d, p.low)), hn::Set(d, p.high));
    const auto number = hn::IfThenZeroElse(hn::IsNaN(shifted), bounded);
    return narrow(to, hn::ConvertInRangeTo(di, number));
  };
  const auto one = [p](float x) HWY_ATTR {
    const hn::CappedTag<float, 1> d;
    const auto shifted = hn::Add(hn::Round(hn::Mul(hn::Set(d, x), hn::Set(d, p.inverse))), hn::Set(d, p.zero_point));
    const float number = hn::GetLane(hn::Min(hn::Max(shifted, hn::Set(d, p.low)), hn::Set(d, p.high)));
    return hn::AllTrue(d, hn::IsNaN(shifted)) ? T{0} : static_cast<T>(static_cast<int32_t>(number));
  };
  convert_elements<float, T>(fn, one, block);
}

template <class T>
HWY_INLINE void dequantize(const pointwise::PointwiseBlock& block) {
  const auto fn = [a = static_cast<float>(block.a), b = static_cast<float>(block.b)](auto d, auto /*to*/, auto q)
                      HWY_ATTR {
                        const hn::RebindToSigned<decltype(d)> di;
                        const auto x = hn::ConvertTo(d, hn::PromoteTo(di, q));
                        return hn::Mul(hn::Sub(x, hn::Set(d, a)), hn::Set(d, b));
                      };
  const auto one = [a = static_cast<float>(block.a), b = static_cast<float>(block.b)](T q)
                       HWY_ATTR { return (static_cast<float>(q) - a) * b; };
  convert_elements<T, float>(fn, one, block);
}

void QuantizeChar(const pointwise::PointwiseBlock& block) { quantize<int8_t>(block); }
void QuantizeByte(const pointwise::PointwiseBlock& block) { quantize<uint8_t>(block); }
void QuantizeShort(const pointwise::PointwiseBlock& block) { quantize<int16_t>(block); }
void DequantizeChar(const pointwise::PointwiseBlock& block) { dequantize<int8_t>(block); }
void DequantizeByte(const pointwise::PointwiseBlock& block) { dequantize<uint8_t>(block); }
void DequantizeShort(const pointwise::PointwiseBlock& block) { dequantize<int16_t>(block); }

/// Where an instruction has a table of 128 bytes the entries stand in two of them. Elsewhere they stand in 16 vectors,
/// each looked up by the low half of a byte and taken where its number is the high half.
void LookUp(const pointwise::PointwiseBlock& block) {
  const auto& p = *static_cast<const TableParameters*>(block.parameters);
  const hn::ScalableTag<uint8_t> d;
  const size_t lanes = hn::Lanes(d);
  const auto flip = hn::Set(d, p.flip);
#if HWY_TARGET <= HWY_AVX3_DL
  const hn::RebindToSigned<decltype(d)> di;
  const auto first = hn::LoadU(d, p.entries), second = hn::LoadU(d, p.entries + 64);
  const auto third = hn::LoadU(d, p.entries + 128), fourth = hn::LoadU(d, p.entries + 192);
  const auto look_up = [&](auto x) HWY_ATTR {
    const auto index = hn::Xor(x, flip);
    const auto within = hn::IndicesFromVec(d, hn::And(index, hn::Set(d, uint8_t{127})));
    const auto low = hn::TwoTablesLookupLanes(d, first, second, within);
    const auto high = hn::TwoTablesLookupLanes(d, third, fourth, within);
    return hn::BitCast(d, hn::IfNegativeThenElse(hn::BitCast(di, index), hn::BitCast(di, high), hn::BitCast(di, low)));
  };
#else
  const auto look_up = [&](auto x) HWY_ATTR {
    const auto index = hn::Xor(x, flip);
    const auto low = hn::And(index, hn::Set(d, uint8_t{15}));
    const auto high = hn::ShiftRight<4>(index);
    auto found = hn::TableLookupBytes(hn::LoadDup128(d, p.entries), low);
    for (size_t k = 1; k < 16; ++k) {
      const auto part = hn::TableLookupBytes(hn::LoadDup128(d, p.entries + 16 * k), low);
      found = hn::IfThenElse(hn::Eq(high, hn::Set(d, static_cast<uint8_t>(k))), part, found);
    }
    return found;
  };
#endif
  const int64_t step = block.column_stride[0];
  for (size_t r = 0; r < block.rows; ++r) {
    const uint8_t* const x = static_cast<const uint8_t*>(block.in[0]) + static_cast<int64_t>(r) * block.row_stride[0];
    uint8_t* const out = static_cast<uint8_t*>(block.out) + r * block.columns;
    size_t i = 0;
    for (; step == 1 && i + lanes <= block.columns; i += lanes) {
      hn::StoreU(look_up(hn::LoadU(d, x + i)), d, out + i);
    }
    if (step == 1 && i < block.columns) {
      const size_t left = block.columns - i;
      hn::StoreN(look_up(hn::LoadN(d, x + i, left)), d, out + i, left);
      continue;
    }
    for (; i < block.columns; ++i) {
      out[i] = p.entries[x[static_cast<int64_t>(i) * step] ^ p.flip];
    }
  }
}

}  // namespace et::kernels::optimized::quantized::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace et::kernels::optimized::quantized {

HWY_EXPORT(AddChar);
HWY_EXPORT(AddByte);
HWY_EXPORT(MultiplyChar);
HWY_EXPORT(MultiplyByte);
HWY_EXPORT(QuantizeChar);
HWY_EXPORT(QuantizeByte);
HWY_EXPORT(QuantizeShort);
HWY_EXPORT(DequantizeChar);
HWY_EXPORT(DequantizeByte);
HWY_EXPORT(DequantizeShort);
HWY_EXPORT(LookUp);

pointwise::BlockFunction quantize_loop(ScalarType to) {
  return to == ScalarType::Char   ? HWY_DYNAMIC_POINTER(QuantizeChar)
         : to == ScalarType::Byte ? HWY_DYNAMIC_POINTER(QuantizeByte)
                                  : HWY_DYNAMIC_POINTER(QuantizeShort);
}
pointwise::BlockFunction dequantize_loop(ScalarType from) {
  return from == ScalarType::Char   ? HWY_DYNAMIC_POINTER(DequantizeChar)
         : from == ScalarType::Byte ? HWY_DYNAMIC_POINTER(DequantizeByte)
                                    : HWY_DYNAMIC_POINTER(DequantizeShort);
}

void run_loop(KernelContext& context, pointwise::BlockFunction loop, const Tensor& input, void* out, size_t size,
              const pointwise::PointwiseBlock& numbers) {
  const auto* const from = static_cast<const char*>(input.const_data_ptr());
  auto* const to = static_cast<char*>(out);
  threads::parallel_for(context, static_cast<size_t>(input.numel()), threads::kGrainElements,
                        [&](size_t begin, size_t end) {
                          pointwise::PointwiseBlock block = numbers;
                          block.in[0] = from + begin * input.element_size();
                          block.out = to + begin * size;
                          block.rows = 1;
                          block.columns = end - begin;
                          block.column_stride[0] = 1;
                          loop(block);
                        });
}

namespace {

int32_t integer(const EValue& value) { return static_cast<int32_t>(value.number_as_int()); }

/// (self, scale, zero_point, other, scale, zero_point, output_scale, output_zero_point, output_min, output_max, out):
/// all of one 8-bit type, parameters within it.
struct PairArguments {
  ScalarType dtype = ScalarType::Char;
  float a_scale = 0, b_scale = 0, output_scale = 0;
  int32_t a_zero = 0, b_zero = 0, zero_point = 0, min = 0, max = 0;

  bool read(Arguments args) {
    dtype = args[0]->to_tensor().scalar_type();
    const IntegerRange range(dtype);
    a_zero = integer(*args[2]), b_zero = integer(*args[5]);
    zero_point = integer(*args[7]), min = integer(*args[8]), max = integer(*args[9]);
    return (dtype == ScalarType::Char || dtype == ScalarType::Byte) && args[3]->to_tensor().scalar_type() == dtype &&
           args[10]->to_tensor().scalar_type() == dtype && read_scale(*args[1], &a_scale) &&
           read_scale(*args[4], &b_scale) && read_scale(*args[6], &output_scale) && range.has(*args[2]) &&
           range.has(*args[5]) && range.has(*args[7]) && range.has(*args[8]) && range.has(*args[9]) && min <= max;
  }
};

Error choose_sum(Arguments args, bool subtract, pointwise::PointwiseOperation* operation) {
  PairArguments p;
  SumParameters sum{};
  // Scales that are far apart make a sum of floats, which the plain kernel computes.
  if (!p.read(args) || !sum.sum.make(p.a_scale, p.a_zero, p.b_scale, p.b_zero, p.output_scale, subtract)) {
    return Error::NotSupported;
  }
  sum.zero_point = p.zero_point, sum.min = p.min, sum.max = p.max;
  operation->name = subtract ? "et::quantized_sub" : "et::quantized_add";
  operation->function = p.dtype == ScalarType::Char ? HWY_DYNAMIC_POINTER(AddChar) : HWY_DYNAMIC_POINTER(AddByte);
  operation->set_parameters(sum);
  operation->add_tensor(args, 0);
  operation->add_tensor(args, 3);
  return Error::Ok;
}

Error choose_add(Arguments args, pointwise::PointwiseOperation* operation) {
  return choose_sum(args, false, operation);
}
Error choose_subtract(Arguments args, pointwise::PointwiseOperation* operation) {
  return choose_sum(args, true, operation);
}

Error choose_multiply(Arguments args, pointwise::PointwiseOperation* operation) {
  PairArguments p;
  if (!p.read(args)) {
    return Error::NotSupported;
  }
  const float scale = p.a_scale * p.b_scale / p.output_scale;
  if (!std::isfinite(scale)) {
    return Error::NotSupported;
  }
  operation->name = "et::quantized_mul";
  operation->function =
      p.dtype == ScalarType::Char ? HWY_DYNAMIC_POINTER(MultiplyChar) : HWY_DYNAMIC_POINTER(MultiplyByte);
  operation->set_parameters(ProductParameters{scale, static_cast<float>(p.min - p.zero_point),
                                              static_cast<float>(p.max - p.zero_point), p.a_zero, p.b_zero,
                                              p.zero_point});
  operation->add_tensor(args, 0);
  operation->add_tensor(args, 3);
  return Error::Ok;
}

// quantize_per_tensor(input, scale, zero_point, quant_min, quant_max, dtype, out)
Error choose_quantize(Arguments args, pointwise::PointwiseOperation* operation) {
  const ScalarType dtype = args[6]->to_tensor().scalar_type();
  const IntegerRange range(dtype);
  const double scale = args[1]->number_as_double();
  if (!is_float(*args[0]) || args[5]->number_as_int() != static_cast<int64_t>(dtype) || !range.has(*args[3]) ||
      !range.has(*args[4]) || scale == 0) {
    return Error::NotSupported;
  }
  operation->name = "quantized_decomposed::quantize_per_tensor";
  operation->function = quantize_loop(dtype);
  operation->set_parameters(
      QuantizeParameters{static_cast<float>(1.0 / scale), static_cast<float>(args[2]->number_as_int()),
                         static_cast<float>(args[3]->number_as_int()), static_cast<float>(args[4]->number_as_int())});
  operation->add_tensor(args, 0);
  return Error::Ok;
}

// dequantize_per_tensor(input, scale, zero_point, quant_min, quant_max, dtype, out_dtype?, out)
Error choose_dequantize(Arguments args, pointwise::PointwiseOperation* operation) {
  const ScalarType dtype = args[0]->to_tensor().scalar_type();
  const IntegerRange range(dtype);
  if (range.low > range.high || args[5]->number_as_int() != static_cast<int64_t>(dtype) || !is_float(*args[7]) ||
      (!args[6]->is_none() && args[6]->number_as_int() != static_cast<int64_t>(ScalarType::Float))) {
    return Error::NotSupported;
  }
  operation->name = "quantized_decomposed::dequantize_per_tensor";
  operation->function = dequantize_loop(dtype);
  operation->a = static_cast<float>(static_cast<double>(args[2]->number_as_int()));
  operation->b = static_cast<float>(args[1]->number_as_double());
  operation->add_tensor(args, 0);
  return Error::Ok;
}

// quantized_table(self, table, out)
Error choose_table(Arguments args, pointwise::PointwiseOperation* operation) {
  const Tensor table = args[1]->to_tensor();
  const ScalarType from = args[0]->to_tensor().scalar_type();
  const ScalarType to = args[2]->to_tensor().scalar_type();
  if ((from != ScalarType::Char && from != ScalarType::Byte) || to != table.scalar_type() ||
      (to != ScalarType::Char && to != ScalarType::Byte) || table.numel() != 256 || !is_row_major(*args[1])) {
    return Error::NotSupported;
  }
  operation->name = "et::quantized_table";
  operation->function = HWY_DYNAMIC_POINTER(LookUp);
  operation->cost = pointwise::kDivides;
  // The entry of the smallest integer stands first.
  operation->set_parameters(TableParameters{static_cast<const uint8_t*>(table.const_data_ptr()),
                                            static_cast<uint8_t>(from == ScalarType::Char ? 128 : 0)});
  operation->add_tensor(args, 0);
  return Error::Ok;
}

Error prepare_table(runtime::PrepareContext& context, Arguments args, void** state) {
  return context.is_constant(*args[1]) ? pointwise::prepare_pointwise(context, args, &choose_table, state)
                                       : Error::NotSupported;
}

constexpr Kernel kKernels[] = {
    pointwise::make_pointwise_kernel<&choose_dequantize>(signature::dequantize_per_tensor_out),
    pointwise::make_pointwise_kernel<&choose_quantize>(signature::quantize_per_tensor_out),
    pointwise::make_pointwise_kernel<&choose_add>(signature::quantized_add_out),
    pointwise::make_pointwise_kernel<&choose_multiply>(signature::quantized_mul_out),
    pointwise::make_pointwise_kernel<&choose_subtract>(signature::quantized_sub_out),
    make_stateful_kernel<&prepare_table, &pointwise::run_pointwise>(signature::quantized_table_out),
};

}  // namespace

ET_KERNEL_TABLE(pointwise, kKernels)

}  // namespace et::kernels::optimized::quantized
#endif  // HWY_ONCE
