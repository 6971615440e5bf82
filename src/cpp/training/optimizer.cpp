#include "training/optimizer.h"

#include <algorithm>

#include "base/tensor_text.h"

namespace et::training {

using runtime::Tensor;
using runtime::TensorImpl;

std::string names_of(const NamedTensors& tensors) {
  constexpr size_t kMost = 8;
  std::string text;
  size_t count = 0;
  for (const auto& [name, tensor] : tensors) {
    if (++count <= kMost) {
      text += (count == 1 ? "" : ", ") + name;
    }
  }
  return count > kMost ? text + " and " + std::to_string(count - kMost) + " more" : text;
}

std::string type_of(const Tensor& tensor) { return TensorText(tensor.scalar_type(), tensor.sizes()).text; }

Error check_same_type(const std::string& what, const Tensor& tensor, const std::string& other, const Tensor& expected) {
  const auto equal = [](auto a, auto b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); };
  ET_CHECK_OR_RETURN(tensor.scalar_type() == expected.scalar_type() && equal(tensor.sizes(), expected.sizes()),
                     InvalidArgument, "%s is %s, %s is %s", what.c_str(), type_of(tensor).c_str(), other.c_str(),
                     type_of(expected).c_str());
  ET_CHECK_OR_RETURN(equal(dim_order(tensor), dim_order(expected)), InvalidArgument,
                     "%s and %s differ in the order of dimensions in memory", what.c_str(), other.c_str());
  return Error::Ok;
}

template <typename Rule>
Optimizer<Rule>::Memory::Memory(const Tensor& like, ScalarType dtype)
    : sizes(like.sizes().begin(), like.sizes().end()),
      strides(sizes.size()),
      dim_order(runtime::dim_order(like).begin(), runtime::dim_order(like).end()) {
  const size_t nbytes = static_cast<size_t>(like.numel()) * element_size(dtype);
  bytes.resize((nbytes + sizeof(uint64_t) - 1) / sizeof(uint64_t));
  impl = TensorImpl(dtype, sizes.size(), sizes.data(), strides.data(), dim_order.data(), bytes.data(), nbytes);
}

template <typename Rule>
Result<std::unique_ptr<Optimizer<Rule>>> Optimizer<Rule>::create(NamedTensors parameters, const Options& options) try {
  auto optimizer = std::make_unique<Optimizer>();
  ET_RETURN_IF_ERROR(optimizer->add_param_group(std::move(parameters), options));
  return optimizer;
}
ET_NO_MEMORY("the optimizer %s", Rule::kName)

template <typename Rule>
Error Optimizer<Rule>::add_param_group(NamedTensors parameters, const Options& options) try {
  ET_RETURN_IF_ERROR(Rule::check(options));
  ET_CHECK_OR_RETURN(!parameters.empty(), InvalidArgument, "%s: a group has no parameters", Rule::kName);
  for (const auto& [name, tensor] : parameters) {
    ET_CHECK_OR_RETURN(states_.count(name) == 0, InvalidArgument, "%s: parameter '%s' is in another group already",
                       Rule::kName, name.c_str());
    ET_CHECK_OR_RETURN(is_trainable(tensor.scalar_type()), InvalidType,
                       "%s: parameter '%s' is %s; parameters are of a floating element type", Rule::kName, name.c_str(),
                       type_of(tensor).c_str());
    ET_CHECK_OR_RETURN(!tensor.unsafe_impl()->read_only(), InvalidType, "%s: parameter '%s' is in read-only memory",
                       Rule::kName, name.c_str());
  }
  States added;
  for (const auto& [name, tensor] : parameters) {
    added.emplace(std::piecewise_construct, std::forward_as_tuple(name), std::forward_as_tuple());
  }
  groups_.push_back({std::move(parameters), options});
  states_.merge(added);  // takes no memory: the group is there whole or not at all
  return Error::Ok;
}
ET_NO_MEMORY("a group of parameters of %s", Rule::kName)

template <typename Rule>
Error Optimizer<Rule>::check_gradients(const NamedTensors& gradients) const {
  const std::string* without_gradient = nullptr;
  for (const ParamGroup& group : groups_) {
    ET_RETURN_IF_ERROR(Rule::check(group.options));
    for (const auto& [name, parameter] : group.parameters) {
      const auto gradient = gradients.find(name);
      if (gradient != gradients.end()) {
        ET_RETURN_IF_ERROR(
            check_same_type("the gradient of '" + name + "'", gradient->second, "the parameter", parameter));
      } else {
        without_gradient = without_gradient == nullptr ? &name : without_gradient;
      }
    }
  }
  for (const auto& [name, gradient] : gradients) {
    ET_CHECK_OR_RETURN(without_gradient == nullptr || states_.count(name) != 0, InvalidArgument,
                       "%s: there is no parameter for the gradient '%s', and no gradient for the parameter '%s'; "
                       "gradients are found by the names of their parameters",
                       Rule::kName, name.c_str(), without_gradient->c_str());
  }
  return Error::Ok;
}

template <typename Rule>
void Optimizer<Rule>::reserve(const ParamGroup& group, const std::string& name, const Tensor& parameter) {
  ParamState& state = states_.find(name)->second;
  for (size_t i = 0; i < std::size(Rule::kBuffers); ++i) {
    if (Rule::uses(group.options, i) && state.buffers[i] == nullptr) {
      state.buffers[i] = std::make_unique<Memory>(parameter, parameter.scalar_type());
    }
  }
}

template <typename Rule>
Error Optimizer<Rule>::step(const NamedTensors& gradients) try {
  ET_RETURN_IF_ERROR(check_gradients(gradients));
  for (const ParamGroup& group : groups_) {
    for (const auto& [name, parameter] : group.parameters) {
      if (gradients.count(name) != 0) {
        reserve(group, name, parameter);
      }
    }
  }
  for (const ParamGroup& group : groups_) {  // from here on nothing is allocated
    for (const auto& [name, parameter] : group.parameters) {
      const auto gradient = gradients.find(name);
      if (gradient == gradients.end()) {
        continue;
      }
      ParamState& state = states_.find(name)->second;
      Update update{parameter.scalar_type(),
                    parameter.numel(),
                    ++state.step,
                    parameter.mutable_data_ptr(),
                    gradient->second.const_data_ptr(),
                    {}};
      for (size_t i = 0; i < std::size(Rule::kBuffers); ++i) {
        update.buffers[i] = Rule::uses(group.options, i) ? state.buffers[i]->impl.data() : nullptr;
      }
      Rule::update(group.options, update);
    }
  }
  return Error::Ok;
}
ET_NO_MEMORY("what %s remembers", Rule::kName)

template <typename Rule>
Result<NamedTensors> Optimizer<Rule>::state() try {
  NamedTensors tensors;
  for (const ParamGroup& group : groups_) {
    for (const auto& [name, parameter] : group.parameters) {
      reserve(group, name, parameter);
      ParamState& state = states_.find(name)->second;
      state.step_impl = TensorImpl(ScalarType::Long, 0, nullptr, nullptr, nullptr, &state.step, sizeof(state.step));
      const std::string prefix = "optimizer." + name + ".";
      tensors.emplace(prefix + "step", Tensor(&state.step_impl));
      for (size_t i = 0; i < std::size(Rule::kBuffers); ++i) {
        if (state.buffers[i] != nullptr) {
          tensors.emplace(prefix + Rule::kBuffers[i], Tensor(&state.buffers[i]->impl));
        }
      }
    }
  }
  return tensors;
}
ET_NO_MEMORY("what %s remembers", Rule::kName)

template class Optimizer<SGDRule>;
template class Optimizer<AdamWRule>;

}  // namespace et::training
