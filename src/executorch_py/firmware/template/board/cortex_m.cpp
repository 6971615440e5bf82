// Start-up of a Cortex-M, its services through semihosting, and counters. No C library but memcpy and its kin.
#include <cstdint>

#include "board.h"

extern "C" {
extern uint32_t __data_start, __data_end, __data_load, __bss_start, __bss_end, __stack_limit, __stack_top;
int main();
void start();
void reset_handler();
void fault_handler();
void systick_handler();
}

namespace {

volatile uint32_t g_wraps = 0;
// Instructions in one round of the counter of ticks, found out by a loop of two.
constexpr uint32_t kLoopRounds = 100000;
uint32_t g_per_round = 0;

volatile uint32_t& register_at(uint32_t address) { return *reinterpret_cast<volatile uint32_t*>(address); }
constexpr uint32_t kSysTickControl = 0xE000E010, kSysTickReload = 0xE000E014, kSysTickValue = 0xE000E018;
constexpr uint32_t kCoprocessors = 0xE000ED88, kConfiguration = 0xE000ED14;
constexpr int kTickBits = 24;

int semihost(int operation, const void* argument) {
  register int r0 __asm("r0") = operation;
  register const void* r1 __asm("r1") = argument;
  __asm volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

/// Ticks since the last round of the counter, and how many rounds there were.
uint32_t ticks(uint32_t* rounds) {
  uint32_t value;
  do {
    *rounds = g_wraps;
    value = register_at(kSysTickValue);
  } while (*rounds != g_wraps);
  return (1u << kTickBits) - 1 - value;
}

void start_counting() {
  register_at(kSysTickReload) = (1u << kTickBits) - 1;
  register_at(kSysTickValue) = 0;
  register_at(kSysTickControl) = 7;  // processor clock, interrupt, on
  uint32_t wraps, rest, rounds = kLoopRounds;
  const uint32_t before = ticks(&wraps);
  __asm volatile(".syntax unified\n1: subs %0, %0, #1\n bne 1b" : "+l"(rounds) : : "cc");
  const uint32_t taken = ticks(&wraps) - before;
  const uint64_t per_round = taken == 0 ? 0 : board::divide(uint64_t{2 * kLoopRounds} << kTickBits, taken, &rest);
  g_per_round = static_cast<uint32_t>(per_round);
}

constexpr uint32_t kPaint = 0xA5A5A5A5u;

uint32_t* stack_pointer() {
  uint32_t* pointer;
  __asm volatile("mov %0, sp" : "=r"(pointer));
  return pointer;
}

uint32_t* g_painted_to = nullptr;

}  // namespace

namespace board {

void write(const char* text) { semihost(0x04, text); }  // SYS_WRITE0

void exit(int status) {
  const uint32_t arguments[2] = {0x20026, static_cast<uint32_t>(status)};  // ADP_Stopped_ApplicationExit
  semihost(0x20, arguments);                                               // SYS_EXIT_EXTENDED
  for (;;) {
  }
}

uint64_t instructions() {
  uint32_t rounds;
  const uint32_t value = ticks(&rounds);
  return uint64_t{rounds} * g_per_round + (uint64_t{value} * g_per_round >> kTickBits);
}

__attribute__((noinline)) void paint_stack() {
  g_painted_to = stack_pointer();
  for (volatile uint32_t* word = &__stack_limit; word < g_painted_to; ++word) {
    *word = kPaint;  // volatile: a call of memset would have its own frame painted over
  }
}

size_t stack_used() {
  const uint32_t* word = &__stack_limit;
  while (word < g_painted_to && *word == kPaint) {
    ++word;
  }
  return static_cast<size_t>(g_painted_to - word) * sizeof(uint32_t);
}

}  // namespace board

// The runtime's clock (runtime/platform.h): events are timed in instructions.
namespace et::runtime {
uint64_t platform_now_ns();
uint64_t platform_now_ns() { return board::instructions(); }
}  // namespace et::runtime

#if defined(__ARM_ARCH_6M__)
// std::atomic: this core has no instruction that exchanges, so interrupts wait. Clang calls functions to load and
// store, too; GCC's loads and stores are those of a volatile, as here.
namespace {
template <typename T>
T exchange(volatile void* at, T value) {
  uint32_t mask;
  __asm volatile("mrs %0, primask\n cpsid i" : "=r"(mask) : : "memory");
  volatile T* const place = static_cast<volatile T*>(at);
  const T before = *place;
  *place = value;
  __asm volatile("msr primask, %0" : : "r"(mask) : "memory");
  return before;
}
}  // namespace
extern "C" {
__attribute__((used)) uint8_t __atomic_exchange_1(volatile void* at, uint8_t value, int) { return exchange(at, value); }
__attribute__((used)) unsigned __atomic_exchange_4(volatile void* at, unsigned value, int) {
  return exchange(at, value);
}
#if defined(__clang__)
uint8_t __atomic_load_1(const volatile void* at, int) { return *static_cast<const volatile uint8_t*>(at); }
unsigned __atomic_load_4(const volatile void* at, int) { return *static_cast<const volatile unsigned*>(at); }
void __atomic_store_1(volatile void* at, uint8_t value, int) { *static_cast<volatile uint8_t*>(at) = value; }
void __atomic_store_4(volatile void* at, unsigned value, int) { *static_cast<volatile unsigned*>(at) = value; }
#endif
}
#endif

// A destructor called through `delete` refers to these; nothing in the image allocates, so nothing calls them.
void operator delete(void*) noexcept { fault_handler(); }
void operator delete(void*, size_t) noexcept { fault_handler(); }

extern "C" {

void __cxa_pure_virtual() { fault_handler(); }

// Puts memory into the state that C++ expects, and runs the program.
__attribute__((noreturn, noinline)) void start() {
  const uint32_t* from = &__data_load;
  for (uint32_t* to = &__data_start; to < &__data_end; ++to, ++from) {
    *to = *from;
  }
  for (uint32_t* to = &__bss_start; to < &__bss_end; ++to) {
    *to = 0;
  }
  start_counting();
  board::exit(main());
}

// No floating-point or vector register may be touched before the coprocessors are on, so this function holds no code
// that a compiler could vectorise.
__attribute__((noreturn)) void reset_handler() {
#if defined(__ARM_FP) || defined(__ARM_FEATURE_MVE)
  register_at(kCoprocessors) = register_at(kCoprocessors) | (0xFu << 20);  // CP10 and CP11: full access
#endif
#if defined(__ARM_ARCH_6M__)
  register_at(kConfiguration) = register_at(kConfiguration) | (1u << 3);  // unaligned accesses fault, if they did not
#endif
#if defined(__ARM_FEATURE_MVE)
  register_at(kConfiguration) = register_at(kConfiguration) | (3u << 18);  // low-overhead loops, branch prediction
#endif
  __asm volatile("dsb\n isb" ::: "memory");
  start();
}

// Nothing in the runtime may come here: a corrupted model or missing memory is an error code.
__attribute__((noreturn)) void fault_handler() {
  board::write("fault\n");
  board::exit(70);
}

void systick_handler() { g_wraps = g_wraps + 1; }

__attribute__((section(".vectors"), used)) const void* const kVectors[16] = {
    &__stack_top,
    reinterpret_cast<const void*>(&reset_handler),
    reinterpret_cast<const void*>(&fault_handler),  // NMI
    reinterpret_cast<const void*>(&fault_handler),  // HardFault
    reinterpret_cast<const void*>(&fault_handler),  // MemManage
    reinterpret_cast<const void*>(&fault_handler),  // BusFault
    reinterpret_cast<const void*>(&fault_handler),  // UsageFault
    reinterpret_cast<const void*>(&fault_handler),  // SecureFault
    nullptr,
    nullptr,
    nullptr,
    reinterpret_cast<const void*>(&fault_handler),  // SVCall
    reinterpret_cast<const void*>(&fault_handler),  // DebugMonitor
    nullptr,
    reinterpret_cast<const void*>(&fault_handler),  // PendSV
    reinterpret_cast<const void*>(&systick_handler),
};
}
