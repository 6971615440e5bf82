#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "extension/process.h"
#include "subject.h"
#include "training/checkpoint.h"
#include "training/optimizer.h"
#include "training/training_module.h"

namespace et::faults {
namespace {

using namespace et::training;  // NOLINT

/// Loads, trains two steps with each optimizer, saves all state and loads it again.
class TrainingSubject : public Subject {
 public:
  explicit TrainingSubject(const Plan& plan)
      : plan_(plan),
        checkpoint_(plan.path + "." + std::to_string(getpid()) + ".ptd"),
        options_(extension::process_options()) {
    for (const Call& call : plan.calls) {
      for (const extension::EValue& input : call.method == "forward" ? call.inputs[0] : extension::Inputs()) {
        inputs_.emplace_back(input.to_tensor());
      }
    }
  }
  ~TrainingSubject() override { std::remove(checkpoint_.c_str()); }

  Error run(Outcome& out) override {
    out.step = "load";
    if (module_ == nullptr) {
      ET_TRY(module_, TrainingModule::load(plan_.path, options_));
    }
    out.step = "parameters";
    ET_TRY(const NamedTensors parameters, module_->named_parameters("forward"));
    keep_initial(parameters);
    ET_TRY(const std::unique_ptr<SGD> sgd, make<SGD>(SGDOptions{0.1, 0.9}, out));
    ET_RETURN_IF_ERROR(train(*sgd, out));
    ET_TRY(const std::unique_ptr<AdamW> adam, make<AdamW>(AdamWOptions{0.01}, out));
    ET_RETURN_IF_ERROR(train(*adam, out));
    out.step = "state";
    ET_TRY(NamedTensors state, module_->named_state("forward"));
    ET_TRY(NamedTensors remembered, adam->state());
    state.merge(remembered);
    out.step = "save";
    ET_RETURN_IF_ERROR(save_ptd(checkpoint_, state));
    out.step = "load the checkpoint";
    ET_RETURN_IF_ERROR(load_ptd(checkpoint_, state));
    for (const auto& [name, tensor] : parameters) {
      out.outputs.add(tensor);
    }
    return reset();
  }
  /// The first parameters again.
  Error reset() override {
    size_t at = 0;
    if (num_initial_ != 0) {
      ET_TRY(const NamedTensors parameters, module_->named_parameters("forward"));
      for (const auto& [name, tensor] : parameters) {
        std::memcpy(tensor.mutable_data_ptr(), initial_.data() + at, tensor.nbytes());
        at += tensor.nbytes();
      }
    }
    return Error::Ok;
  }

 private:
  template <typename Optimizer>
  Result<std::unique_ptr<Optimizer>> make(const typename Optimizer::Options& options, Outcome& out) {
    out.step = "make an optimizer";
    ET_TRY(NamedTensors parameters, module_->named_parameters("forward"));
    return Optimizer::create(std::move(parameters), options);
  }

  template <typename Optimizer>
  Error train(Optimizer& optimizer, Outcome& out) {
    for (int i = 0; i < 2; ++i) {
      out.step = "forward and backward";
      ET_TRY(const std::vector<runtime::EValue> losses,
             module_->execute_forward_backward("forward", {inputs_.data(), inputs_.size()}));
      out.outputs.add(losses[0].to_tensor());
      out.step = "gradients";
      ET_TRY(const NamedTensors gradients, module_->named_gradients("forward"));
      out.step = "step";
      ET_RETURN_IF_ERROR(optimizer.step(gradients));
    }
    return Error::Ok;
  }

  void keep_initial(const NamedTensors& parameters) {
    if (num_initial_ == 0) {
      for (const auto& [name, tensor] : parameters) {
        std::memcpy(initial_.data() + num_initial_, tensor.const_data_ptr(), tensor.nbytes());
        num_initial_ += tensor.nbytes();
      }
    }
  }

  const Plan& plan_;
  const std::string checkpoint_;
  const runtime::HostOptions options_;
  std::vector<runtime::EValue> inputs_;
  std::unique_ptr<TrainingModule> module_;
  std::array<uint8_t, 4096> initial_;
  size_t num_initial_ = 0;
};

}  // namespace

std::unique_ptr<Subject> training_subject(const Plan& plan) { return std::make_unique<TrainingSubject>(plan); }

}  // namespace et::faults
