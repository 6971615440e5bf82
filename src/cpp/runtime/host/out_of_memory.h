/// Exception boundaries: where a host function that keeps things in containers turns std::bad_alloc into an Error.
///
/// For: functions of the host layer, of extension and of delegates that the outside calls. Their libraries are built
/// with exceptions. Not for: base, runtime and kernels, which are not, and take all memory from allocators that say no
/// (design note 20). So a function that those call (a loader, a map of named data, a shared cache, a backend) has a
/// boundary of its own: nothing is ever thrown through them.
///
///     Result<std::unique_ptr<Thing>> Thing::open(const std::string& path) try {
///       List<uint32_t> table(count);          // says how much it requested
///       …
///     }
///     ET_NO_MEMORY("the table of '%s'", path.c_str())
///
/// logs "no memory for 4096 bytes of the table of 'x'". In the body everything that is to be given back has an owner
/// before the next allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "base/error.h"
#include "base/log.h"

namespace et::runtime {

/// Throws a bad_alloc that knows what was requested.
[[noreturn]] void throw_out_of_memory(size_t nbytes);

/// The allocator of containers whose size depends on a file.
template <typename T>
struct HeapOf {
  using value_type = T;
  HeapOf() = default;
  template <typename Other>
  HeapOf(const HeapOf<Other>&) {}  // NOLINT(google-explicit-constructor)
  T* allocate(size_t count) {
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    const size_t nbytes = count > SIZE_MAX / sizeof(T) ? SIZE_MAX : count * sizeof(T);
    void* const memory = nbytes == SIZE_MAX ? nullptr : ::operator new(nbytes, std::nothrow);
    if (memory == nullptr) {
      throw_out_of_memory(nbytes);
    }
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t) { ::operator delete(memory); }
  friend bool operator==(HeapOf, HeapOf) { return true; }
  friend bool operator!=(HeapOf, HeapOf) { return false; }
};

template <typename T>
using List = std::vector<T, HeapOf<T>>;

/// What was requested: "4096 bytes"; "a small object" for the library's own classes, which do not say.
struct RequestText {
  explicit RequestText(const std::bad_alloc& fault);
  char text[32] = "a small object";
};

}  // namespace et::runtime

/// Ends a function-try-block: MemoryAllocationFailed, and a message as above. There is at least one argument.
#define ET_NO_MEMORY(format, ...)                                                          \
  catch (const std::bad_alloc& et_fault_) {                                                \
    return ET_ERROR_WITH_MESSAGE(MemoryAllocationFailed, "no memory for %s of " format,    \
                                 ::et::runtime::RequestText(et_fault_).text, __VA_ARGS__); \
  }
