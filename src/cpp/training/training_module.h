/// TrainingModule: methods that return gradients, with their parameters and gradients by name.
///
/// For: training on a device. A training method is exported with torch.export.experimental._export_forward_backward
/// (docs/how-to/training.md). Not for: how parameters change; an optimizer does that (optimizer.h).
///
///     ET_TRY(std::unique_ptr<TrainingModule> const module, TrainingModule::load("train.pte", options));
///     ET_TRY(NamedTensors const parameters, module->named_parameters("forward"));
///     ET_TRY(std::unique_ptr<SGD> const optimizer, SGD::create(parameters, SGDOptions{0.1}));
///     for (const Batch& batch : batches) {
///       ET_TRY(std::vector<EValue> const outputs, module->execute_forward_backward("forward", batch.inputs));
///       ET_TRY(NamedTensors const gradients, module->named_gradients("forward"));
///       ET_RETURN_IF_ERROR(optimizer->step(gradients));
///     }
///
/// Parameters are state of the session: an optimizer writes them in place, and every method of the program that was
/// exported with the same parameters sees the new values. Place: Program → Method → **TrainingModule** → optimizers.
#pragma once

#include <memory>
#include <vector>

#include "runtime/host/module.h"
#include "training/named_tensors.h"

namespace et::training {

/// Where gradients and parameters stand among the outputs of a training method.
///
/// The outputs are those of the model, then the gradients, then the parameters, in the order of `names`.
struct TrainingOutputs {
  size_t gradients_begin = 0;
  size_t parameters_begin = 0;
  std::vector<std::string> names;

  /// Reads what the program says of `method`. Errors: InvalidArgument when the method returns no gradients; NotFound
  /// when there is no such method; InvalidProgram when what the program says does not fit the method.
  static Result<TrainingOutputs> of(runtime::HostProgram& program, std::string_view method);

  /// Both are handles to tensors of `method`. Gradients have their values after an execution, until the next one.
  /// These two and named_state throw std::bad_alloc; TrainingModule's functions of the names give it as an error.
  NamedTensors gradients(const runtime::Method& method) const { return named(method, gradients_begin); }
  NamedTensors parameters(const runtime::Method& method) const { return named(method, parameters_begin); }

 private:
  NamedTensors named(const runtime::Method& method, size_t begin) const;
};

/// The state that a method names: buffers, such as the running statistics of a batch norm, and trained parameters. What
/// a checkpoint holds.
NamedTensors named_state(const runtime::Method& method);

/// Threads: one call at a time.
class TrainingModule {
 public:
  explicit TrainingModule(std::shared_ptr<runtime::HostProgram> program) : program_(std::move(program)) {}
  /// Errors: as HostProgram::from_file.
  static Result<std::unique_ptr<TrainingModule>> load(const std::string& path, const runtime::HostOptions& options);

  const std::shared_ptr<runtime::HostProgram>& program() const { return program_; }

  /// Runs a training method; returns the model's own outputs, the loss among them. They are valid until its next
  /// execution. Errors: those of TrainingOutputs::of, Program::load_method, Method::set_inputs and Method::execute.
  Result<std::vector<runtime::EValue>> execute_forward_backward(std::string_view method,
                                                                Span<const runtime::EValue> inputs);
  /// Runs any other method of the program, with the present values of the parameters. Outputs as above.
  Result<std::vector<runtime::EValue>> execute(std::string_view method, Span<const runtime::EValue> inputs);

  /// The parameters that a training method returns gradients of. Their memory stays where it is as long as the module
  /// lives.
  Result<NamedTensors> named_parameters(std::string_view method);
  /// The gradients of the last execution. Errors: InvalidState before the first one.
  Result<NamedTensors> named_gradients(std::string_view method);
  /// All state of a method by name: what to save in a checkpoint (checkpoint.h).
  Result<NamedTensors> named_state(std::string_view method);

 private:
  struct Entry {
    std::unique_ptr<runtime::HostMethod> method;
    TrainingOutputs outputs;
    bool has_gradients = false;  // it has been executed
  };
  Result<Entry*> entry(std::string_view method, bool for_training);
  static Result<std::vector<runtime::EValue>> run(Entry& entry, Span<const runtime::EValue> inputs, size_t num_outputs);

  std::shared_ptr<runtime::HostProgram> program_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace et::training
