// Faults on the device: the n-th request for memory fails, flash is damaged, a watchdog resets at any instruction.
//
// Takes the place of main.cpp in a project of `etpy firmware` for an MPS2 board; tests/targets/test_faults.py reads
// what it prints. The model adds to its state what it computes, so that n executions are told from n + 1.
#include <cstring>

#include "base/crc32.h"
#include "board/board.h"
#include "kernels.h"
#include "memory.h"
#include "model.h"
#include "report.h"

namespace {

using namespace et;           // NOLINT(google-build-using-namespace): a program, not a header
using namespace et::runtime;  // NOLINT(google-build-using-namespace)

constexpr uint32_t kMagic = 0x57a7e001;
constexpr uint32_t kSpread = 300, kLast = 700;  // cuts all over a start, and one a tick where it keeps its state
constexpr size_t kNumValues = 5;

/// RAM between .bss and the stack, which no start-up touches: it is as the last run left it. The first stands for
/// memory that outlives a reset (FRAM, flash); the second has the pools, so that a run begins with another's bytes.
constexpr uintptr_t kKeptAt = 0x20300000, kPoolsAt = 0x20200000;

/// State of the application: two places in turn, each with a number and a checksum.
struct Slot {
  uint32_t number;
  float sum[kNumValues];
  uint32_t checksum;
  uint32_t right() const { return crc32(this, offsetof(Slot, checksum)); }
  bool is_whole() const { return checksum == right(); }
};
struct Kept {
  uint32_t magic, cut, ticks, resets, last;
  float step[kNumValues];  // what an execution adds
  Slot slots[2];
};
Kept& kept() { return *reinterpret_cast<Kept*>(kKeptAt); }

/// The newest whole place; nullptr: none, so the state is that of the file.
const Slot* newest() {
  const Slot* found = nullptr;
  for (const Slot& slot : kept().slots) {
    found = slot.is_whole() && (found == nullptr || slot.number > found->number) ? &slot : found;
  }
  return found;
}

class FailingPool final : public MemoryAllocator {
 public:
  FailingPool(uint8_t* base, size_t nbytes) : MemoryAllocator(base, nbytes) {}
  void* allocate(size_t nbytes, size_t alignment) override {
    if (left_ != 0 && --left_ == 0) {
      failed_ = true;
      return nullptr;
    }
    return MemoryAllocator::allocate(nbytes, alignment);
  }
  /// The n-th request from here on fails; 0: none does.
  void fail_at(uint32_t n) {
    left_ = n;
    failed_ = false;
  }
  bool failed() const { return failed_; }

 private:
  uint32_t left_ = 0;
  bool failed_ = false;
};

/// One device: pools, arenas, and a method in them.
struct Device {
  FailingPool method_pool{reinterpret_cast<uint8_t*>(kPoolsAt), firmware::kMethodPoolBytes};
  FailingPool temp_pool{reinterpret_cast<uint8_t*>(kPoolsAt + 0x40000), firmware::kTempPoolBytes};
  Span<uint8_t> planned[firmware::kNumArenas];
  BufferLoader loader{firmware::kModel, firmware::kModelBytes};
  KernelRegistry kernels;
  MemoryManager memory{&method_pool, {planned, firmware::kNumArenas}, &temp_pool, nullptr};
  MethodOptions options;

  Device() {
    for (size_t i = 0, used = 0; i < firmware::kNumArenas; used += firmware::kArenas[i], ++i) {
      planned[i] = {reinterpret_cast<uint8_t*>(kPoolsAt + 0x80000 + used), firmware::kArenas[i]};
    }
    static_cast<void>(firmware::register_kernels(kernels));
    options.kernels = &kernels;
  }

  Result<Method> load(const Program& program) {
    method_pool.reset();
    temp_pool.reset();
    return program.load_method(firmware::kMethod, &memory, options);
  }
};

Error execute(Method& method) {
  ET_RETURN_IF_ERROR(firmware::set_input(method, 0, firmware::kInputs[0].data, firmware::kInputs[0].size));
  return method.execute();
}

float* state_of(Method& method) { return static_cast<float*>(method.attribute(0).tensor.mutable_data_ptr()); }

bool adds_once(Method& method) {
  return execute(method) == Error::Ok && memcmp(state_of(method), kept().step, sizeof(kept().step)) == 0;
}

Error give_up(const char* why) {
  board::write(why);
  board::write("\n");
  return Error::Internal;
}

/// Every request fails once: an error, nothing left behind, and the next time works.
Error fail_each_allocation(Device& device, const Program& program) {
  uint32_t loads = 0;
  for (uint32_t n = 1;; ++n) {
    device.method_pool.fail_at(n);
    {
      const Result<Method> method = device.load(program);
      if (!device.method_pool.failed()) {
        break;
      }
      if (method.ok() || method.error() != Error::MemoryAllocationFailed) {
        return give_up("a load without memory did not say so");
      }
    }
    ++loads;
    device.method_pool.fail_at(0);
    ET_TRY(Method again, device.load(program));
    if (!adds_once(again)) {
      return give_up("a load after one without memory computes something else");
    }
  }
  device.method_pool.fail_at(0);
  ET_TRY(Method method, device.load(program));
  const size_t method_used = device.method_pool.used();
  uint32_t executions = 0;
  for (uint32_t n = 1;; ++n) {
    device.temp_pool.fail_at(n);
    const Error error = execute(method);
    const bool failed = device.temp_pool.failed();
    device.temp_pool.fail_at(0);
    if (failed && error != Error::MemoryAllocationFailed) {
      return give_up("an execution without memory did not say so");
    }
    if (device.temp_pool.used() != 0 || device.method_pool.used() != method_used) {
      return give_up("an execution kept memory");
    }
    device.method_pool.fail_at(1);  // putting state back must not need any
    const Error reset = method.reset_state();
    device.method_pool.fail_at(0);
    if (reset != Error::Ok || !adds_once(method)) {
      return give_up("an execution after one without memory computes something else");
    }
    ET_RETURN_IF_ERROR(method.reset_state());
    if (!failed) {
      break;
    }
    ++executions;
  }
  firmware::write_number("failed loads ", loads);
  firmware::write_number("\nfailed executions ", executions);
  board::write("\n");
  return Error::Ok;
}

/// Each byte of the tables, then of the weights, with one bit changed: refused.
Error damage_each_byte() {
  auto* const copy = reinterpret_cast<uint8_t*>(kPoolsAt + 0x90000);
  memcpy(copy, firmware::kModel, firmware::kModelBytes);
  uint32_t accepted =
      firmware::check_program(copy, true) == Error::Ok && firmware::check_program(copy, false) == Error::Ok;
  for (size_t i = 0; i < firmware::kModelBytes; ++i) {
    const bool is_weight = i >= firmware::kProgramTablesBytes;
    if (is_weight && i % 16 != 0) {
      continue;
    }
    copy[i] = static_cast<uint8_t>(copy[i] ^ 1u << i % 8);
    accepted += firmware::check_program(copy, is_weight) == Error::Ok ? 1 : 0;
    copy[i] = firmware::kModel[i];
  }
  firmware::write_number("accepted ", accepted);  // the whole one
  board::write("\n");
  return Error::Ok;
}

volatile uint32_t& register_at(uintptr_t address) { return *reinterpret_cast<volatile uint32_t*>(address); }
constexpr uintptr_t kWatchdogLoad = 0x40008000, kWatchdogValue = 0x40008004, kWatchdogControl = 0x40008008;

void start_watchdog(uint32_t ticks) {
  __asm volatile("" ::: "memory");  // what is to be kept has been written
  register_at(kWatchdogLoad) = ticks;
  register_at(kWatchdogControl) = 3;  // at zero an interrupt, and when that is not answered within as many, a reset
}
void stop_watchdog() { register_at(kWatchdogControl) = 0; }

/// The watchdog's first alarm: nothing answers it, so that the run ends at the instruction where it stood.
void stand_still() {
  start_watchdog(16);
  for (;;) {
  }
}
alignas(128) uintptr_t g_vectors[16];
void catch_alarm() {
  memcpy(g_vectors, reinterpret_cast<const void*>(*reinterpret_cast<volatile uintptr_t*>(0xE000ED08)),
         sizeof(g_vectors));
  g_vectors[2] = reinterpret_cast<uintptr_t>(&stand_still);  // NMI
  register_at(0xE000ED08) = reinterpret_cast<uintptr_t>(g_vectors);
  __asm volatile("dsb\n isb" ::: "memory");
}

/// What a product does at each start: check, load, take the state up, compute, keep the state.
Error work() {
  ET_RETURN_IF_ERROR(firmware::check_program(firmware::kModel, true));
  Device device;
  ET_TRY(const Program program, Program::load(&device.loader));
  ET_TRY(Method method, device.load(program));
  uint32_t number = 0;
  if (const Slot* const slot = newest()) {
    number = slot->number;
    memcpy(state_of(method), slot->sum, sizeof(slot->sum));
  }
  ET_RETURN_IF_ERROR(execute(method));
  Slot next = {number + 1, {}, 0};
  memcpy(next.sum, state_of(method), sizeof(next.sum));
  next.checksum = next.right();
  auto* const to = reinterpret_cast<volatile uint32_t*>(&kept().slots[next.number % 2]);
  const auto* const from = reinterpret_cast<const uint32_t*>(&next);
  for (size_t i = 0; i < sizeof(Slot) / sizeof(uint32_t); ++i) {
    to[i] = from[i];  // word by word, the checksum last
  }
  return Error::Ok;
}

/// What is kept must be the state after some whole number of executions, none of them lost or done twice.
bool is_as_documented() {
  const Slot* const slot = newest();
  const uint32_t number = slot == nullptr ? 0 : slot->number;
  if (number != kept().last && number != kept().last + 1) {
    return false;
  }
  kept().last = number;
  for (size_t v = 0; slot != nullptr && v < kNumValues; ++v) {
    volatile float sum = 0;
    for (uint32_t n = 0; n < number; ++n) {
      sum = sum + kept().step[v];
    }
    if (memcmp(const_cast<float*>(&sum), &slot->sum[v], sizeof(float)) != 0) {
      return false;
    }
  }
  return true;
}

Error first_start() {
  memset(&kept(), 0, sizeof(Kept));
  kept().slots[0].checksum = kept().slots[1].checksum = 1;  // neither is whole
  Device device;
  ET_TRY(const Program program, Program::load(&device.loader));
  {
    ET_TRY(Method method, device.load(program));
    ET_RETURN_IF_ERROR(execute(method));
    memcpy(kept().step, state_of(method), sizeof(kept().step));
  }
  ET_RETURN_IF_ERROR(fail_each_allocation(device, program));
  ET_RETURN_IF_ERROR(damage_each_byte());
  ET_RETURN_IF_ERROR(work());
  start_watchdog(UINT32_MAX);
  ET_RETURN_IF_ERROR(work());  // as all later ones, with state from the one before
  kept().ticks = UINT32_MAX - register_at(kWatchdogValue);
  stop_watchdog();
  kept().last = 2;
  kept().magic = kMagic;
  return Error::Ok;
}

Error run() {
  if (kept().magic != kMagic) {
    ET_RETURN_IF_ERROR(first_start());
  } else {
    ++kept().resets;
  }
  catch_alarm();
  while (kept().cut < kSpread + kLast) {
    if (!is_as_documented()) {
      firmware::write_number("not as documented at cut ", kept().cut);
      return give_up("");
    }
    const uint32_t cut = kept().cut++;
    start_watchdog(cut < kSpread ? 1 + static_cast<uint32_t>(uint64_t{kept().ticks} * cut / kSpread)
                                 : kept().ticks - kLast + (cut - kSpread) + 100);
    const Error error = work();
    stop_watchdog();
    ET_RETURN_IF_ERROR(error);
  }
  firmware::write_number("resets ", kept().resets);
  firmware::write_number("\nexecutions kept ", kept().last);
  firmware::write_number("\nticks ", kept().ticks);
  board::write(is_as_documented() ? "\nas documented\n" : "\nnot as documented\n");
  return Error::Ok;
}

}  // namespace

int main() { return static_cast<int>(run()); }
