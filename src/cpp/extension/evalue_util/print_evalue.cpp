#include "extension/evalue_util/print_evalue.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/tensor_text.h"
#include "extension/tensor/tensor_ptr.h"

namespace et::extension {
namespace {

/// Where a stream keeps its number of edge items.
int place() {
  static const int index = std::ios_base::xalloc();
  return index;
}

void print(std::ostream& out, double value) {
  out << value;
  if (std::isfinite(value) && value == std::trunc(value) && std::fabs(value) < 1e6) {
    out << '.';
  }
}
void print(std::ostream& out, int64_t value) { out << value; }
void print(std::ostream& out, bool value) { out << (value ? "True" : "False"); }

template <typename At>
void print_list(std::ostream& out, size_t size, const At& at) {
  constexpr long kDefault = 3;
  const long set = out.iword(place());
  const auto edge = static_cast<size_t>(set > 0 ? set : kDefault);
  out << '[';
  for (size_t i = 0; i < size; ++i) {
    if (size > 2 * edge && i == edge) {
      out << ", ...";
      i = size - edge;
    }
    out << (i == 0 ? "" : ", ");
    at(i);
  }
  out << ']';
}

void print_tensor(std::ostream& out, const Tensor& tensor) {
  if (!tensor.defined()) {
    out << "tensor()";
    return;
  }
  out << "tensor(sizes=";
  print_list(out, tensor.sizes().size(), [&](size_t d) { out << tensor.sizes()[d]; });
  out << ", ";
  const auto count = static_cast<size_t>(tensor.const_data_ptr() == nullptr ? 0 : tensor.numel());
  const bool is_real = is_floating(tensor.scalar_type());
  const TensorPtr elements = is_complex(tensor.scalar_type())
                                 ? nullptr
                                 : clone_tensor_ptr(tensor, is_real ? ScalarType::Double : ScalarType::Long);
  if (elements == nullptr) {
    out << to_string(tensor.scalar_type()) << ')';
    return;
  }
  print_list(out, count, [&](size_t i) {
    if (is_real) {
      print(out, elements->const_data_ptr<double>()[i]);
    } else if (tensor.scalar_type() == ScalarType::Bool) {
      print(out, elements->const_data_ptr<int64_t>()[i] != 0);
    } else {
      print(out, elements->const_data_ptr<int64_t>()[i]);
    }
  });
  out << ')';
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const evalue_edge_items& items) {
  out.iword(place()) = items.count_;
  return out;
}

std::ostream& operator<<(std::ostream& out, const EValue& value) {
  if (value.isNone()) {
    out << "None";
  } else if (value.isTensor()) {
    print_tensor(out, value.toTensor());
  } else if (value.isInt()) {
    print(out, value.toInt());
  } else if (value.isDouble()) {
    print(out, value.toDouble());
  } else if (value.isBool()) {
    print(out, value.toBool());
  } else if (value.isString()) {
    out << '"' << value.toString() << '"';
  } else if (value.isIntList()) {
    print_list(out, value.toIntList().size(), [&](size_t i) { print(out, value.toIntList()[i]); });
  } else if (value.isDoubleList()) {
    print_list(out, value.toDoubleList().size(), [&](size_t i) { print(out, value.toDoubleList()[i]); });
  } else if (value.isBoolList()) {
    print_list(out, value.toBoolList().size(), [&](size_t i) { print(out, value.toBoolList()[i]); });
  } else if (value.isTensorList()) {
    print_list(out, value.toTensorList().size(), [&](size_t i) { print_tensor(out, value.toTensorList()[i]); });
  } else {
    out << '<' << runtime::to_string(value.tag()) << '>';
  }
  return out;
}

}  // namespace et::extension
