/// The instruction sets that the SIMD kernels are compiled for; include it before any header of Highway.
///
/// For: every .cpp of this folder that has vector code. Each is compiled once a target and the best one that the
/// processor has is taken at run time: SSE4 (the baseline), AVX2 and AVX-512 on x86-64, NEON on Arm.
/// Not for: choosing by hand; no file checks which processor it runs on.
///
/// Left out: targets with instructions that these kernels do not use, and scalable vectors, which no array can hold.
#pragma once

// Highway counts SSE4 in only together with AES, which x86-64-v2 does not promise and nothing here needs.
#ifndef HWY_DISABLE_PCLMUL_AES
#define HWY_DISABLE_PCLMUL_AES
#endif
// Files that multiply BFloat16 define ET_TARGETS_WITH_BFLOAT16 for the targets of AVX-512 that have instructions for
// it.
#ifdef ET_TARGETS_WITH_BFLOAT16
#define ET_TARGETS_OF_BFLOAT16 0
#else
#define ET_TARGETS_OF_BFLOAT16 (HWY_AVX3_ZEN4 | HWY_AVX3_SPR)
#endif
// Those that multiply bytes define ET_TARGETS_WITH_BYTE_PRODUCTS, likewise.
#ifdef ET_TARGETS_WITH_BYTE_PRODUCTS
#define HWY_WANT_AVX3_DL 1  // Highway leaves it out by default
#define ET_TARGETS_OF_BYTES 0
#else
#define ET_TARGETS_OF_BYTES HWY_AVX3_DL
#endif
#define HWY_DISABLED_TARGETS                                                                                \
  (HWY_SSE2 | HWY_SSSE3 | ET_TARGETS_OF_BYTES | ET_TARGETS_OF_BFLOAT16 | HWY_SVE | HWY_SVE2 | HWY_SVE_256 | \
   HWY_SVE2_128 | HWY_RVV)
