// A program on the installed package: all kernels and backends, and those of a user's library.
#include <executorch_py/extension/module/module.h>
#include <executorch_py/extension/tensor/tensor.h>
#include <cstdio>

#include "smoke/register.h"

int main(int argc, char** argv) {
  using namespace executorch::extension;
  if (argc != 2 || register_kernels(smoke::kernel_table()) != executorch::runtime::Error::Ok) {
    return 1;
  }
  Module module(argv[1]);
  const auto result = module.forward(make_tensor_ptr({1.0f, 2.0f}));
  if (!result.ok()) {
    return 2;
  }
  const float* values = result->at(0).toTensor().const_data_ptr<float>();
  std::printf("%g %g\n", static_cast<double>(values[0]), static_cast<double>(values[1]));
  return values[0] == 4 && values[1] == 7 ? 0 : 3;
}
