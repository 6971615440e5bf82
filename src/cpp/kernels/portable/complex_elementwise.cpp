#include "kernels/portable/complex_elementwise.h"

#include "kernels/portable/convert.h"
#include "kernels/portable/loop_nest.h"

namespace et::kernels::portable {
namespace {

constexpr size_t kMaxInputs = 4;

Complex load_complex(ScalarType dtype, const char* element) {
  if (dtype == ScalarType::ComplexFloat) {
    const auto& value = *reinterpret_cast<const ComplexFloat*>(element);
    return {static_cast<double>(value.re), static_cast<double>(value.im)};
  }
  if (dtype == ScalarType::ComplexDouble) {
    const auto& value = *reinterpret_cast<const ComplexDouble*>(element);
    return {value.re, value.im};
  }
  return {load_one<double>(dtype, element), 0.0};
}

void store_complex(ScalarType dtype, Complex value, char* element) {
  if (dtype == ScalarType::ComplexFloat) {
    *reinterpret_cast<ComplexFloat*>(element) = {static_cast<float>(value.real()), static_cast<float>(value.imag())};
  } else if (dtype == ScalarType::ComplexDouble) {
    *reinterpret_cast<ComplexDouble*>(element) = {value.real(), value.imag()};
  } else {
    store_one<double>(dtype, value.real(), element);
  }
}

}  // namespace

Error run_complex(KernelContext& context, const char* op, const ComplexFunction& function,
                  Span<const Tensor* const> inputs, const Tensor& out) {
  ET_DCHECK(inputs.size() <= kMaxInputs);
  Sizes sizes(inputs[0]->sizes());
  for (const Tensor* input : inputs) {
    ET_RETURN_IF_ERROR(broadcast_sizes(op, sizes, input->sizes(), &sizes));
  }
  ET_RETURN_IF_ERROR(resize_tensor(context, out, sizes));
  LoopNest nest(sizes);
  nest.add(out.const_data_ptr(), out.strides(), out.element_size());
  for (const Tensor* input : inputs) {
    nest.add_broadcast(*input);
  }
  nest.simplify();
  constexpr size_t kCost = 32;  // some 10 ns for a product, 40 for an exponential function
  parallel_parts(context, nest, kCost, [&](const LoopNest& part) {
    part.for_each_run([&](char* const* pointers, int64_t n) {
      Complex values[kMaxInputs];
      for (int64_t i = 0; i < n; ++i) {
        for (size_t k = 0; k < inputs.size(); ++k) {
          values[k] = load_complex(inputs[k]->scalar_type(), pointers[k + 1] + i * part.run_stride(k + 1));
        }
        store_complex(out.scalar_type(), function.run(function.state, values), pointers[0] + i * part.run_stride(0));
      }
    });
  });
  return Error::Ok;
}

}  // namespace et::kernels::portable
