/// Session: the mutable state (a KV cache, running statistics) that the methods of one Program share.
///
/// For: a conversation or a stream. Each session has its own copy of every mutable buffer; methods that are loaded with
/// the same session see each other's writes. Not for: what a single method keeps between its instructions.
///
///     ET_TRY(Session* const session, Session::create(program, allocator));
///     options.session = session;
///     ET_TRY(Method prefill, program.load_method("prefill", &memory_a, options));
///     ET_TRY(Method decode, program.load_method("decode", &memory_b, options));
///
/// Buffers are the same when they lie at the same place of the same *state memory*: a memory id that holds nothing but
/// mutable buffers (docs/reference/format.md, "Mutable state"). The exporter gives two buffers the same place only when
/// their storage is the same in the state dicts. Names decide whether memory is state, never which buffers are one.
#pragma once

#include <atomic>

#include "base/result.h"
#include "base/span.h"

namespace et::runtime {

class MemoryAllocator;
class NamedDataMap;
class Program;

class Session {
 public:
  /// Makes a session with initial values. It lives in `allocator`; it, the program and `external_data` (the `.ptd`
  /// files; may be nullptr) must outlive the methods that use the session. Errors: MemoryAllocationFailed;
  /// InvalidExternalData; those of the program's loader.
  static Result<Session*> create(const Program& program, MemoryAllocator& allocator,
                                 const NamedDataMap* external_data = nullptr);

  /// Puts every buffer back to its initial value. Errors: InvalidState while a method of the session runs.
  Error reset();

  /// Memory of a state memory id; empty for other ids.
  Span<uint8_t> memory(uint32_t memory_id) const;

  /// Takes the state for one execution; false when another method has it. Threads: safe.
  bool try_acquire() { return !busy_.exchange(true, std::memory_order_acquire); }
  void release() { busy_.store(false, std::memory_order_release); }

 private:
  friend class MethodLoader;

  Session(const Program& program, Span<Span<uint8_t>> memory, const NamedDataMap* external_data)
      : program_(&program), external_data_(external_data), memory_(memory) {}
  Error write_initial_values();

  const Program* program_;
  const NamedDataMap* external_data_;
  Span<Span<uint8_t>> memory_;  // [memory id]; [0] is unused
  std::atomic<bool> busy_{false};
};

}  // namespace et::runtime
