// Which functions of a loaded library run, in the order of their first calls. Built and used by first_call.py;
// x86-64, Linux.
//
// A breakpoint stands at the entry of each function; the handler takes it away as it is met, so that whole networks run
// at nearly their own speed. One library at a time.
#define _GNU_SOURCE
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { kBreakpoint = 0xCC };

static const uint64_t* entries;  // ascending
static uint8_t* saved;           // the byte of each entry
static uint32_t* met;            // indices, in order
static size_t count, met_count;

static void on_trap(int signal, siginfo_t* info, void* context) {
  (void)signal;
  (void)info;
  greg_t* const pc = &((ucontext_t*)context)->uc_mcontext.gregs[REG_RIP];
  const uint64_t at = (uint64_t)*pc - 1;
  size_t low = 0, high = count;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (entries[middle] < at) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == count || entries[low] != at) {
    __builtin_trap();  // not one of ours
  }
  uint8_t* const code = (uint8_t*)(uintptr_t)at;
  if (*code == kBreakpoint) {
    *code = saved[low];
    met[met_count++] = (uint32_t)low;
  }
  *pc = (greg_t)at;
}

// Puts the breakpoints in code [begin, end), whole pages. `at` (ascending), `bytes` and `order` have `n` items and stay
// in use. Returns 0, or -1 where the system forbids it.
int arm(uint64_t begin, uint64_t end, const uint64_t* at, uint8_t* bytes, uint32_t* order, size_t n) {
  entries = at;
  saved = bytes;
  met = order;
  count = n;
  struct sigaction action = {0};
  action.sa_sigaction = on_trap;
  action.sa_flags = SA_SIGINFO | SA_NODEFER;
  if (mprotect((void*)(uintptr_t)begin, end - begin, PROT_READ | PROT_WRITE | PROT_EXEC) != 0 ||
      sigaction(SIGTRAP, &action, NULL) != 0) {
    return -1;
  }
  for (size_t i = 0; i < n; ++i) {
    uint8_t* const code = (uint8_t*)(uintptr_t)at[i];
    bytes[i] = *code;
    *code = kBreakpoint;
  }
  return 0;
}

size_t number_met(void) { return met_count; }
