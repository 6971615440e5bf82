// Multiply-accumulates a second that this machine can do, in registers: float32, and bytes added up in int32. An upper
// bound for any kernel, measured like the kernels are: at the clock and beside the neighbours of this moment.
//
//     peak SECONDS THREADS   ->   {"fp32": …, "int8": …}      multiply-accumulates a second, all threads together
//
// Built by peak.py for the processor that it runs on. int8 is 0 where the file knows no instruction for it.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#endif

#if defined(__AVX512F__)
#define WIDTH 64
#elif defined(__AVX__)
#define WIDTH 32
#else
#define WIDTH 16
#endif
// Sums side by side: more than the latency of an operation times those that begin in a cycle, and fewer than there are
// registers.
#define SUMS 12
#define STEPS 2000

typedef float Floats __attribute__((vector_size(WIDTH)));

static volatile float kNumbers[2] = {0.999999f, 0.000001f};
static volatile float kSink;

static void float_steps(void) {
  const Floats zero = {0};
  const Floats factor = zero + kNumbers[0], summand = zero + kNumbers[1];
  Floats sums[SUMS];
  for (int i = 0; i < SUMS; ++i) sums[i] = summand * (float)(i + 1);
  for (int step = 0; step < STEPS; ++step) {
    for (int i = 0; i < SUMS; ++i) sums[i] = sums[i] * factor + summand;
  }
  for (int i = 1; i < SUMS; ++i) sums[0] += sums[i];
  kSink = sums[0][0];
}
static const double kFloatMacs = (double)SUMS * STEPS * (WIDTH / 4);

#if defined(__AMX_INT8__) && defined(__linux__)
// below
#elif defined(__AVX512VNNI__)
typedef __m512i Integers;
static Integers dot(Integers sum, Integers a, Integers b) { return _mm512_dpbusd_epi32(sum, a, b); }
#elif defined(__AVXVNNI__)
typedef __m256i Integers;
static Integers dot(Integers sum, Integers a, Integers b) { return _mm256_dpbusd_avx_epi32(sum, a, b); }
#elif defined(__AVX2__)
typedef __m256i Integers;
static Integers dot(Integers sum, Integers a, Integers b) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1)));
}
#elif defined(__AVX2__)
typedef __m256i Integers;
// Pairs of bytes, then pairs of their sums: what a processor without an instruction for four can do at most.
static Integers dot(Integers sum, Integers a, Integers b) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), _mm256_set1_epi16(1)));
}
#elif defined(__ARM_FEATURE_DOTPROD)
typedef int32x4_t Integers;
static Integers dot(Integers sum, Integers a, Integers b) {
  return vdotq_s32(sum, vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b));
}
#else
#define NO_BYTES 1
#endif

#if defined(__AMX_INT8__) && defined(__linux__)
// Tiles: 16 x 16 sums of 64 products each in an instruction, four sums side by side.
#include <sys/syscall.h>
#include <unistd.h>
static const double kByteMacs = 4.0 * 16 * 16 * 64 * STEPS;
static void byte_steps(void) {
  struct {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
  } shape = {.palette = 1};
  for (int tile = 0; tile < 8; ++tile) shape.bytes[tile] = 64, shape.rows[tile] = 16;
  __asm__ volatile("ldtilecfg %0" ::"m"(shape));
  for (int step = 0; step < STEPS; ++step) {
    __asm__ volatile(
        "tdpbssd %%tmm6, %%tmm4, %%tmm0\n\ttdpbssd %%tmm7, %%tmm4, %%tmm1\n\t"
        "tdpbssd %%tmm6, %%tmm5, %%tmm2\n\ttdpbssd %%tmm7, %%tmm5, %%tmm3" ::);
  }
  __asm__ volatile("tilerelease" ::);
}
// The system gives a process its tiles when it requests them: ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA.
static int may_multiply_bytes(void) { return syscall(SYS_arch_prctl, 0x1023, 18) == 0; }
#elif !defined(NO_BYTES)
static int may_multiply_bytes(void) { return 1; }
static void byte_steps(void) {
  union {
    Integers vector;
    int32_t lanes[sizeof(Integers) / 4];
  } from, sums[SUMS];
  for (size_t lane = 0; lane < sizeof(Integers) / 4; ++lane) from.lanes[lane] = (int32_t)(kNumbers[0] * 0x01020304);
  const Integers factor = from.vector;
  for (int i = 0; i < SUMS; ++i) sums[i].vector = factor;
  for (int step = 0; step < STEPS; ++step) {
    for (int i = 0; i < SUMS; ++i) {
      sums[i].vector = dot(sums[i].vector, factor, sums[i].vector);  // of its own sum, so that no step is left out
    }
  }
  int32_t total = 0;
  for (int i = 0; i < SUMS; ++i) total ^= sums[i].lanes[0];
  kSink = (float)total;
}
static const double kByteMacs = (double)SUMS * STEPS * sizeof(Integers);
#else
static int may_multiply_bytes(void) { return 0; }
static void byte_steps(void) {}
static const double kByteMacs = 0;
#endif

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

struct Run {
  void (*steps)(void);
  double macs, seconds, rate;
  pthread_t thread;
};

static void* run(void* opaque) {
  struct Run* const self = opaque;
  const double start = now();
  double end = start;
  long rounds = 0;
  for (; end - start < self->seconds; end = now(), ++rounds) self->steps();
  self->rate = self->macs * (double)rounds / (end - start);
  return NULL;
}

static double rate_of(void (*steps)(void), double macs, double seconds, int threads) {
  struct Run* const runs = calloc((size_t)threads, sizeof(struct Run));
  if (runs == NULL || macs == 0) {
    free(runs);
    return 0;
  }
  double total = 0;
  int started = 0;
  for (; started < threads; ++started) {
    runs[started] = (struct Run){.steps = steps, .macs = macs, .seconds = seconds};
    if (pthread_create(&runs[started].thread, NULL, run, &runs[started]) != 0) break;
  }
  for (int i = 0; i < started; ++i) {
    pthread_join(runs[i].thread, NULL);
    total += runs[i].rate;
  }
  free(runs);
  return total;
}

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? atof(argv[1]) : 0.02;
  const int threads = argc > 2 ? atoi(argv[2]) : 1;
  if (threads < 1 || threads > 1024 || !(seconds > 0 && seconds <= 60)) {
    fprintf(stderr, "usage: peak SECONDS THREADS\n");
    return 2;
  }
  printf("{\"fp32\": %.6g, \"int8\": %.6g}\n", rate_of(float_steps, kFloatMacs, seconds, threads),
         may_multiply_bytes() ? rate_of(byte_steps, kByteMacs, seconds, threads) : 0.0);
  return 0;
}
