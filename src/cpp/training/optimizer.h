/// Optimizers: they change parameters in place, given gradients by name.
///
/// For: training loops (training_module.h). Not for: the arithmetic, which is that of the rules (update_rules.h).
///
///     ET_TRY(std::unique_ptr<AdamW> const optimizer, AdamW::create(parameters, AdamWOptions{1e-3}));
///     ET_RETURN_IF_ERROR(optimizer->step(gradients));
///     optimizer->param_groups()[0].options.lr *= 0.5;      // a schedule
///
/// Parameters of a group have options of their own; no parameter is in two groups. A parameter without a gradient in a
/// step stays as it is, as in torch.
#pragma once

#include <memory>
#include <vector>

#include "runtime/host/out_of_memory.h"
#include "training/named_tensors.h"
#include "training/update_rules.h"

namespace et::training {

template <typename Rule>
class Optimizer {
 public:
  using Options = typename Rule::Options;
  struct ParamGroup {
    NamedTensors parameters;
    Options options;  ///< may be changed between steps
  };

  /// An optimizer with one group. The memory of the parameters must outlive it.
  /// Errors: those of add_param_group.
  static Result<std::unique_ptr<Optimizer>> create(NamedTensors parameters, const Options& options = {});

  /// Errors: InvalidArgument for an option out of range, a group without parameters, a parameter that a group has
  /// already;
  ///         InvalidType for a parameter that is not of a floating element type or lies in read-only memory.
  Error add_param_group(NamedTensors parameters, const Options& options);

  /// Changes every parameter that has a gradient.
  /// Errors, before anything is changed: InvalidArgument and MemoryAllocationFailed. The first is for an option out
  /// of range, a gradient of another shape or element type than its parameter, and names that do not fit. They do not
  /// where some gradient has no parameter and some parameter no gradient. The second comes at the first step, for what
  /// is to be remembered.
  Error step(const NamedTensors& gradients);

  std::vector<ParamGroup>& param_groups() { return groups_; }

  /// What the optimizer remembers, by name: "optimizer.fc.weight.momentum_buffer", and "optimizer.fc.weight.step"
  /// (Long, without dimensions). To save it in a checkpoint, or to have a checkpoint written into it. The tensors live
  /// as long as the optimizer. Errors: MemoryAllocationFailed.
  Result<NamedTensors> state();

 private:
  struct Memory {
    explicit Memory(const runtime::Tensor& like, ScalarType dtype);

    runtime::List<uint64_t> bytes;  // zeros at first
    std::vector<int64_t> sizes, strides;
    std::vector<uint8_t> dim_order;
    runtime::TensorImpl impl;
  };
  struct ParamState {
    int64_t step = 0;
    runtime::TensorImpl step_impl;
    std::unique_ptr<Memory> buffers[std::size(Rule::kBuffers)];
  };
  using States = std::map<std::string, ParamState, std::less<>>;

  Error check_gradients(const NamedTensors& gradients) const;
  void reserve(const ParamGroup& group, const std::string& name, const runtime::Tensor& parameter);

  std::vector<ParamGroup> groups_;
  States states_;
};

extern template class Optimizer<SGDRule>;
extern template class Optimizer<AdamWRule>;
using SGD = Optimizer<SGDRule>;
using AdamW = Optimizer<AdamWRule>;

}  // namespace et::training
