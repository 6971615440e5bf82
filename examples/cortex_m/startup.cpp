// Reset of a Cortex-M55: the vector table, the coprocessors that hold floating point and MVE, then the C library's
// start, which clears .bss, fetches the command line through semihosting and calls main.

#include <cerrno>
#include <cstddef>
#include <cstdint>

extern "C" {
extern uint32_t __stack;
extern char __heap_start, __heap_limit_of_board;
void _start();

// Runs before any floating-point register may be touched, so it holds no code that the compiler could vectorise.
[[noreturn]] void reset_handler() {
  volatile uint32_t* const cpacr = reinterpret_cast<volatile uint32_t*>(0xE000ED88);  // Coprocessor Access Control
  *cpacr = *cpacr | (0xFu << 20);                                                     // CP10, CP11: full access
  volatile uint32_t* const ccr = reinterpret_cast<volatile uint32_t*>(0xE000ED14);    // Configuration and Control
  *ccr = *ccr | (1u << 18) | (1u << 19);                                              // BP, LOB: low-overhead loops
  __asm volatile("dsb\n isb" ::: "memory");
  _start();
  for (;;) {
  }
}

// Heap for the C library's files; the runtime itself takes none. newlib's own version believes what the debugger says
// about memory, which here is another region than the linker script's.
void* _sbrk(ptrdiff_t increment) {
  static char* end = &__heap_start;
  if (increment > &__heap_limit_of_board - end || increment < &__heap_start - end) {
    errno = ENOMEM;
    return reinterpret_cast<void*>(-1);
  }
  char* const previous = end;
  end += increment;
  return previous;
}

// A fault ends the emulator with status 70 instead of hanging it: SYS_EXIT_EXTENDED with an application error.
[[noreturn]] void fault_handler() {
  static const uint32_t arguments[2] = {0x20026, 70};
  __asm volatile("mov r0, #0x20\n mov r1, %0\n bkpt 0xAB" ::"r"(arguments) : "r0", "r1", "memory");
  for (;;) {
  }
}

__attribute__((section(".vectors"), used)) void (*const kVectors[16])() = {
    reinterpret_cast<void (*)()>(&__stack),
    reset_handler,
    fault_handler,  // NMI
    fault_handler,  // HardFault
    fault_handler,  // MemManage
    fault_handler,  // BusFault
    fault_handler,  // UsageFault
    fault_handler,  // SecureFault
    nullptr,
    nullptr,
    nullptr,
    fault_handler,  // SVCall
    fault_handler,  // DebugMonitor
    nullptr,
    fault_handler,  // PendSV
    fault_handler,  // SysTick
};
}
