/// What a Method consists of. Internal to runtime: made by method_loader.cpp, run by method_execute.cpp.
#pragma once

#include "runtime/debug_info.h"
#include "runtime/method.h"
#include "runtime/tracing.h"
#include "schema/debug_info_generated.h"
#include "schema/program_generated.h"
#include "schema/shapes_generated.h"

namespace et::runtime {

/// A delegate of the method.
struct DelegateState {
  const BackendInterface* backend = nullptr;
  DelegateHandle* handle = nullptr;
  FreeableBuffer processed;
  std::string_view name;
  bool is_initialized = false;
};

/// An instruction, resolved. What a loop of the executor needs, and nothing that it would have to look up.
struct Instruction {
  enum class Kind : uint8_t { kKernel, kDelegate, kMove, kJumpFalse, kFree };

  union {
    KernelRun run;            // kKernel
    DelegateState* delegate;  // kDelegate
    EValue* from;             // kMove: source; kJumpFalse: condition; kFree: tensor
  };
  void* state;           // kKernel: what prepare made
  EValue** args;         // kKernel, kDelegate: [num_args]; kMove: the destination in place of the array
  const Kernel* kernel;  // kKernel
  uint32_t num_args;
  union {
    uint32_t num_parameters;  // kKernel: of args, those that its kernel gets
    uint32_t target;          // kJumpFalse: index of the next instruction
  };
  Kind kind;
  /// Some argument is bound late: its memory may be missing or read-only, which is looked at before each run.
  bool is_checked;
};

/// What the loader finds out about a value, and forgets when the method is loaded.
enum ValueFlag : uint16_t {
  kVariable = 1,      ///< the value itself is replaced at run time (computed numbers, destinations of moves)
  kLate = 2,          ///< its tensor gets its memory, or the right to be written, at run time
  kUsed = 4,          ///< an instruction or a list names it
  kRebound = 8,       ///< destination of a move: put back when an execution begins
  kWritten = 16,      ///< some kernel writes its tensor
  kRepointed = 32,    ///< some kernel gives its tensor other memory: put back when an execution begins
  kInput = 64,        ///< set_input gives it its memory
  kOpenOutput = 128,  ///< open_outputs gives it its memory
  kReadPast = 256,    ///< what reads its tensor, or a view of it, may read past it
};

/// False in builds for microcontrollers, whose memory has no pages and whose kernels read no further than their
/// tensors.
#ifdef ET_WITHOUT_PAGES
constexpr bool kHasPages = false;
#else
constexpr bool kHasPages = true;
#endif

/// True where reading kReadAhead bytes past these ones might meet a page that is not there.
inline bool ends_with_page(const void* data, size_t nbytes) {
  constexpr uintptr_t kSmallestPage = 4096;
  const uintptr_t end = reinterpret_cast<uintptr_t>(data) + nbytes;
  return kHasPages && nbytes > 0 && (end - 1) % kSmallestPage >= kSmallestPage - kReadAhead;
}

inline bool reads_past(uint16_t flags) { return kHasPages && (flags & kReadPast) != 0; }

struct InputSlot {
  /// Where the method has what set_input is given.
  enum class Binding : uint8_t {
    kConstant,      ///< nowhere: it became part of the program, and must be the same
    kNumber,        ///< in the value
    kCopied,        ///< in the arena, in a place that other values share
    kCopiedBack,    ///< there, and copied to the caller in the end, as the method writes to it
    kBorrowed,      ///< in the caller's memory
    kWritten,       ///< there, and the method writes to it
    kBorrowedPast,  ///< there, or in a copy where reading past its end might meet a page that is not there
  };
  EValue* value = nullptr;
  void* memory = nullptr;     // kCopiedBack: the caller's; kBorrowedPast: a place of its own in the arena, if any
  size_t nbytes = 0;          // of that place
  uint16_t dynamic_dims = 0;  // bit d: dimension d may differ from the program's size
  Binding binding = Binding::kConstant;
  bool is_set = false;  // since the last execution

  bool is_copied() const { return binding == Binding::kCopied || binding == Binding::kCopiedBack; }
  bool is_written() const { return binding == Binding::kCopiedBack || binding == Binding::kWritten; }
};
struct OutputSlot {
  /// Where the method makes it, when set_output_data_ptr was given memory.
  enum class Binding : uint8_t {
    kFixed,     ///< where the program says; copied to the caller in the end
    kOpen,      ///< in the caller's memory
    kOpenPast,  ///< there, or elsewhere where reading past its end might meet a page that is not there
  };
  EValue* value = nullptr;
  TensorImpl* tensor = nullptr;  // the tensor the program names; a move may show another one
  void* caller_data = nullptr;   // given by set_output_data_ptr
  size_t caller_nbytes = 0;
  void* own_place = nullptr;  // open: a place in the arena that no other value has any of; nullptr: there is none
  size_t own_nbytes = 0;
  Binding binding = Binding::kFixed;
};

/// A tensor that gets other memory while running (DYNAMIC_UNBOUND, views), and the memory it begins each execution
/// with.
struct RestoredTensor {
  TensorImpl* tensor;
  void* data;
  size_t capacity;
  bool is_read_only;
};

/// The destination of a move and what it is when an execution begins.
struct ReboundValue {
  EValue* value;
  EValue original;
};

struct Method::State {
  State(const MethodMeta& method_meta, const MemoryManager& manager, const MethodOptions& method_options)
      : meta(method_meta), memory(manager), options(method_options), random{method_options.seed, 0} {}

  MethodMeta meta;
  MemoryManager memory;
  MethodOptions options;
  const Program* program = nullptr;
  const schema::ExecutionPlan* plan = nullptr;
  const schema::shapes::MethodShapes* shapes = nullptr;  // nullptr: none
  const schema::debug::MethodInfo* debug = nullptr;      // nullptr: none
  size_t plan_index = 0;

  Span<EValue> values;
  Span<Instruction> instructions;
  Span<DelegateState> delegates;
  Span<FreeableBuffer> external_buffers;
  Span<InputSlot> inputs;
  Span<OutputSlot> outputs;
  Span<RestoredTensor> restored;
  Span<ReboundValue> rebound;
  bool is_changed = true;       // since restore(): an execution has begun, or the method was just loaded
  Span<int64_t> symbol_values;  // [symbols]; scratch of the shape guard
  size_t num_prepared = 0;      // instructions whose kernel state must be destroyed
  bool uses_session_state = false;

  RandomState random;
  std::atomic<bool> is_running{false};
  std::atomic<bool> is_cancelled{false};
  size_t next_instruction = 0;  // of step()
  uint64_t backward_jumps = 0;
  bool is_stepping = false;
  bool traces_instructions = false;  // in this execution
  bool is_traced() const { return kTraces && traces_instructions; }
  uint64_t execution_start_ns = 0;  // with a tracer
  FailureLocation failure;

  /// The span of a planned buffer: the session's for state memory, else the caller's.
  Span<uint8_t> planned_buffer(uint32_t memory_id) const {
    if (options.session != nullptr && program->is_state_memory(memory_id)) {
      return options.session->memory(memory_id);
    }
    return memory_id - 1 < memory.planned_memory.size() ? memory.planned_memory[memory_id - 1] : Span<uint8_t>();
  }

  /// True for an address in a buffer that the method plans, or in its state.
  bool is_own_memory(const void* data) const {
    for (uint32_t id = 1; id <= memory.planned_memory.size(); ++id) {
      const Span<uint8_t> buffer = planned_buffer(id);
      if (reinterpret_cast<uintptr_t>(data) - reinterpret_cast<uintptr_t>(buffer.data()) < buffer.size()) {
        return true;
      }
    }
    return false;
  }

  // method_loader.cpp
  Error trace_allocators();
  void trace_memory(size_t method_nbytes);

  // method_execute.cpp
  Error begin();
  bool shares_caller_memory(size_t index) const;
  void restore();
  void move_inputs_from_page_ends();
  Error open_outputs();
  Error run_one(KernelContext& context, size_t* next);
  Error jump_if_false(const Instruction& instruction, size_t index, size_t* next);
  Error check_late_arguments(const Instruction& instruction);
  Error begin_trace();
  void end_trace(Error result);
  Error run_traced(KernelContext& context, size_t* next);
  void trace_values(const Instruction& instruction, TracePosition position);
  Error finish();
  void end(Error result);
  /// `step`: of a delegate, what failed in it; -1: not known.
  Error fail(Error error, size_t index, int32_t step = -1);
  bool locate(size_t index, int32_t step, FailureLocation* found) const;
  bool read_origin(size_t index, int32_t step, uint32_t (&fields)[kNumOriginFields], uint32_t* debug_handle) const;

  // method.cpp
  Error check_shapes();
  Error write_own_initial_values();
};

}  // namespace et::runtime
