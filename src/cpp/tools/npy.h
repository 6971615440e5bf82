/// `.npy` files: arrays as numpy stores them.
///
/// Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html (versions 1.0 to 3.0, little-endian,
/// C order). bfloat16, for which numpy has no code, is stored as two opaque bytes ("V2"), as ml_dtypes does.
#pragma once

#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/result.h"

namespace et::tools {

struct NpyArray {
  ScalarType dtype = ScalarType::Float;
  std::vector<int64_t> sizes;
  std::vector<uint8_t> data;  // row-major
};

/// Errors: AccessFailed; InvalidArgument, naming the file and what is wrong with it.
Result<NpyArray> read_npy(const std::string& path);
Error write_npy(const std::string& path, const NpyArray& array);

/// A whole file. Errors: AccessFailed.
Result<std::vector<uint8_t>> read_file(const std::string& path);

}  // namespace et::tools
