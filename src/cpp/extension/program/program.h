/// Program and Method in the published form: the application says where every byte comes from.
///
/// For: code that was written for the published runtime API. Not for: new code, which takes Module, or on a
/// microcontroller the runtime's own Program and Method (runtime/method.h).
///
///     Result<FileDataLoader> loader = FileDataLoader::from("model.pte");
///     Result<Program> program = Program::load(&loader.get());
///     Result<MethodMeta> meta = program->method_meta("forward");
///     …                                                  // a buffer of meta->memory_planned_buffer_size(i) bytes each
///     HierarchicalAllocator planned({buffers.data(), buffers.size()});
///     MallocMemoryAllocator allocator;
///     MemoryManager memory(&allocator, &planned);
///     Result<Method> method = program->load_method("forward", &memory);
///
/// Kernels, backends and threads are the process's (extension/process.h). Ownership: a loader outlives its program, a
/// program and its memory outlive their methods. Threads: as the runtime's.
#pragma once

#include <memory>

#include "extension/data_loader/loaders.h"
#include "extension/evalue.h"
#include "extension/memory/memory.h"
#include "runtime/event_tracer.h"
#include "runtime/method.h"

namespace et::extension {

using runtime::EventTracer;

class Method {
 public:
  Method(Method&&) noexcept = default;
  Method& operator=(Method&&) = delete;
  size_t inputs_size() const { return method().num_inputs(); }
  size_t outputs_size() const { return method().num_outputs(); }
  MethodMeta method_meta() const { return MethodMeta(method().meta(), nullptr); }

  /// Errors: as runtime::Method::set_input. A tensor's bytes must stay until execute() returns.
  Error set_input(const EValue& value, size_t i) { return method().set_input(value, i); }
  Error set_inputs(Span<const EValue> values);
  /// Has an output written to memory of the caller's. Errors: as runtime::Method::set_output_data_ptr.
  Error set_output_data_ptr(void* data, size_t nbytes, size_t i) {
    return method().set_output_data_ptr(data, nbytes, i);
  }
  /// Errors: those of runtime::Method::execute.
  Error execute() { return method().execute(); }
  /// One instruction; EndOfMethod behind the last one, after which reset_execution() begins anew.
  Error step() { return method().step(); }
  Error reset_execution() { return method().reset_execution(), Error::Ok; }

  /// A view of memory of the method, until the next call. i < outputs_size() (inputs_size()), else None.
  EValue get_output(size_t i) const;
  EValue get_input(size_t i) const;
  /// All of them, to an array of `length`; None in what is left of it. Errors: InvalidArgument, the array is too short.
  Error get_outputs(EValue* values, size_t length) const;
  Error get_inputs(EValue* values, size_t length) const;
  EventTracer* get_event_tracer() const { return tracer_; }

 private:
  friend class Program;
  struct Held;  // the runtime's method, and memory that the application did not give
  Method(std::shared_ptr<Held> held, EventTracer* tracer) : held_(std::move(held)), tracer_(tracer) {}
  runtime::Method& method() const;

  std::shared_ptr<Held> held_;
  EventTracer* tracer_;
};

class Program {
 public:
  /// Files are always verified whole.
  enum class Verification : uint8_t { Minimal, InternalConsistency };
  /// What begins at some bytes.
  enum class HeaderStatus : uint8_t { NotPresent, CompatibleVersion, IncompatibleVersion, ShortData };
  /// Bytes that check_header() wants to see.
  static constexpr size_t kMinHeadBytes = 64;

  static HeaderStatus check_header(const void* data, size_t size);
  /// Errors: those of runtime::Program::load.
  static Result<Program> load(DataLoader* loader, Verification verification = Verification::Minimal);

  size_t num_methods() const { return program_->num_methods(); }
  /// Errors: InvalidArgument, there is no such method.
  Result<const char*> get_method_name(size_t i) const;
  /// Errors: NotFound, naming the methods there are.
  Result<MethodMeta> method_meta(const char* name) const;
  Result<const runtime::NamedDataMap*> get_named_data_map() const { return &program_->named_data(); }

  /// Errors: InvalidArgument, `memory` is nullptr; those of runtime::Program::load_method.
  Result<Method> load_method(const char* name, MemoryManager* memory, EventTracer* tracer = nullptr,
                             const runtime::NamedDataMap* data = nullptr) const;

 private:
  explicit Program(runtime::Program program) : program_(std::make_shared<const runtime::Program>(std::move(program))) {}

  std::shared_ptr<const runtime::Program> program_;
};

}  // namespace et::extension
