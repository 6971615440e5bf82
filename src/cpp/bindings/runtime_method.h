/// CallableMethod: a Method with its callers' objects: converts inputs, runs without the GIL, makes outputs.
///
/// For: `_core.Method`. Place: Python call → **here** (TensorView, OutputBlock) → runtime::Method.
///
/// One call at a time; a second one at the same time is InvalidState, as for the Method itself.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "bindings/tensor_conversion.h"
#include "devtools/bundled_program.h"
#include "runtime/host/module.h"

namespace et::bindings {

class CallableMethod {
 public:
  /// `num_outputs`: how many of its outputs a call returns; the others stay in the method's memory.
  explicit CallableMethod(std::unique_ptr<runtime::HostMethod> method, size_t num_outputs = SIZE_MAX);

  /// Runs the method.
  ///
  /// inputs: a list or tuple with a value for each input. out: None, or a list or tuple with a tensor or None for each
  /// output; a tensor gets the result (without a copy where its layout is the method's) and is returned itself.
  /// Returns a list: torch tensors when an input is one (without tensor inputs: when torch is imported), else arrays.
  /// Errors (CoreError): InvalidArgument and InvalidType, naming the input and both sides; InvalidState; Cancelled;
  /// those of the method, with the instruction, module path and source line. KeyboardInterrupt after Ctrl-C.
  pybind11::list execute(pybind11::handle inputs, pybind11::handle out);
  /// As execute() without `out`, one instruction after the other. After each that calls an operator or a delegate:
  /// observer(number, operator or backend, arguments as they were, {index: written}, module path, file, line).
  /// Of a delegate all arguments count as written. Values are copies, None for a tensor that has no memory yet.
  /// Errors: those of execute(). What the observer raises ends the execution.
  pybind11::list execute_observed(pybind11::handle inputs, const pybind11::function& observer);
  /// Runs a test case of a bundle and returns the outputs, torch tensors where torch is imported.
  /// Errors (CoreError): those of BundledProgram, of the method, and NotFound where outputs are not the expected ones.
  pybind11::list execute_case(const devtools::BundledProgram& bundle, size_t index, devtools::Tolerance tolerance);
  /// The value of an input that is no tensor, as fixed at export or as last given; None for tensors.
  pybind11::object input_value(size_t i);
  void cancel() { method_->method().cancel(); }
  void reset_state();
  runtime::HostMethod& host() { return *method_; }

 private:
  /// What is fixed about a tensor input or output, and its value for one call.
  struct Slot {
    runtime::Tag tag = runtime::Tag::kNone;
    ScalarType dtype = ScalarType::Byte;
    runtime::TensorShapeDynamism dynamism = runtime::TensorShapeDynamism::kStatic;
    size_t rank = 0;
    uint8_t dim_order[runtime::kMaxRank] = {};    // [rank]
    int64_t bound_sizes[runtime::kMaxRank] = {};  // [rank], upper bounds
    size_t bound_nbytes = 0;
    std::string name;
  };
  struct Input : Slot {
    BorrowedTensor tensor;
    OutputBlock scratch;  // dense copy of a strided input; kept from call to call
    size_t scratch_nbytes = 0;
    bool is_copied = false;  // this call uses it
    runtime::TensorImpl impl;
    int64_t sizes[runtime::kMaxRank] = {};
    int64_t strides[runtime::kMaxRank] = {};
    std::string text;
    std::string_view text_view;
  };
  struct Output : Slot {
    OutputBlock block;                   // memory of ours that becomes the result
    std::shared_ptr<SpareOutput> spare;  // that of an earlier, dropped one; none for outputs that are not worth it
    BorrowedTensor given;                // the caller's
    bool is_given = false;
    bool is_direct = false;  // the method writes to the caller's memory itself
  };
  /// Ends a call: gives back what was borrowed, however the call ended.
  class Call;

  runtime::Method& method() { return method_->method(); }
  void set_inputs(pybind11::handle inputs);
  void set_input(size_t i, pybind11::handle value);
  void set_plain(const Input& input, size_t i, pybind11::handle given, const runtime::EValue& value);
  void set_tensor(Input& input, size_t i, pybind11::handle value);
  runtime::EValue number(const Input& input, size_t i, pybind11::handle value);
  void write_back(size_t i);
  TensorLibrary library() const;
  void take_out(pybind11::handle out);
  void prepare_output(size_t i, TensorLibrary library);
  /// Runs the method, whose inputs are set, and takes the outputs when `check_results` finds nothing.
  template <typename Check>
  pybind11::list run(TensorLibrary library, Check check_results);
  /// Ends a call that ended with `error`: its outputs, or the exception.
  pybind11::list take_outputs(TensorLibrary library, Error error);
  Error step_observed(const pybind11::function& observer);
  pybind11::object take_output(size_t i, TensorLibrary library);
  pybind11::object finish_tensor(Output& output, size_t i, const runtime::Tensor& tensor, TensorLibrary library);
  void drop_outputs();
  [[noreturn]] void fail(Error error);
  std::string title(const char* kind, const Slot& slot, size_t i) const;

  std::unique_ptr<runtime::HostMethod> method_;
  std::string name_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::atomic<bool> busy_{false};
};

}  // namespace et::bindings
