#include "training/update_rules.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/half.h"

namespace et::training {
namespace {

/// Calls `function` with a value of the element type.
template <typename Function>
void with_element_type(ScalarType dtype, Function&& function) {
  switch (dtype) {
    case ScalarType::Float: return function(float{});
    case ScalarType::Double: return function(double{});
    case ScalarType::Half: return function(Half{});
    case ScalarType::BFloat16: return function(BFloat16{});
    default: return;  // refused when the optimizer is made
  }
}

template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Loops without branches, which the compiler turns into vector code.
template <typename T>
void sgd(const SGDOptions& options, const Update& update) {
  using W = Wide<T>;
  T* __restrict const param = static_cast<T*>(update.param);
  const T* __restrict const grad = static_cast<const T*>(update.grad);
  T* __restrict const momentum_buffer = static_cast<T*>(update.buffers[0]);
  const W lr = static_cast<W>(options.lr);
  const W decay = static_cast<W>(options.weight_decay);
  if (momentum_buffer == nullptr) {
    for (int64_t i = 0; i < update.count; ++i) {
      const W value = static_cast<W>(param[i]);
      const W slope = decay == 0 ? static_cast<W>(grad[i]) : static_cast<W>(grad[i]) + decay * value;
      param[i] = static_cast<T>(value - lr * slope);
    }
    return;
  }
  const W momentum = static_cast<W>(options.momentum);
  const W added = static_cast<W>(1 - options.dampening);
  const bool is_first = update.step == 1;  // the first gradient becomes the momentum as it is
  for (int64_t i = 0; i < update.count; ++i) {
    const W value = static_cast<W>(param[i]);
    const W slope = decay == 0 ? static_cast<W>(grad[i]) : static_cast<W>(grad[i]) + decay * value;
    const W moved = is_first ? slope : momentum * static_cast<W>(momentum_buffer[i]) + added * slope;
    momentum_buffer[i] = static_cast<T>(moved);
    param[i] = static_cast<T>(value - lr * (options.nesterov ? slope + momentum * moved : moved));
  }
}

template <typename T, bool kAmsgrad>
void adamw(const AdamWOptions& options, const Update& update) {
  using W = Wide<T>;
  T* __restrict const param = static_cast<T*>(update.param);
  const T* __restrict const grad = static_cast<const T*>(update.grad);
  T* __restrict const exp_avg = static_cast<T*>(update.buffers[0]);
  T* __restrict const exp_avg_sq = static_cast<T*>(update.buffers[1]);
  T* __restrict const largest = static_cast<T*>(update.buffers[2]);
  const double step = static_cast<double>(update.step);
  const W kept = static_cast<W>(1 - options.lr * options.weight_decay);
  const W toward = static_cast<W>(1 - options.beta1);
  const W beta2 = static_cast<W>(options.beta2);
  const W toward_square = static_cast<W>(1 - options.beta2);
  const W step_size = static_cast<W>(options.lr / (1 - std::pow(options.beta1, step)));
  const W root_of_correction = static_cast<W>(std::sqrt(1 - std::pow(options.beta2, step)));
  const W eps = static_cast<W>(options.eps);
  for (int64_t i = 0; i < update.count; ++i) {
    const W slope = static_cast<W>(grad[i]);
    const W average = static_cast<W>(exp_avg[i]) + toward * (slope - static_cast<W>(exp_avg[i]));
    W square = beta2 * static_cast<W>(exp_avg_sq[i]) + toward_square * slope * slope;
    exp_avg[i] = static_cast<T>(average);
    exp_avg_sq[i] = static_cast<T>(square);
    if constexpr (kAmsgrad) {
      square = std::max(static_cast<W>(largest[i]), square);
      largest[i] = static_cast<T>(square);
    }
    const W denominator = std::sqrt(square) / root_of_correction + eps;
    param[i] = static_cast<T>(kept * static_cast<W>(param[i]) - step_size * (average / denominator));
  }
}

}  // namespace

bool is_trainable(ScalarType dtype) {
  return dtype == ScalarType::Float || dtype == ScalarType::Double || dtype == ScalarType::Half ||
         dtype == ScalarType::BFloat16;
}

#define ET_CHECK_OPTION(rule, condition, name, value, wanted) \
  ET_CHECK_OR_RETURN(condition, InvalidArgument, rule ": " name " is %g, must be " wanted, value)

Error SGDRule::check(const SGDOptions& options) {
  ET_CHECK_OPTION("SGD", options.lr >= 0, "lr", options.lr, "at least 0");
  ET_CHECK_OPTION("SGD", options.momentum >= 0, "momentum", options.momentum, "at least 0");
  ET_CHECK_OPTION("SGD", std::isfinite(options.dampening), "dampening", options.dampening, "finite");
  ET_CHECK_OPTION("SGD", options.weight_decay >= 0, "weight_decay", options.weight_decay, "at least 0");
  ET_CHECK_OR_RETURN(!options.nesterov || (options.momentum > 0 && options.dampening == 0), InvalidArgument,
                     "SGD: nesterov needs a momentum above 0 and a dampening of 0, they are %g and %g",
                     options.momentum, options.dampening);
  return Error::Ok;
}

void SGDRule::update(const SGDOptions& options, const Update& update) {
  with_element_type(update.dtype, [&](auto element) { sgd<decltype(element)>(options, update); });
}

Error AdamWRule::check(const AdamWOptions& options) {
  ET_CHECK_OPTION("AdamW", options.lr >= 0, "lr", options.lr, "at least 0");
  ET_CHECK_OPTION("AdamW", options.beta1 >= 0 && options.beta1 < 1, "beta1", options.beta1, "in [0, 1)");
  ET_CHECK_OPTION("AdamW", options.beta2 >= 0 && options.beta2 < 1, "beta2", options.beta2, "in [0, 1)");
  ET_CHECK_OPTION("AdamW", options.eps >= 0, "eps", options.eps, "at least 0");
  ET_CHECK_OPTION("AdamW", options.weight_decay >= 0, "weight_decay", options.weight_decay, "at least 0");
  return Error::Ok;
}

void AdamWRule::update(const AdamWOptions& options, const Update& update) {
  with_element_type(update.dtype, [&](auto element) {
    options.amsgrad ? adamw<decltype(element), true>(options, update)
                    : adamw<decltype(element), false>(options, update);
  });
}

}  // namespace et::training
