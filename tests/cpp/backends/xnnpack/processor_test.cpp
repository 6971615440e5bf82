// What processor.cpp says of the processor, beside cpuinfo's own answers.
#include <cpuinfo.h>
#include <dlfcn.h>
#include <gtest/gtest.h>

namespace {

#if (CPUINFO_ARCH_X86 || CPUINFO_ARCH_X86_64) && defined(ET_CPUINFO)

TEST(Processor, SaysWhatCpuinfoSays) {
  void* const library = dlopen(ET_CPUINFO, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto initialize = reinterpret_cast<bool (*)()>(dlsym(library, "cpuinfo_initialize"));
  const auto get_core = reinterpret_cast<const cpuinfo_core* (*)(uint32_t)>(dlsym(library, "cpuinfo_get_core"));
  const auto& isa = *static_cast<const cpuinfo_x86_isa*>(dlsym(library, "cpuinfo_isa"));
  ASSERT_TRUE(initialize());
  ASSERT_NE(&isa, &cpuinfo_isa);
  ASSERT_TRUE(cpuinfo_initialize());
#define SAME(name) EXPECT_EQ(cpuinfo_isa.name, isa.name) << #name
  SAME(sse3), SAME(ssse3), SAME(sse4_1), SAME(sse4_2), SAME(avx), SAME(fma3), SAME(f16c), SAME(avx2), SAME(gfni);
  SAME(avxvnni), SAME(avx_vnni_int8), SAME(avx_vnni_int16), SAME(avx10_1);
  SAME(avx512f), SAME(avx512dq), SAME(avx512cd), SAME(avx512bw), SAME(avx512vl), SAME(avx512vbmi), SAME(avx512vnni);
  SAME(avx512fp16), SAME(avx512bf16), SAME(amx_bf16), SAME(amx_tile), SAME(amx_int8), SAME(amx_fp16);
#undef SAME
  const bool is_zen4 = get_core(0)->uarch == cpuinfo_uarch_zen4;
  EXPECT_EQ(cpuinfo_get_core(0)->uarch == cpuinfo_uarch_zen4, is_zen4);
}

#endif

}  // namespace
