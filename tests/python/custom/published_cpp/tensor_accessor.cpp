// Elements by their indices, and how many of them are printed.
#include <executorch_py/extension/evalue_util/print_evalue.h>
#include <executorch_py/extension/tensor/tensor.h>
#include <executorch_py/extension/tensor/tensor_accessor.h>

#undef NDEBUG
#include <cassert>
#include <numeric>
#include <sstream>

using executorch::aten::ScalarType;
using executorch::extension::evalue_edge_items;
using executorch::extension::make_tensor_accessor;
using executorch::extension::make_tensor_ptr;
using executorch::runtime::Error;
using executorch::runtime::EValue;

template <typename Value>
std::string printed(const Value& value, long edge_items) {
  std::ostringstream out;
  out << evalue_edge_items(edge_items) << value;
  return out.str();
}

int main() {
  std::vector<float> numbers(2 * 3 * 4);
  std::iota(numbers.begin(), numbers.end(), 0.0f);
  const auto tensor = make_tensor_ptr({2, 3, 4}, numbers);
  auto a = make_tensor_accessor<float, 3>(*tensor);
  assert(a.ok() && a->dim() == 3 && a->size(1) == 3 && a->stride(0) == 12);
  assert(a.get()[1][2][3] == 23 && a.get()[0][1].size(0) == 4);
  a.get()[1][0][2] = 0.5f;
  assert(tensor->const_data_ptr<float>()[14] == 0.5f);
  const auto only_read = make_tensor_accessor<const float, 3>(*tensor);
  assert(only_read.ok() && only_read.get()[1][0][2] == 0.5f);

  const auto innermost = make_tensor_ptr({1, 2, 1, 3}, std::vector<int32_t>{0, 1, 2, 3, 4, 5}, {0, 2, 3, 1});
  const auto b = make_tensor_accessor<int32_t, 4>(*innermost);
  assert(b.ok() && b.get()[0][1][0][2] == 5 && b.get()[0][0][0][1] == 2);

  assert((make_tensor_accessor<float, 2>(*tensor).error() == Error::InvalidArgument));
  assert((make_tensor_accessor<double, 3>(*tensor).error() == Error::InvalidType));
  assert((make_tensor_accessor<float, 1>(executorch::aten::Tensor()).error() == Error::InvalidArgument));

  const EValue value(make_tensor_ptr({8}, std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8}, {}, {}, ScalarType::Long));
  assert(printed(value, 2) == "tensor(sizes=[8], [1, 2, ..., 7, 8])");
  assert(printed(value, 4) == "tensor(sizes=[8], [1, 2, 3, 4, 5, 6, 7, 8])");
  assert(printed(value, 0) == "tensor(sizes=[8], [1, 2, 3, ..., 6, 7, 8])");
  assert(printed(EValue(), 2) == "None" && printed(EValue(2.5), 2) == "2.5" && printed(EValue(true), 2) == "True");
  std::ostringstream out;
  out << evalue_edge_items(1) << value << value;
  assert(out.str() == "tensor(sizes=[8], [1, ..., 8])tensor(sizes=[8], [1, ..., 8])");
  return 0;
}
