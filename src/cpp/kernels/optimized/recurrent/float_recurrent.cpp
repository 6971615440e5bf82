// et::dynamic_lstm, et::dynamic_gru, et::weight_only_lstm and et::weight_only_gru: the steps of a layer. Each step is
// the product of et::dynamic_linear or et::weight_only_linear, with the weight that load has packed, and the gates of
// et::lstm_gates or et::gru_gates. The bits are those of the operators one by one.

#include <algorithm>
#include <array>
#include <new>

#include "kernels/optimized/quantized/float_products.h"
#include "kernels/optimized/recurrent/step_gates.h"
#include "kernels/optimized/vec/table.h"
#include "kernels/quantized/recurrent_steps.h"
#include "ops/signatures/quantized/op_float_recurrent.h"

namespace et::kernels::optimized::recurrent {
namespace {

using kernels::quantized::RecurrentCall;
using kernels::quantized::RecurrentShape;
using kernels::quantized::RecurrentStep;
using runtime::PrepareContext;

/// A layer of this form.
struct Form {
  const char* op;
  const quantized::FloatProduct* product;
  bool is_lstm;
};
constexpr Form kForms[] = {
    {"et::dynamic_gru", &quantized::kDynamicProduct, false},
    {"et::dynamic_lstm", &quantized::kDynamicProduct, true},
    {"et::weight_only_gru", &quantized::kWeightOnlyProduct, false},
    {"et::weight_only_lstm", &quantized::kWeightOnlyProduct, true},
};
/// Arguments of et::dynamic_linear, which has most.
constexpr size_t kMostArguments = 11;

/// Where the arguments of a call stand: input, hidden, cell (LSTM), those of the product without its input, first,
/// reverse, outs.
struct Positions {
  size_t hidden = 1, cell = 2, product, first, reverse, outs;
  explicit Positions(const Form& form)
      : product(form.is_lstm ? 3 : 2),
        first(product + form.product->num_arguments - 2),
        reverse(first + 1),
        outs(reverse + 1) {}
};

/// The arguments of a step's product: of a state, to what stands for the products of the inputs.
class ProductArguments {
 public:
  ProductArguments(const Form& form, const Positions& at, Arguments args) : count_(form.product->num_arguments) {
    list_[0] = args[at.outs];
    std::copy_n(args.data() + at.product, count_ - 2, list_.begin() + 1);
    list_[count_ - 1] = args[0];
  }
  Arguments get() const { return {list_.data(), count_}; }

 private:
  std::array<EValue*, kMostArguments> list_{};
  size_t count_;
};

bool is_float_rows(const EValue& value) { return is_float(value) && is_row_major(value); }

template <size_t kForm>
Error prepare(PrepareContext& context, Arguments args, void** state) {
  constexpr const Form& form = kForms[kForm];
  const Positions at(form);
  const EValue &hidden = *args[at.hidden], &first = *args[at.first];
  if (!is_float_rows(*args[0]) || args[0]->to_tensor().dim() != 3 ||
      !((form.is_lstm && hidden.is_none()) || is_float_rows(hidden)) || !(first.is_none() || is_float_rows(first)) ||
      !is_float_rows(*args[at.outs]) ||
      (form.is_lstm && !(is_float_rows(*args[at.cell]) && is_float_rows(*args[at.outs + 1])))) {
    return Error::NotSupported;
  }
  return form.product->prepare(context, ProductArguments(form, at, args).get(), state);
}

template <size_t kForm>
Error run(KernelContext& context, Arguments args, void* state) {
  constexpr const Form& form = kForms[kForm];
  const Positions at(form);
  const auto optional = [&](size_t i) {
    return args[i]->is_none() ? OptionalTensor() : OptionalTensor(args[i]->to_tensor());
  };
  const OptionalTensor hidden = optional(at.hidden), first = optional(at.first);
  const Tensor input = args[0]->to_tensor(), out = args[at.outs]->to_tensor();
  const Tensor cell = form.is_lstm ? args[at.cell]->to_tensor() : input;
  const Tensor last_cell = form.is_lstm ? args[at.outs + 1]->to_tensor() : out;
  const RecurrentCall call{form.op,
                           form.is_lstm ? 4 : 3,
                           &input,
                           hidden.has_value() ? &*hidden : nullptr,
                           form.is_lstm ? &cell : nullptr,
                           &first,
                           &out,
                           form.is_lstm ? &last_cell : nullptr};
  RecurrentShape shape;
  ET_RETURN_IF_ERROR(kernels::quantized::prepare_steps(context, call, ScalarType::Float, &shape));
  float* const cells = kernels::quantized::start_cells(call, shape);
  if (out.numel() == 0) {
    return Error::Ok;  // however many steps or sequences there are
  }
  const auto batch = static_cast<size_t>(shape.batch), units = static_cast<size_t>(shape.hidden);
  const size_t row = static_cast<size_t>(call.gates) * units;
  ET_TRY(void* const product,
         form.product->start(context, form.op, ProductArguments(form, at, args).get(), state, {batch, units, row}));
  ET_TRY(void* const memory, context.allocate_temp(batch * row * sizeof(float)));
  auto* const products = static_cast<float*>(memory);
  const auto* const inputs = input.const_data_ptr<float>();
  const GateRows rows{batch, units};
  return kernels::quantized::for_each_step(
      context, call, shape, args[at.reverse]->number_as_bool(), [&](const RecurrentStep& step) {
        for (size_t b = 0; step.is_given && b < batch; ++b) {
          std::copy_n(first->const_data_ptr<float>() + b * static_cast<size_t>(shape.first_stride), row,
                      products + b * row);
        }
        if (!step.is_given) {
          ET_RETURN_IF_ERROR(form.product->multiply(context, product, step.before, products));
        }
        const float* const in = inputs + static_cast<size_t>(step.time) * batch * row;
        if (form.is_lstm) {
          step_rows(context.pool(), LstmRows{rows, products, in, cells, step.after, cells});
        } else {
          step_rows(context.pool(), GruRows{rows, in, products, step.before, step.after});
        }
        return Error::Ok;
      });
}

template <size_t kForm>
constexpr Kernel kernel(const Signature& signature) {
  return make_stateful_kernel<&prepare<kForm>, &run<kForm>>(signature);
}

constexpr Kernel kKernels[] = {
    kernel<0>(signature::dynamic_gru_out),
    kernel<1>(signature::dynamic_lstm_out),
    kernel<2>(signature::weight_only_gru_out),
    kernel<3>(signature::weight_only_lstm_out),
};

}  // namespace

ET_KERNEL_TABLE(float_recurrent, kKernels)

}  // namespace et::kernels::optimized::recurrent
