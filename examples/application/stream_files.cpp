#include <cstdio>

#include "stream.h"

namespace application {
namespace {
std::FILE* g_samples = nullptr;
std::FILE* g_results = nullptr;
}  // namespace

bool open_streams() {
  g_samples = std::fopen("samples.bin", "rb");
  g_results = std::fopen("results.bin", "wb");
  return g_samples != nullptr && g_results != nullptr;
}

bool read_sample(void* data, size_t nbytes) { return std::fread(data, 1, nbytes, g_samples) == nbytes; }

bool write_result(const void* data, size_t nbytes) { return std::fwrite(data, 1, nbytes, g_results) == nbytes; }

}  // namespace application
