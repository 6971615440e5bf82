// What XNNPACK calls of cpuinfo, read on x86 from the processor itself: three names of <cpuinfo.h>.
//
// The library behind that header reads files of the system into tables on the heap, once in a process. Where memory ran
// out at that moment XNNPACK could never be started again. Nothing here allocates or fails. Only what XNNPACK reads is
// filled in; tests/cpp/backends/xnnpack/processor_test.cpp compares it with cpuinfo's own answers.
// Source: Intel, Software Developer's Manual 2A, CPUID; AMD, APM 3, appendix E.
#include <cpuinfo.h>

#if CPUINFO_ARCH_X86 || CPUINFO_ARCH_X86_64

#include <cpuid.h>

#include <cstdint>

namespace {

struct Registers {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

/// Zeros where the processor has no such leaf.
Registers leaf(unsigned number, unsigned part = 0) {
  Registers r;
  __get_cpuid_count(number, part, &r.a, &r.b, &r.c, &r.d);
  return r;
}

constexpr bool bit(unsigned word, int i) { return (word >> i & 1) != 0; }

/// Which registers the operating system keeps (XCR0). `features`: ECX of leaf 1.
uint64_t kept_registers(unsigned features) {
  if (!bit(features, 27)) {
    return 0;
  }
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

cpuinfo_x86_isa find_isa() {
  const Registers basic = leaf(1);
  const Registers more = leaf(7);
  const Registers last = more.a >= 1 ? leaf(7, 1) : Registers();
  const uint64_t kept = kept_registers(basic.c);
  const bool vectors = (kept & 0x6) == 0x6, wide = (kept & 0xe6) == 0xe6, tiles = (kept & 0x60000) == 0x60000;
  cpuinfo_x86_isa isa{};
#if CPUINFO_ARCH_X86
  isa.sse = bit(basic.d, 25);
  isa.sse2 = bit(basic.d, 26);
#endif
  isa.sse3 = bit(basic.c, 0);
  isa.ssse3 = bit(basic.c, 9);
  isa.sse4_1 = bit(basic.c, 19);
  isa.sse4_2 = bit(basic.c, 20);
  isa.avx = vectors && bit(basic.c, 28);
  isa.fma3 = vectors && bit(basic.c, 12);
  isa.f16c = vectors && bit(basic.c, 29);
  isa.avx2 = vectors && bit(more.b, 5);
  isa.avxvnni = vectors && bit(last.a, 4);
  isa.avx_vnni_int8 = vectors && bit(last.d, 4);
  isa.avx_vnni_int16 = vectors && bit(last.d, 10);
  isa.avx512f = wide && bit(more.b, 16);
  isa.avx512dq = wide && bit(more.b, 17);
  isa.avx512cd = wide && bit(more.b, 28);
  isa.avx512bw = wide && bit(more.b, 30);
  isa.avx512vl = wide && bit(more.b, 31);
  isa.avx512vbmi = wide && bit(more.c, 1);
  isa.avx512vnni = wide && bit(more.c, 11);
  isa.avx512fp16 = wide && bit(more.d, 23);
  isa.avx512bf16 = wide && bit(last.a, 5);
  isa.avx10_1 = wide && bit(last.d, 19) && (leaf(0x24).b & 0xff) >= 1;
  isa.gfni = bit(more.c, 8);
  isa.amx_bf16 = wide && tiles && bit(more.d, 22);
  isa.amx_tile = wide && tiles && bit(more.d, 24);
  isa.amx_int8 = wide && tiles && bit(more.d, 25);
  isa.amx_fp16 = wide && tiles && bit(last.a, 21);
  return isa;
}

/// Zen 4 is the one microarchitecture of x86 that XNNPACK tells from others.
cpuinfo_core find_core() {
  const Registers vendor = leaf(0);
  const uint32_t version = leaf(1).a;
  const uint32_t base_family = version >> 8 & 0xf,
                 family = base_family + (base_family == 15 ? version >> 20 & 0xff : 0);
  const uint32_t model = (version >> 4 & 0xf) | (version >> 12 & 0xf0);
  const bool is_amd = vendor.b == signature_AMD_ebx && vendor.c == signature_AMD_ecx && vendor.d == signature_AMD_edx;
  const bool is_zen4 = (model >= 0x10 && model < 0x20) || (model >= 0x60 && model < 0x80) || (model & 0xf0) == 0xa0;
  cpuinfo_core core{};
  core.uarch = is_amd && family == 0x19 && is_zen4 ? cpuinfo_uarch_zen4 : cpuinfo_uarch_unknown;
  return core;
}

}  // namespace

extern "C" {

struct cpuinfo_x86_isa cpuinfo_isa;  // limited by start_library

bool cpuinfo_initialize() {
  static const bool is_found = [] {
    cpuinfo_isa = find_isa();
    return true;
  }();
  return is_found;
}

const struct cpuinfo_core* cpuinfo_get_core(uint32_t) {
  static const cpuinfo_core core = find_core();
  return &core;
}

}  // extern "C"

#endif
