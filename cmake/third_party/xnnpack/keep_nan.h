// Included before x86 kernels that limit their results by min(x, bound): those instructions give the second operand
// beside a NaN, which so became a bound, and infinity where there is none. Here a NaN in either operand stays.
#pragma once

#include <immintrin.h>

#define ET_KEEP_NAN(INSTRUCTION, VECTOR, OR, COMPARISON)                  \
  static inline VECTOR et_keep_nan##INSTRUCTION(VECTOR a, VECTOR b) {     \
    return OR(INSTRUCTION(a, b), COMPARISON); /* all bits set is a NaN */ \
  }
ET_KEEP_NAN(_mm_min_ps, __m128, _mm_or_ps, _mm_cmpunord_ps(a, a))
ET_KEEP_NAN(_mm_max_ps, __m128, _mm_or_ps, _mm_cmpunord_ps(a, a))
#define _mm_min_ps et_keep_nan_mm_min_ps
#define _mm_max_ps et_keep_nan_mm_max_ps
#ifdef __AVX__
ET_KEEP_NAN(_mm256_min_ps, __m256, _mm256_or_ps, _mm256_cmp_ps(a, a, _CMP_UNORD_Q))
ET_KEEP_NAN(_mm256_max_ps, __m256, _mm256_or_ps, _mm256_cmp_ps(a, a, _CMP_UNORD_Q))
#define _mm256_min_ps et_keep_nan_mm256_min_ps
#define _mm256_max_ps et_keep_nan_mm256_max_ps
#endif
#ifdef __AVX512F__
static inline __m512 et_keep_nan_mm512_min_ps(__m512 a, __m512 b) {
  return _mm512_mask_mov_ps(_mm512_min_ps(a, b), _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), a);
}
static inline __m512 et_keep_nan_mm512_max_ps(__m512 a, __m512 b) {
  return _mm512_mask_mov_ps(_mm512_max_ps(a, b), _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), a);
}
#define _mm512_min_ps et_keep_nan_mm512_min_ps
#define _mm512_max_ps et_keep_nan_mm512_max_ps
#endif
