#include "devtools/bundled_program.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "base/checked_math.h"
#include "base/visit_dtype.h"
#include "runtime/flatbuffer_views.h"
#include "runtime/method.h"
#include "runtime/program_verifier.h"
#include "schema/bundled_program_generated.h"
#include "schema/bundled_program_layout.h"

namespace et::devtools {

namespace fb = schema::bundled;
using runtime::count;
using runtime::EValue;
using runtime::kMaxRank;
using runtime::Method;
using runtime::span;
using runtime::Tensor;
using runtime::TensorImpl;
using runtime::view;

namespace {

/// A tensor of the file with sizes and strides as the runtime has them. Made where it stands: TensorImpl points at it.
struct FileTensor {
  int64_t sizes[kMaxRank];
  int64_t strides[kMaxRank];
  TensorImpl impl;

  /// `tensor` is verified (check_tensor).
  explicit FileTensor(const fb::Tensor& tensor) {
    const Span<const int32_t> given = span(tensor.sizes());
    std::copy(given.begin(), given.end(), sizes);
    impl = TensorImpl(static_cast<ScalarType>(tensor.scalar_type()), given.size(), sizes, strides,
                      span(tensor.dim_order()).data(), const_cast<uint8_t*>(span(tensor.data()).data()),
                      count(tensor.data()));
    impl.set_read_only(true);
  }
};

Error check_tensor(const fb::Tensor& tensor) {
  const Span<const int32_t> sizes = span(tensor.sizes());
  const Span<const uint8_t> order = span(tensor.dim_order());
  const auto dtype = static_cast<ScalarType>(tensor.scalar_type());
  ET_CHECK_OR_RETURN(is_valid_dtype(tensor.scalar_type()) && sizes.size() <= kMaxRank && order.size() == sizes.size() &&
                         runtime::is_aligned(sizes) && runtime::is_aligned(order),
                     InvalidProgram, "a tensor of a test case has no dtype that there is, or no order of its dims");
  uint32_t seen = 0;
  size_t nbytes = element_size(dtype);
  bool is_right = true;
  for (size_t d = 0; d < sizes.size(); ++d) {
    is_right = is_right && sizes[d] >= 0 && order[d] < sizes.size() &&
               !mul_overflow(nbytes, static_cast<size_t>(std::max<int32_t>(sizes[d], 0)), &nbytes);
    seen |= is_right ? 1u << order[d] : 0;
  }
  ET_CHECK_OR_RETURN(is_right && seen == (1u << sizes.size()) - 1 && nbytes == count(tensor.data()), InvalidProgram,
                     "a tensor of a test case has %u bytes, which its sizes do not give, or no order of its dims",
                     count(tensor.data()));
  ET_CHECK_OR_RETURN(nbytes == 0 || reinterpret_cast<uintptr_t>(tensor.data()->data()) % element_size(dtype) == 0,
                     InvalidProgram, "a tensor of a test case is not aligned to its elements");
  return Error::Ok;
}

Error check_values(const flatbuffers::Vector<flatbuffers::Offset<fb::Value>>* values) {
  for (uint32_t i = 0; i < count(values); ++i) {
    const fb::Value& value = *values->Get(i);
    ET_CHECK_OR_RETURN(
        value.val_type() > fb::ValueUnion_NONE && value.val_type() <= fb::ValueUnion_MAX && value.val() != nullptr,
        InvalidProgram, "value %u of a test case is of no kind that there is", i);
    if (value.val_type() == fb::ValueUnion_Tensor) {
      ET_RETURN_IF_ERROR(check_tensor(*value.val_as_Tensor()));
    }
  }
  return Error::Ok;
}

/// Calls `visit` with a number of a dtype that is not complex.
template <typename Visit>
void visit_number(ScalarType dtype, const uint8_t* at, Visit visit) {
  visit_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!is_complex(dtype_of<T>)) {
      std::conditional_t<std::is_same_v<T, bool>, uint8_t, T> number;  // memory may hold any byte
      std::memcpy(&number, at, sizeof(number));
      visit(number);
    }
  });
}

/// Adds up the differences of pairs of numbers.
class Differences {
 public:
  explicit Differences(Tolerance tolerance) : tolerance_(tolerance) {}

  /// Integers that doubles cannot tell apart are compared as they are.
  template <typename Number>
  void add(Number result, Number expected, size_t output, size_t element) {
    const auto a = static_cast<double>(result);
    const auto b = static_cast<double>(expected);
    const bool both_nan = a != a && b != b;
    const double difference = both_nan || a == b ? 0 : a == a && b == b ? std::fabs(a - b) : HUGE_VAL;
    const bool is_integer = std::is_integral_v<Number>;
    const bool is_close =
        is_integer ? result == expected
                   : both_nan || a == b ||
                         (std::isfinite(b) && difference <= tolerance_.atol + tolerance_.rtol * std::fabs(b));
    total_.largest = std::max(total_.largest, difference);
    if (!is_close && total_.num_different++ == 0) {
      total_.output = output;
      total_.element = element;
      total_.result = a;
      total_.expected = b;
    }
  }
  const OutputDifference& total() const { return total_; }

 private:
  Tolerance tolerance_;
  OutputDifference total_;
};

/// Where an element lies, by its place in row-major order.
size_t offset_of(const TensorImpl& tensor, size_t element) {
  size_t offset = 0;
  for (size_t d = tensor.dim(); d-- > 0;) {
    const auto size = static_cast<size_t>(tensor.sizes()[d]);
    offset += element % size * static_cast<size_t>(tensor.strides()[d]);
    element /= size;
  }
  return offset;
}

void compare_tensors(const TensorImpl& result, const TensorImpl& expected, size_t output, Differences& differences) {
  const ScalarType dtype = result.dtype();
  const size_t item = element_size(dtype);
  const size_t num_parts = is_complex(dtype) ? 2 : 1;
  const ScalarType part = dtype == ScalarType::ComplexFloat    ? ScalarType::Float
                          : dtype == ScalarType::ComplexDouble ? ScalarType::Double
                                                               : dtype;
  for (size_t i = 0; i < static_cast<size_t>(result.numel()); ++i) {
    const uint8_t* const a = static_cast<const uint8_t*>(result.data()) + offset_of(result, i) * item;
    const uint8_t* const b = static_cast<const uint8_t*>(expected.data()) + offset_of(expected, i) * item;
    for (size_t place = 0; place < item; place += item / num_parts) {
      visit_number(part, a + place, [&](auto number) {
        decltype(number) other;
        std::memcpy(&other, b + place, sizeof(other));
        differences.add(number, other, output, i);
      });
    }
  }
}

bool has_kind(const EValue& value, fb::ValueUnion kind) {
  switch (kind) {
    case fb::ValueUnion_Tensor: return value.is_tensor();
    case fb::ValueUnion_Int: return value.is_int();
    case fb::ValueUnion_Bool: return value.is_bool();
    case fb::ValueUnion_Double: return value.is_double();
    default: return false;
  }
}

Error compare_values(const EValue& result, const fb::Value& expected, size_t output, Differences& differences) {
  ET_CHECK_OR_RETURN(has_kind(result, expected.val_type()), InvalidArgument,
                     "output %zu is %s, the test case expects %s", output, to_string(result.tag()),
                     fb::EnumNameValueUnion(expected.val_type()));
  switch (expected.val_type()) {
    case fb::ValueUnion_Int:
      differences.add(result.to_int(), int64_t{expected.val_as_Int()->int_val()}, output, 0);
      return Error::Ok;
    case fb::ValueUnion_Bool:
      differences.add(int64_t{result.to_bool()}, int64_t{expected.val_as_Bool()->bool_val()}, output, 0);
      return Error::Ok;
    case fb::ValueUnion_Double:
      differences.add(result.to_double(), expected.val_as_Double()->double_val(), output, 0);
      return Error::Ok;
    default: break;
  }
  const FileTensor tensor(*expected.val_as_Tensor());
  const TensorImpl& computed = *result.to_tensor().unsafe_impl();
  const TensorImpl& wanted = tensor.impl;
  ET_CHECK_OR_RETURN(computed.dtype() == wanted.dtype() && equal(computed.sizes(), wanted.sizes()), InvalidArgument,
                     "output %zu is %s of rank %zu, the test case expects %s of rank %zu, of other sizes", output,
                     to_string(computed.dtype()), computed.dim(), to_string(wanted.dtype()), wanted.dim());
  ET_CHECK_OR_RETURN(computed.data() != nullptr || computed.numel() == 0, InvalidState, "output %zu was never computed",
                     output);
  compare_tensors(computed, wanted, output, differences);
  return Error::Ok;
}

}  // namespace

bool BundledProgram::has_identifier(Span<const uint8_t> bytes) {
  return bytes.size() >= 8 && fb::BundledProgramBufferHasIdentifier(bytes.data());
}

Result<BundledProgram> BundledProgram::load(Span<const uint8_t> bytes) {
  ET_CHECK_OR_RETURN(has_identifier(bytes), InvalidProgram, "these %zu bytes are no bundled program (.bpte)",
                     bytes.size());
  ET_CHECK_OR_RETURN(reinterpret_cast<uintptr_t>(bytes.data()) % 16 == 0, InvalidArgument,
                     "the bundled program stands at %p, which is no multiple of 16; copy it to an aligned buffer",
                     static_cast<const void*>(bytes.data()));
  ET_CHECK_OR_RETURN(schema::verify_tables(bytes, fb::kBundledProgramLayouts), InvalidProgram,
                     "the tables of the bundled program are damaged; the file is cut off or was changed");
  const fb::BundledProgram* const tables = fb::GetBundledProgram(bytes.data());
  for (uint32_t i = 0; i < count(tables->method_test_suites()); ++i) {
    const fb::BundledMethodTestSuite& suite = *tables->method_test_suites()->Get(i);
    for (uint32_t k = 0; k < count(suite.test_cases()); ++k) {
      ET_RETURN_IF_ERROR(check_values(suite.test_cases()->Get(k)->inputs()));
      ET_RETURN_IF_ERROR(check_values(suite.test_cases()->Get(k)->expected_outputs()));
    }
  }
  ET_CHECK_OR_RETURN(count(tables->program()) > 0, InvalidProgram, "the bundled program has no program in it");
  ET_CHECK_OR_RETURN(reinterpret_cast<uintptr_t>(tables->program()->data()) % 16 == 0, InvalidProgram,
                     "the program in the bundle is not aligned to 16 bytes");
  return BundledProgram(tables);
}

BundledProgram BundledProgram::of_verified(const void* bytes) { return BundledProgram(fb::GetBundledProgram(bytes)); }

Span<const uint8_t> BundledProgram::program() const { return span(tables_->program()); }
size_t BundledProgram::num_methods() const { return count(tables_->method_test_suites()); }
std::string_view BundledProgram::method_name(size_t i) const {
  return view(tables_->method_test_suites()->Get(static_cast<uint32_t>(i))->method_name());
}

const fb::BundledMethodTestSuite* BundledProgram::find_suite(std::string_view method) const {
  for (uint32_t i = 0; i < num_methods(); ++i) {
    if (method_name(i) == method) {
      return tables_->method_test_suites()->Get(i);
    }
  }
  return nullptr;
}

size_t BundledProgram::num_cases(std::string_view method) const {
  const fb::BundledMethodTestSuite* const suite = find_suite(method);
  return suite == nullptr ? 0 : count(suite->test_cases());
}

Result<const fb::BundledMethodTestCase*> BundledProgram::find_case(std::string_view method, size_t index) const {
  ET_CHECK_OR_RETURN(index < num_cases(method), InvalidArgument,
                     "the bundle has %zu test cases for method '%.*s', there is no case %zu", num_cases(method),
                     static_cast<int>(method.size()), method.data(), index);
  return find_suite(method)->test_cases()->Get(static_cast<uint32_t>(index));
}

Error BundledProgram::load_input(Method& method, size_t index) const {
  ET_TRY(const fb::BundledMethodTestCase* const test_case, find_case(method.meta().name(), index));
  const uint32_t num_inputs = count(test_case->inputs());
  ET_CHECK_OR_RETURN(num_inputs == method.num_inputs(), InvalidArgument,
                     "test case %zu has %u inputs, the method takes %zu", index, num_inputs, method.num_inputs());
  ET_RETURN_IF_ERROR(method.reset_state());
  for (uint32_t i = 0; i < num_inputs; ++i) {
    const fb::Value& value = *test_case->inputs()->Get(i);
    switch (value.val_type()) {
      case fb::ValueUnion_Tensor: {
        FileTensor tensor(*value.val_as_Tensor());
        ET_RETURN_IF_ERROR(method.set_input(EValue(Tensor(&tensor.impl)), i));
        break;
      }
      case fb::ValueUnion_Int:
        ET_RETURN_IF_ERROR(method.set_input(EValue(int64_t{value.val_as_Int()->int_val()}), i));
        break;
      case fb::ValueUnion_Bool: ET_RETURN_IF_ERROR(method.set_input(EValue(value.val_as_Bool()->bool_val()), i)); break;
      default: ET_RETURN_IF_ERROR(method.set_input(EValue(value.val_as_Double()->double_val()), i));
    }
  }
  return Error::Ok;
}

Result<OutputDifference> BundledProgram::compare_outputs(const Method& method, size_t index,
                                                         Tolerance tolerance) const {
  ET_TRY(const fb::BundledMethodTestCase* const test_case, find_case(method.meta().name(), index));
  const uint32_t num_outputs = count(test_case->expected_outputs());
  ET_CHECK_OR_RETURN(num_outputs > 0, NotSupported, "test case %zu expects no outputs; bundle some with it", index);
  ET_CHECK_OR_RETURN(num_outputs == method.num_outputs(), InvalidArgument,
                     "test case %zu expects %u outputs, the method gives %zu", index, num_outputs,
                     method.num_outputs());
  Differences differences(tolerance);
  for (uint32_t i = 0; i < num_outputs; ++i) {
    ET_RETURN_IF_ERROR(compare_values(method.get_output(i), *test_case->expected_outputs()->Get(i), i, differences));
  }
  return differences.total();
}

Error BundledProgram::verify_outputs(const Method& method, size_t index, Tolerance tolerance) const {
  ET_TRY(const OutputDifference found, compare_outputs(method, index, tolerance));
  ET_CHECK_OR_RETURN(found.num_different == 0, NotFound,
                     "test case %zu: %zu elements differ from the expected ones, by up to %g; the first is element %zu "
                     "of output %zu, %.9g instead of %.9g (rtol %g, atol %g)",
                     index, found.num_different, found.largest, found.element, found.output, found.result,
                     found.expected, tolerance.rtol, tolerance.atol);
  return Error::Ok;
}

}  // namespace et::devtools
