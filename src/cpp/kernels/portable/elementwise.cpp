#include "kernels/portable/elementwise.h"

#include "kernels/portable/at_once.h"
#include "kernels/portable/loop_nest.h"

namespace et::kernels::portable {
namespace {

constexpr int64_t kChunk = kElementsAtOnce;
constexpr size_t kMaxInputs = 4;

// Numbers as the common type holds them: before the operation they are wrapped, or rounded, as in ATen.
template <typename C>
void fit_to(ScalarType common, C* values, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<C, int64_t>) {
      switch (common) {
        case ScalarType::Byte: values[i] = static_cast<uint8_t>(values[i]); break;
        case ScalarType::Char: values[i] = static_cast<int8_t>(values[i]); break;
        case ScalarType::Short: values[i] = static_cast<int16_t>(values[i]); break;
        case ScalarType::Int: values[i] = static_cast<int32_t>(values[i]); break;
        default: break;
      }
    } else if constexpr (std::is_same_v<C, float>) {
      values[i] = rounded_to(common, values[i]);
    }
  }
}

// Whether the common type cannot hold every element. Bytes have a place in all floats.
bool needs_fitting(ScalarType common, ScalarType dtype) {
  return dtype != common && element_size(dtype) > (is_small_float(common) ? 1 : element_size(common));
}

template <typename C>
void run_typed(const ElementwiseLoop& loop, const LoopNest& nest, Span<const Tensor* const> inputs, const Tensor& out) {
  alignas(16) C buffers[kMaxInputs][kChunk];
  alignas(16) char out_buffer[kChunk * 8];
  const ScalarType out_dtype = out.scalar_type();
  const int64_t out_size = static_cast<int64_t>(element_size(out_dtype));
  const int64_t out_stride = nest.run_stride(0);
  const bool out_direct = out_dtype == loop.output_compute && (out_stride == out_size || nest.run_length() == 1);
  bool all_direct = out_direct;
  bool direct[kMaxInputs];
  bool fits[kMaxInputs];
  int64_t sizes[kMaxInputs];
  for (size_t k = 0; k < inputs.size(); ++k) {
    const ScalarType dtype = inputs[k]->scalar_type();
    sizes[k] = static_cast<int64_t>(element_size(dtype));
    const bool is_exact = std::is_same_v<C, float> && loop.last_number == LastNumber::kExact &&
                          k + 1 == inputs.size() && inputs[k]->numel() == 1;
    fits[k] = is_exact || !needs_fitting(loop.common, dtype);
    direct[k] = fits[k] && dtype == dtype_of<C> && (nest.run_stride(k + 1) == sizes[k] || nest.run_length() == 1);
    all_direct = all_direct && direct[k];
  }
  nest.for_each_run([&](char* const* pointers, int64_t n) {
    const int64_t step = all_direct ? n : kChunk;
    for (int64_t start = 0; start < n; start += step) {
      const int64_t count = n - start < step ? n - start : step;
      const void* in[kMaxInputs];
      for (size_t k = 0; k < inputs.size(); ++k) {
        const int64_t stride = nest.run_stride(k + 1);
        const char* data = pointers[k + 1] + start * stride;
        if (direct[k]) {
          in[k] = data;
          continue;
        }
        in[k] = buffers[k];
        if (stride != 0 || start == 0) {  // a broadcast value fills the buffer once a run
          load(inputs[k]->scalar_type(), data, stride / sizes[k], count, buffers[k]);
          if (!fits[k]) {
            fit_to(loop.common, buffers[k], count);
          }
        }
      }
      char* target = pointers[0] + start * out_stride;
      if (out_direct) {
        loop.run(loop.state, in, target, count);
        continue;
      }
      loop.run(loop.state, in, out_buffer, count);
      const int64_t stride = out_stride / out_size;
      switch (loop.output_compute) {
        case ScalarType::Float:
          store(out_dtype, reinterpret_cast<const float*>(out_buffer), count, target, stride);
          break;
        case ScalarType::Double:
          store(out_dtype, reinterpret_cast<const double*>(out_buffer), count, target, stride);
          break;
        case ScalarType::Bool:
          store(out_dtype, reinterpret_cast<const bool*>(out_buffer), count, target, stride);
          break;
        default: store(out_dtype, reinterpret_cast<const int64_t*>(out_buffer), count, target, stride); break;
      }
    }
  });
}

}  // namespace

Error run_elementwise(KernelContext& context, const char* op, const ElementwiseLoop& loop,
                      Span<const Tensor* const> inputs, const Tensor& out) {
  ET_DCHECK(inputs.size() <= kMaxInputs);
  Sizes sizes(inputs[0]->sizes());
  for (const Tensor* input : inputs) {
    ET_CHECK_OR_RETURN(!is_complex(input->scalar_type()), InvalidType, "%s: complex numbers are not supported", op);
    ET_RETURN_IF_ERROR(broadcast_sizes(op, sizes, input->sizes(), &sizes));
  }
  ET_CHECK_OR_RETURN(!is_complex(out.scalar_type()), InvalidType, "%s: complex numbers are not supported", op);
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  LoopNest nest(sizes);
  nest.add(out.const_data_ptr(), out.strides(), out.element_size());
  for (const Tensor* input : inputs) {
    nest.add_broadcast(*input);
  }
  nest.simplify();
  return dispatch_compute(loop.common, [&](auto zero) {
    constexpr size_t kCost = 2;  // more than a copy; for what is far more, a hand-over is cheap anyway
    parallel_parts(context, nest, kCost,
                   [&](const LoopNest& part) { run_typed<decltype(zero)>(loop, part, inputs, out); });
    return Error::Ok;
  });
}

}  // namespace et::kernels::portable
