// A program on the installed libraries: all kernels and backends, and those of a user's library.
#include <cstdio>

#include "builtin/builtin.h"
#include "runtime/host/module.h"
#include "smoke/register.h"

int main(int argc, char** argv) {
  static et::runtime::KernelRegistry kernels;
  static et::runtime::BackendRegistry backends;
  et::runtime::HostOptions options;
  options.kernels = &kernels;
  options.backends = &backends;
  if (argc != 2 || et::builtin::register_all(kernels, backends) != et::Error::Ok ||
      smoke::register_kernels(kernels) != et::Error::Ok) {
    return 1;
  }
  auto module = et::runtime::Module::load(argv[1], options);
  if (!module.ok()) {
    return 2;
  }
  float data[] = {1, 2};
  int64_t sizes[] = {2}, strides[1];
  const uint8_t dim_order[] = {0};
  et::runtime::TensorImpl x(et::ScalarType::Float, 1, sizes, strides, dim_order, data, sizeof(data));
  const auto outputs = module.get()->forward({et::runtime::EValue(et::runtime::Tensor(&x))});
  if (!outputs.ok()) {
    return 3;
  }
  const float* result = outputs.get()[0].to_tensor().const_data_ptr<float>();
  std::printf("%g %g\n", static_cast<double>(result[0]), static_cast<double>(result[1]));
  return result[0] == 4 && result[1] == 7 ? 0 : 4;
}
