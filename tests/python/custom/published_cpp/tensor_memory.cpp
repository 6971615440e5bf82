// As the published page "Managing Tensor Memory in C++" makes tensors.
#include <executorch_py/extension/module/module.h>
#include <executorch_py/extension/tensor/tensor.h>

#undef NDEBUG
#include <cassert>
#include <cstdlib>

using namespace executorch::aten;
using namespace executorch::extension;
using executorch::runtime::Error;

int main() {
  SizesType sizes[] = {2, 3};
  DimOrderType dim_order[] = {0, 1};
  StridesType strides[] = {3, 1};
  float data[] = {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f};
  TensorImpl impl(ScalarType::Float, std::size(sizes), sizes, data, dim_order, strides);
  assert(Tensor(&impl).numel() == 6 && Tensor(&impl).stride(0) == 3);

  auto borrowed = make_tensor_ptr({2, 3}, data);
  assert(borrowed->const_data_ptr<float>() == data);
  auto with_all = make_tensor_ptr({2, 3}, data, {1, 0}, {1, 2}, ScalarType::Float, TensorShapeDynamism::DYNAMIC_BOUND);
  assert(with_all->stride(1) == 2);
  auto freed = make_tensor_ptr({2, 3}, std::malloc(24), ScalarType::Float, TensorShapeDynamism::STATIC,
                               [](void* memory) { std::free(memory); });
  auto owned = make_tensor_ptr({2, 3}, {1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f});
  auto of_vector = make_tensor_ptr({2, 3}, std::vector<float>(6, 1.0f));
  auto inferred = make_tensor_ptr({1.0f, 2.0f, 3.0f});
  assert(inferred->dim() == 1 && inferred->scalar_type() == ScalarType::Float);
  auto casted = make_tensor_ptr({1, 2, 3}, {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, ScalarType::Half);
  assert(casted->scalar_type() == ScalarType::Half);
  auto raw = make_tensor_ptr({2, 3}, std::vector<uint8_t>(24), ScalarType::Float);
  assert(raw->nbytes() == 24);
  auto scalar = make_tensor_ptr(3.14);
  assert(scalar->dim() == 0 && scalar->scalar_type() == ScalarType::Double);

  Tensor original = *owned;
  auto view = make_tensor_ptr(original);
  auto reshaped = make_tensor_ptr(owned, {3, 2});
  assert(reshaped->const_data_ptr() == original.const_data_ptr() && view->sizes()[0] == 2);
  auto cloned = clone_tensor_ptr(original);
  auto as_double = clone_tensor_ptr(owned, ScalarType::Double);
  assert(cloned->const_data_ptr() != original.const_data_ptr() && as_double->const_data_ptr<double>()[5] == 6.0);
  assert(resize_tensor_ptr(cloned, {1, 3}) == Error::Ok && cloned->numel() == 3);
  assert(resize_tensor_ptr(cloned, {4, 4}) != Error::Ok);

  auto blob = from_blob(data, {2, 3});
  auto blob_with_strides = from_blob(data, {2, 3}, {3, 1});
  auto maker = for_blob(data, {2, 3}).dim_order({0, 1}).dynamism(TensorShapeDynamism::STATIC).make_tensor_ptr();
  assert(blob && blob_with_strides && maker);
  for (const auto& made : {empty({2, 3}), empty_like(blob), full({2, 3}, 5.0), full_like(blob, 4.0), ones({2, 3}),
                           ones_like(blob), rand({2, 3}), rand_like(blob), randint(0, 9, {2, 3}), randn({2, 3}),
                           randn_like(blob), zeros({2, 3}), zeros_like(blob), empty_strided({2, 3}, {3, 1})}) {
    assert(made != nullptr && made->numel() == 6);
  }
  assert(scalar_tensor(7)->const_data_ptr<float>()[0] == 7.0f);

  auto row = make_tensor_ptr({2, 8}, std::vector<float>(16, 1.0f));
  Module module("model.pte");
  assert(module.forward(row).ok() && module.forward({row}).ok() && module.forward(*row).ok());
  assert(module.execute("forward", std::vector<EValue>{EValue(row)}).ok());
  return 0;
}
