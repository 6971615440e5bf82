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
  struct Flag {
    const char* name;
    bool cpuinfo_x86_isa::* value;
  };
#define FLAG(name)                \
  {                               \
    #name, &cpuinfo_x86_isa::name \
  }
  const Flag flags[] = {FLAG(sse3),          FLAG(ssse3),          FLAG(sse4_1),   FLAG(sse4_2),     FLAG(avx),
                        FLAG(fma3),          FLAG(f16c),           FLAG(avx2),     FLAG(gfni),       FLAG(avxvnni),
                        FLAG(avx_vnni_int8), FLAG(avx_vnni_int16), FLAG(avx10_1),  FLAG(avx512f),    FLAG(avx512dq),
                        FLAG(avx512cd),      FLAG(avx512bw),       FLAG(avx512vl), FLAG(avx512vbmi), FLAG(avx512vnni),
                        FLAG(avx512fp16),    FLAG(avx512bf16),     FLAG(amx_bf16), FLAG(amx_tile),   FLAG(amx_int8),
                        FLAG(amx_fp16)};
#undef FLAG
  for (const Flag& flag : flags) {
    EXPECT_EQ(cpuinfo_isa.*flag.value, isa.*flag.value) << flag.name;
  }
  const bool is_zen4 = get_core(0)->uarch == cpuinfo_uarch_zen4;
  EXPECT_EQ(cpuinfo_get_core(0)->uarch == cpuinfo_uarch_zen4, is_zen4);
}

#endif

}  // namespace
