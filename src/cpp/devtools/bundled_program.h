/// BundledProgram: a `.bpte`, a program with test cases, which a device runs to check itself.
///
/// For: firmware, executor_runner --bundled-program, the Python bindings. Takes no memory. Not for: writing such files
/// (executorch_py.devtools.BundledProgram does).
///
///     ET_TRY(const BundledProgram bundle, BundledProgram::load({bytes, nbytes}));
///     BufferLoader loader(bundle.program().data(), bundle.program().size());
///     …                                                           // load the program and a method of it
///     ET_RETURN_IF_ERROR(bundle.load_input(method, 0));
///     ET_RETURN_IF_ERROR(method.execute());
///     ET_RETURN_IF_ERROR(bundle.verify_outputs(method, 0));
///
/// The bytes are hostile until load() has returned, as a program's are.
#pragma once

#include <string_view>

#include "base/result.h"
#include "base/span.h"

namespace et::schema::bundled {
struct BundledMethodTestCase;
struct BundledMethodTestSuite;
struct BundledProgram;
}  // namespace et::schema::bundled

namespace et::runtime {
class Method;
}

namespace et::devtools {

/// How much results may differ: |result - expected| <= atol + rtol * |expected|. Not a number is equal to itself.
/// Integers must be equal.
struct Tolerance {
  double rtol = 1e-5;
  double atol = 1e-8;
};

/// How far outputs are from the expected ones.
struct OutputDifference {
  double largest = 0;        ///< of |result - expected| over all elements; infinity where one is not a number
  size_t num_different = 0;  ///< elements beyond the tolerance
  size_t output = 0;         ///< where the first of them stands
  size_t element = 0;        ///< in row-major order
  double result = 0;
  double expected = 0;
};

/// Points at the bytes it was loaded from, which must outlive it.
class BundledProgram {
 public:
  /// True when the bytes begin as a bundled program does.
  static bool has_identifier(Span<const uint8_t> bytes);
  /// Errors: InvalidProgram, saying what is wrong; InvalidArgument, the bytes stand at no multiple of 16.
  static Result<BundledProgram> load(Span<const uint8_t> bytes);
  /// Bytes for which load() has succeeded before.
  static BundledProgram of_verified(const void* bytes);

  /// The bytes of the `.pte`, at a multiple of 16. They are not verified: Program::load does that.
  Span<const uint8_t> program() const;
  /// Test cases of a method; 0 for one that has none.
  size_t num_cases(std::string_view method) const;
  size_t num_methods() const;
  /// i < num_methods().
  std::string_view method_name(size_t i) const;

  /// Sets the inputs of a test case, which stay where they are in the bundle until the method has run, and resets the
  /// method's state, so that no case depends on another.
  /// Errors: InvalidArgument, no such case, or another number of inputs; those of Method::set_input and reset_state.
  Error load_input(runtime::Method& method, size_t index) const;
  /// Compares the outputs of the last execution with those of a test case.
  /// Errors: InvalidArgument, no such case, or it expects outputs of other kinds, dtypes or sizes; NotSupported, it
  /// expects none.
  Result<OutputDifference> compare_outputs(const runtime::Method& method, size_t index, Tolerance tolerance = {}) const;
  /// The same, with a difference as an error. Errors: as compare_outputs; NotFound (as published), outputs differ:
  /// names the first element.
  Error verify_outputs(const runtime::Method& method, size_t index, Tolerance tolerance = {}) const;

 private:
  explicit BundledProgram(const schema::bundled::BundledProgram* tables) : tables_(tables) {}

  const schema::bundled::BundledMethodTestSuite* find_suite(std::string_view method) const;
  Result<const schema::bundled::BundledMethodTestCase*> find_case(std::string_view method, size_t index) const;

  const schema::bundled::BundledProgram* tables_;
};

}  // namespace et::devtools
