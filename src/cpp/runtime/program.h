/// Program: a loaded `.pte`, verified, from which methods are made.
///
/// For: step one of running a model. Not for: memory of executions; that is the Method's.
///
///     BufferLoader loader(bytes, size);
///     ET_TRY(Program program, Program::load(&loader));
///     ET_TRY(MethodMeta meta, program.method_meta("forward"));       // how much memory it wants
///     ET_TRY(Method method, program.load_method("forward", &memory, options));
///
/// Place: bytes → **Program** → Method. The bytes are hostile until load() has returned: it checks every index, offset,
/// size and reference in them (program_verifier.h says which), always and whole; from then on they are trusted.
#pragma once

#include <string_view>

#include "runtime/data_loader.h"
#include "runtime/method_meta.h"
#include "runtime/named_data_map.h"

namespace et::schema {
struct Program;
struct ExecutionPlan;
struct Tensor;
namespace debug {
struct DebugInfo;
}
namespace shapes {
struct Shapes;
}
}  // namespace et::schema

namespace et::runtime {

class Method;
struct MemoryManager;
struct MethodOptions;

/// How much of a file is verified at load: all of it, whichever is given. Kept for code written for the published
/// API.
enum class Verification : uint8_t { kMinimal, kInternalConsistency };

/// Movable; must outlive its methods and must not be moved while it has any.
/// Threads: after load() everything is const and safe at any time.
class Program {
 public:
  /// Reads and verifies a file. `loader` must outlive the Program.
  /// Errors: InvalidProgram, with a message that says where; AccessFailed, MemoryAllocationFailed from the loader.
  static Result<Program> load(DataLoader* loader, Verification verification = Verification::kInternalConsistency);

  Program(Program&&) noexcept = default;
  Program& operator=(Program&&) noexcept = default;

  size_t num_methods() const;
  /// Name of method `i` < num_methods(), in the order of the file (sorted).
  std::string_view method_name(size_t i) const;
  /// Errors: NotFound, naming the methods there are.
  Result<MethodMeta> method_meta(std::string_view name) const;

  /// Makes a method ready to run. Defined with Method (method.h).
  /// Errors: NotFound no such method; OperatorMissing, naming all operators without a kernel; NotFound or NotSupported
  ///         a backend is missing; MemoryAllocationFailed; InvalidArgument the MemoryManager's buffers are too small;
  ///         InvalidExternalData.
  Result<Method> load_method(std::string_view name, const MemoryManager* memory, const MethodOptions& options) const;

  /// The named data of the file, those for delegates and our own.
  const NamedDataMap& named_data() const { return named_data_; }
  /// NamedDataMap::set_order for the file's own named data.
  void set_named_data_order(Span<const uint32_t> order) { named_data_.set_order(order); }

  /// True when memory id `memory_id` (from 1) holds nothing but mutable buffers, so that methods of a session share it.
  bool is_state_memory(uint32_t memory_id) const { return memory_id < 64 && (state_memory_ >> memory_id & 1) != 0; }
  /// Bytes a session needs for that memory id.
  uint64_t state_memory_size(uint32_t memory_id) const;

 private:
  friend class Method;  // and Method::State
  friend class MethodLoader;
  friend class Session;

  /// The file's own named data.
  class SegmentMap final : public NamedDataMap {
   public:
    Result<FreeableBuffer> get(std::string_view key) const override;
    size_t num_entries() const override;
    NamedDataEntry entry(size_t i) const override;
    void discard(const void* data, size_t nbytes) const override { loader->discard(data, nbytes); }

    const schema::Program* tables = nullptr;
    DataLoader* loader = nullptr;
    uint64_t segment_base = 0;
  };

  Program() = default;

  const schema::ExecutionPlan* find_plan(std::string_view name, size_t* index) const;
  /// The bytes of segment `index`, which has been verified to be in the file.
  Result<FreeableBuffer> load_segment(uint32_t index) const;
  /// Copies the initial value of a mutable buffer to `destination`; does nothing when it has none.
  Error write_initial_value(const schema::Tensor& tensor, const NamedDataMap* external_data,
                            uint8_t* destination) const;
  /// Bytes of constant `index` of the constant segment.
  const uint8_t* constant_data(uint32_t index) const;

  DataLoader* loader_ = nullptr;
  FreeableBuffer bytes_;         // headers and flatbuffer
  FreeableBuffer constants_;     // the constant segment
  FreeableBuffer debug_bytes_;   // named data "executorch_py.debug"
  FreeableBuffer shapes_bytes_;  // named data "executorch_py.shapes"
  const schema::Program* tables_ = nullptr;
  const schema::debug::DebugInfo* debug_ = nullptr;  // nullptr: not in the file
  const schema::shapes::Shapes* shapes_ = nullptr;   // nullptr: not in the file
  SegmentMap named_data_;
  uint64_t state_memory_ = 0;  // bit i: memory id i is state memory
};

}  // namespace et::runtime
