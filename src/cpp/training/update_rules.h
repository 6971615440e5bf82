/// The arithmetic of optimizers: how one parameter changes, given its gradient and what the optimizer remembers of it.
///
/// For: optimizer.h. Each rule follows the algorithm that the documentation of the torch.optim class of its name writes
/// down, in the same order of operations, so that results differ from torch's by rounding only. Half and BFloat16 are
/// computed in float, and what is remembered has the parameter's element type, as in torch.
///
/// A rule is a type with: `Options`; `kBuffers`, the names of what it remembers; `uses(options, i)`, whether buffer i
/// is needed; `check(options)`; `update(options, step, param, grad, buffers, count)`.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "base/error.h"

namespace et::training {

/// Learning rates and factors have no unit; each field means what torch.optim.SGD's argument of that name means.
struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0.0;
  double dampening = 0.0;
  double weight_decay = 0.0;
  bool nesterov = false;
};

/// As torch.optim.AdamW.
struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 1e-2;
  bool amsgrad = false;
};

/// One parameter of an update. All arrays have `count` elements of `dtype`.
struct Update {
  ScalarType dtype;
  int64_t count;
  int64_t step;  ///< of this parameter, from 1
  void* param;
  const void* grad;
  void* buffers[3];  ///< in the order of the rule's kBuffers; nullptr where the rule does not use it
};

struct SGDRule {
  using Options = SGDOptions;
  static constexpr const char* kName = "SGD";
  static constexpr const char* kBuffers[] = {"momentum_buffer"};
  static bool uses(const Options& options, size_t) { return options.momentum != 0; }
  static Error check(const Options& options);
  static void update(const Options& options, const Update& update);
};

struct AdamWRule {
  using Options = AdamWOptions;
  static constexpr const char* kName = "AdamW";
  static constexpr const char* kBuffers[] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
  static bool uses(const Options& options, size_t i) { return i < 2 || options.amsgrad; }
  static Error check(const Options& options);
  static void update(const Options& options, const Update& update);
};

/// True for the element types that parameters have: Float, Double, Half, BFloat16.
bool is_trainable(ScalarType dtype);

}  // namespace et::training
