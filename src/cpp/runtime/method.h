/// Method: one entry point of a Program, bound to memory, kernels and delegates, ready to run any number of times.
///
/// For: running. Not for: choosing memory (MemoryManager) or sharing state (Session).
///
///     ET_TRY(Method method, program.load_method("forward", &memory, options));
///     ET_RETURN_IF_ERROR(method.set_input(EValue(Tensor(&input)), 0));
///     ET_RETURN_IF_ERROR(method.execute());
///     const EValue& output = method.get_output(0);
///
/// Load resolves everything that can be: each instruction becomes a function pointer, its arguments an array of
/// pointers, checked once against the kernel's signature. What depends on data is checked while running: shapes of
/// inputs, sizes of dynamic tensors, and memory of tensors that are bound late.
///
/// An error leaves the method usable: set the inputs again and execute.
#pragma once

#include <atomic>
#include <string_view>

#include "runtime/backend.h"
#include "runtime/event_tracer.h"
#include "runtime/kernel.h"
#include "runtime/memory_allocator.h"
#include "runtime/method_meta.h"
#include "runtime/program.h"
#include "runtime/session.h"

namespace et::runtime {

/// What a method works with. Everything pointed at must outlive the Method.
struct MethodOptions {
  const KernelRegistry* kernels = nullptr;      ///< nullptr: a method that calls operators is refused
  const BackendRegistry* backends = nullptr;    ///< nullptr: a method that has delegates is refused
  const NamedDataMap* external_data = nullptr;  ///< `.ptd` files; nullptr: none
  Session* session = nullptr;                   ///< nullptr: state lies in the MemoryManager's planned buffers
  threads::ThreadPool* pool = nullptr;          ///< nullptr: everything runs on the calling thread
  SharedCache* shared_cache = nullptr;          ///< nullptr: every method packs its own weights
  EventTracer* tracer = nullptr;                ///< nullptr: nothing is recorded
  uint64_t seed = 0;                            ///< of random operators
  /// Most jumps back in one execution, so that a loop in a damaged file ends. Errors: OutOfResources beyond.
  uint64_t max_backward_jumps = 10'000'000;
};

/// Where an execution stopped, or what an instruction is. Strings point into the Program; empty or 0 when it is not
/// known.
struct FailureLocation {
  bool in_instruction = false;  ///< false: it failed before the first instruction, say at an input
  uint32_t chain = 0;
  uint32_t instruction = 0;
  std::string_view operator_name;  ///< "aten::embedding.out", or a backend's name
  std::string_view step_name;      ///< inside a delegate: "aten.linear.default"; what follows is about this one then
  uint32_t debug_handle = 0;       ///< as ExecutorchProgramManager.debug_handle_map and the ETRecord tell it; 0: none
  std::string_view module_path;    ///< "encoder.embeddings.word_embeddings"
  std::string_view source_file;    ///< the user's Python file, relative
  uint32_t source_line = 0;
};

/// A handle to state that lives in the method allocator. Movable.
/// Threads: one call at a time, except cancel(). A second execute() at the same time returns InvalidState. Methods of
/// one Program run at the same time unless they share a session's state.
class Method {
 public:
  Method(Method&& other) noexcept : state_(other.state_) { other.state_ = nullptr; }
  Method& operator=(Method&&) = delete;
  ~Method();

  MethodMeta meta() const;
  size_t num_inputs() const;
  size_t num_outputs() const;

  /// Gives input `i` for the next execution. A tensor's bytes are copied when the program planned memory for the input
  /// that other values share, or when they end where a page may (kernels read whole vectors). Otherwise they are
  /// borrowed until execute() returns. So they must be there when this is called, and must not change until then.
  ///
  /// Shapes:  rank and dim_order of the program; sizes equal, or within bounds when dynamic.
  /// Errors:  InvalidArgument, InvalidType: names the input and both sides. A number or string that was fixed at export
  ///          must be the same again.
  Error set_input(const EValue& value, size_t i);
  /// All inputs at once. Errors: InvalidArgument when the number differs; those of set_input.
  Error set_inputs(Span<const EValue> values);

  /// What stands at input `i` now: before the first set_input, the value that was fixed at export or a tensor of the
  /// upper bounds. i < num_inputs().
  const EValue& get_input(size_t i) const;

  /// True when an execution changes the bytes of tensor input `i`, as the model it was exported from changes its
  /// argument.
  bool writes_input(size_t i) const;

  /// Has output `i` written to [data, data + nbytes) by every execution from now on. data = nullptr ends that.
  /// Copies nothing where the program left its memory open (unless kernels read it and it ends where a page may), else
  /// at the end. Errors: InvalidArgument when there is no such tensor output; at execute() OutOfResources when it is
  /// too small.
  Error set_output_data_ptr(void* data, size_t nbytes, size_t i);

  /// Runs all instructions. Every tensor input must have been set since the last execution.
  /// Errors: InvalidState (inputs missing, already running, or state in use), Cancelled, OutOfResources (too many jumps
  ///         back), and those of kernels and delegates; failure() then says where.
  Error execute();

  /// Runs one instruction. Errors: as execute(); EndOfMethod when none is left (the next step begins a new execution).
  Error step();
  /// Gives up an execution that was begun with step().
  void reset_execution();
  /// The instruction that the next step() runs: meta().num_instructions() when all have run.
  size_t next_instruction() const;

  /// Output `i`. Its tensor describes memory of the method, a constant, an input or the state, valid until the next
  /// set_input() or execution. Before the first execution the sizes are the upper bounds and data may be nullptr.
  const EValue& get_output(size_t i) const;

  /// A tensor of the state that the program names: a mutable buffer, or a parameter that is trained.
  struct Attribute {
    std::string_view name;  ///< fully qualified, in the module that was exported
    Tensor tensor;          ///< its memory stays where it is as long as the method (or its session) lives
  };
  /// Attributes in the order of the file. Each call walks over the values of the program.
  size_t num_attributes() const;
  /// i < num_attributes().
  Attribute attribute(size_t i) const;

  /// Puts mutable buffers back to their initial values: those of the session, too.
  /// Errors: InvalidState while a method of the session runs.
  Error reset_state();

  /// Makes a running execution end with Cancelled soon; does nothing when none runs. Threads: any, also from a signal
  /// handler.
  void cancel();

  /// Where the last execution failed.
  const FailureLocation& failure() const;

  /// The kernel that load chose for instruction `i`; nullptr when that calls none (a delegate, a jump).
  /// i < meta().num_instructions().
  const Kernel* kernel(size_t i) const;

  /// The values of instruction `i` as they are now, in the order of its operator's schema; none for moves and jumps.
  /// i < meta().num_instructions().
  Span<EValue* const> arguments(size_t i) const;

  /// The operator or backend that instruction `i` calls, and the user's line. i < meta().num_instructions().
  FailureLocation location(size_t i) const;

 private:
  friend class Program;
  friend class MethodLoader;
  struct State;

  /// The value of the attribute with `skipped` others before it; their number when there are no more.
  const EValue* find_attribute(size_t skipped, std::string_view* name, size_t* found) const;

  explicit Method(State* state) : state_(state) {}

  State* state_;  // in the method allocator
};

}  // namespace et::runtime
