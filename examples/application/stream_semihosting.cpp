// Arm's semihosting: SYS_OPEN, SYS_READ and SYS_WRITE, whose results count the bytes that are left.
#include <cstdint>

#include "stream.h"

namespace application {
namespace {

enum Operation : int { kOpen = 0x01, kWrite = 0x05, kRead = 0x06 };
enum Mode : uint32_t { kReadBinary = 1, kWriteBinary = 5 };

int g_samples = -1;
int g_results = -1;

int semihost(Operation operation, const uint32_t* arguments) {
  register int r0 __asm("r0") = operation;
  register const uint32_t* r1 __asm("r1") = arguments;
  __asm volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

int open(const char* name, uint32_t length, Mode mode) {
  const uint32_t arguments[] = {static_cast<uint32_t>(reinterpret_cast<uintptr_t>(name)), mode, length};
  return semihost(kOpen, arguments);
}

bool transfer(Operation operation, int file, const void* data, size_t nbytes) {
  const uint32_t arguments[] = {static_cast<uint32_t>(file), static_cast<uint32_t>(reinterpret_cast<uintptr_t>(data)),
                                static_cast<uint32_t>(nbytes)};
  return semihost(operation, arguments) == 0;
}

}  // namespace

bool open_streams() {
  g_samples = open("samples.bin", 11, kReadBinary);
  g_results = open("results.bin", 11, kWriteBinary);
  return g_samples >= 0 && g_results >= 0;
}

bool read_sample(void* data, size_t nbytes) { return transfer(kRead, g_samples, data, nbytes); }

bool write_result(const void* data, size_t nbytes) { return transfer(kWrite, g_results, data, nbytes); }

}  // namespace application
