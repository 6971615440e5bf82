// As the published page "Module extension" runs a model.
#include <executorch_py/extension/data_loader/buffer_data_loader.h>
#include <executorch_py/extension/data_loader/mmap_data_loader.h>
#include <executorch_py/extension/evalue_util/print_evalue.h>
#include <executorch_py/extension/module/module.h>
#include <executorch_py/extension/tensor/tensor.h>

#undef NDEBUG
#include <cassert>
#include <iostream>
#include <memory>
#include <sstream>

using namespace ::executorch::extension;
using ::executorch::runtime::Error;

int main() {
  Module module("model.pte");
  float input[2 * 8] = {1};
  auto tensor = from_blob(input, {2, 8});
  const auto result = module.forward(tensor);
  assert(result.ok());
  const auto output = result->at(0).toTensor().const_data_ptr<float>();
  assert(output != nullptr);

  assert(module.load() == Error::Ok && module.is_loaded());
  assert(module.load(Program::Verification::InternalConsistency) == Error::Ok);
  assert(module.load_method("forward") == Error::Ok && module.is_method_loaded("forward"));
  assert(module.load_forward() == Error::Ok);
  const auto names = module.method_names();
  assert(names.ok() && names->count("forward") == 1);
  const auto meta = module.method_meta("forward");
  assert(meta.ok() && meta->name() == "forward" && meta->num_inputs() == 1);
  const auto input_meta = meta->input_tensor_meta(0);
  assert(input_meta.ok() && input_meta->scalar_type() == executorch::aten::ScalarType::Float);

  assert(module.execute("forward", {tensor}).ok());
  assert(module.set_input(tensor, 0) == Error::Ok && module.forward().ok());
  assert(module.set_inputs({tensor}) == Error::Ok && module.forward().ok());
  auto mine = ones({2, 4});
  assert(module.set_output(mine) == Error::Ok && module.forward(tensor).ok());
  assert(mine->const_data_ptr<float>()[0] != 1.0f);
  assert(module.get(tensor).ok() && module.get("forward", tensor)->toTensor().numel() == 8);

  Module mapped("model.pte", Module::LoadMode::MmapUseMlockIgnoreErrors);
  assert(mapped.forward(tensor).ok());
  auto loader = MmapDataLoader::from("model.pte", MmapDataLoader::MlockConfig::NoMlock);
  assert(loader.ok());
  Module own(std::make_unique<MmapDataLoader>(std::move(loader.get())));
  assert(own.forward(tensor).ok());

  std::ostringstream text;
  text << EValue(5) << ' ' << EValue(0.5) << ' ' << EValue(true) << ' '
       << EValue(make_tensor_ptr({2, 2}, {1.f, 2.f, 3.f, 4.5f})) << ' ' << evalue_edge_items(1)
       << EValue(make_tensor_ptr({3}, {1, 2, 3})) << ' ' << EValue();
  std::cout << text.str() << '\n' << *module.get(tensor) << std::endl;
  assert(text.str() == "5 0.5 True tensor(sizes=[2, 2], [1., 2., 3., 4.5]) tensor(sizes=[3], [1, ..., 3]) None");
  return 0;
}
