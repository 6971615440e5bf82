/// Pointwise operators, planned once: out[i] = fn(a[i], b[i], c[i]) over up to three broadcast operands.
///
/// For: unary.cpp, binary.cpp, compare.cpp, cast.cpp. Such a kernel has a state, its plan. `prepare` chooses the
/// compiled loop for the dtypes and reads the numbers among the arguments; the first run works out the loops over the
/// shapes. Every later run takes the addresses of the tensors and calls that loop through one pointer, until a dynamic
/// size changes. Not for: operators that move elements (strided_copy.h) or combine those of one tensor (reduce.cpp).
///
/// An operator is a function that chooses:
///
///     Error choose_abs(Arguments args, PointwiseOperation* operation) {
///       if (!is_float(*args[0])) { return Error::NotSupported; }                 // the next best kernel is tried
///       operation->function = abs_loop();                                        // void(const PointwiseBlock&)
///       operation->add_tensor(args, 0);
///       return Error::Ok;
///     }
///     constexpr Kernel kKernels[] = {make_pointwise_kernel<&choose_abs>(signature::abs_out)};
///
/// The output may share the memory of an operand that has its dtype, sizes and strides.
#pragma once

#include <cstring>

#include <type_traits>

#include "kernels/optimized/vec/broadcast.h"
#include "kernels/optimized/vec/fitting.h"
#include "kernels/optimized/vec/numbers.h"
#include "ops/signatures/portable/op_unary.h"

namespace et::kernels::optimized::pointwise {

/// The two innermost loops of an operation: [rows, columns] contiguous outputs; element (r, c) of operand k is
/// in[k][r * row_stride[k] + c * column_stride[k]]. Strides count elements; a column_stride is 1, or 0 for
/// one element a row. Never empty.
struct PointwiseBlock {
  const void* in[kMaxOperands];
  void* out;
  size_t rows, columns;
  int64_t row_stride[kMaxOperands];
  int64_t column_stride[kMaxOperands];
  double a, b;             // the operation's own numbers
  const void* parameters;  // and others: PointwiseOperation::parameters
};
/// Computes a block.
using BlockFunction = void (*)(const PointwiseBlock& block);

/// What an operand is: an argument of the call, or a number that stands for all elements.
struct PointwiseOperand {
  static constexpr int8_t kNumber = -1;
  int8_t argument = kNumber;
  uint8_t element_size = 0;
  ScalarType dtype = ScalarType::Float;  // of a tensor; matters where operands are converted
  alignas(8) char number[8] = {};
};

/// What a call comes down to when dtypes and numbers are known.
struct PointwiseOperation {
  const char* name = "";  // in messages
  BlockFunction function = nullptr;
  size_t cost = 1;      // of an element, in simple instructions; decides when a second thread is worth it
  double a = 0, b = 0;  // numbers for the function
  alignas(8) char parameters[48] = {};  // others, a plain struct of the operator's own (set_parameters)
  /// The function is one of floats, and some of the tensors are not. Operands are converted in front of it, a few
  /// hundred at a time, and its result behind it, unless the output is a tensor of floats or bools.
  bool converts = false;
  size_t num_operands = 0;
  PointwiseOperand operands[kMaxOperands];

  /// Argument `i`, a tensor, is the next operand.
  void add_tensor(Arguments args, size_t i) {
    PointwiseOperand& operand = operands[num_operands++];
    const Tensor tensor = args[i]->to_tensor();
    operand.argument = static_cast<int8_t>(i);
    operand.element_size = static_cast<uint8_t>(tensor.element_size());
    operand.dtype = tensor.scalar_type();
  }
  template <typename T>
  void set_parameters(const T& values) {
    static_assert(sizeof(T) <= sizeof(parameters) && std::is_trivially_copyable_v<T>);
    std::memcpy(parameters, &values, sizeof(T));
  }
  /// A number of the element type that the function takes is the next operand.
  template <typename T>
  void add_number(T value) {
    static_assert(sizeof(T) <= sizeof(PointwiseOperand::number));
    PointwiseOperand& operand = operands[num_operands++];
    operand.element_size = sizeof(T);
    std::memcpy(operand.number, &value, sizeof(T));
  }
};

/// Describes a call whose numbers are known. Errors: NotSupported when the operator has no loop for these arguments.
using ChooseOperation = Error (*)(Arguments args, PointwiseOperation* operation);

/// Chooses and makes the plan. Errors: NotSupported, also when a number is computed by the program: its kind, and with
/// it the dtype that the operator computes in, is not known then.
Error prepare_pointwise(runtime::PrepareContext& context, Arguments args, ChooseOperation choose, void** state);
/// Runs a plan.
Error run_pointwise(KernelContext& context, Arguments args, void* state);

template <ChooseOperation Choose>
Error prepare_operation(runtime::PrepareContext& context, Arguments args, void** state) {
  return prepare_pointwise(context, args, Choose, state);
}
/// The table entry of an operator.
template <ChooseOperation Choose>
constexpr Kernel make_pointwise_kernel(const Signature& signature) {
  return make_stateful_kernel<&prepare_operation<Choose>, &run_pointwise>(signature);
}

// Costs of an element relative to a copy, as measured.
inline constexpr size_t kCheap = 1;
inline constexpr size_t kDivides = 2;
inline constexpr size_t kTranscendental = 4;

/// The loops of a function of one number by element type; nullptr where there is none. Floats of 16 bits have `floats`
/// unless the function works on their bits.
struct NumberLoops {
  BlockFunction floats = nullptr, doubles = nullptr, smalls = nullptr;
};
// What a function makes of integers and bools.
inline constexpr bool kKeepsType = false;  ///< nothing; those are not for here
inline constexpr bool kPromotes = true;    ///< floats

/// fn(self, …, out) by these loops: floats or doubles of one type and dim order, or what becomes floats. `cost` is that
/// of a float. Errors: NotSupported.
Error choose_function(Arguments args, const NumberLoops& loops, bool promotes, size_t cost,
                      PointwiseOperation* operation);
template <NumberLoops (*Loops)(), bool kToFloats, size_t kCost>
Error choose_plain_function(Arguments args, PointwiseOperation* operation) {
  return choose_function(args, Loops(), kToFloats, kCost, operation);
}

// Rows (NAME, SIGNATURE, PROMOTES, COST) of a table of functions whose loops are the target's NAMELoops().
#define ET_EXPORT_FUNCTION(NAME, ...) \
  HWY_EXPORT(NAME##Loops);            \
  static NumberLoops loops_of_##NAME() { return HWY_DYNAMIC_DISPATCH(NAME##Loops)(); }
#define ET_FUNCTION_KERNEL(NAME, SIGNATURE, PROMOTES, COST) \
  make_pointwise_kernel<&choose_plain_function<&loops_of_##NAME, PROMOTES, COST>>(signature::SIGNATURE),

/// A number as an element of a float type of 16 or 32 bits, rounded once.
float number_as_element(ScalarType dtype, double value);

}  // namespace et::kernels::optimized::pointwise
