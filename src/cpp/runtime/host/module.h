/// Programs, sessions and methods on the heap, for applications: memory, files and lifetimes are taken care of.
///
/// For: desktop and server programs, executor_runner, the Python bindings. Not for: microcontrollers, which use Program
///      and Method with memory of their own.
///
///     ET_TRY(auto const program, HostProgram::from_file("model.pte", options));        // shared by threads
///     ET_TRY(auto const session, program->new_session());                              // one a conversation
///     ET_TRY(auto const method, program->load_method("decode", session));              // one a thread
///     method->method().set_input(…); method->method().execute();
///
/// Ownership: a HostMethod keeps its HostSession alive, and that its HostProgram, and that the bytes of the file; so
/// the last one to go frees them, in whatever order an application (or Python) drops them. Threads: HostProgram is safe
/// at any time. A HostMethod is used by one thread at a time. Methods of different sessions run at the same time; those
/// of one session too, unless both use its state (then InvalidState, and nothing is harmed).
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/host/data_file.h"
#include "runtime/host/heap_allocator.h"
#include "runtime/host/heap_shared_cache.h"
#include "runtime/host/pack_cache.h"
#include "runtime/host/sparse_constants.h"
#include "runtime/method.h"

namespace et::runtime {

/// What programs work with. Everything pointed at must outlive what is made with it.
struct HostOptions {
  const KernelRegistry* kernels = nullptr;
  const BackendRegistry* backends = nullptr;
  threads::ThreadPool* pool = nullptr;
  LoadMode mode = LoadMode::kMmap;
  /// `.ptd` files with external weights; the first that has a name gives it.
  std::vector<std::string> data_files = {};
  /// Directory for packed weights, which later processes map (pack_cache.h); "": none are kept. For mapped files and
  /// bytes in memory.
  std::string pack_cache = {};
  /// Records the load of the program, and what its methods do that have no other. Lives as long as the program.
  std::shared_ptr<EventTracer> tracer = nullptr;
};

/// What may differ from method to method of one program.
struct HostMethodOptions {
  EventTracer* tracer = nullptr;  ///< nullptr: the program's
  uint64_t seed = 0;
  uint64_t max_backward_jumps = MethodOptions{}.max_backward_jumps;
  threads::ThreadPool* pool = nullptr;  ///< instead of the program's; nullptr: the program's
  /// The method's memory, each used by nothing else and alive longer than the method; nullptr: the heap.
  MemoryAllocator* memory = nullptr;       ///< planned buffers, and what lives as long as the method
  MemoryAllocator* data_memory = nullptr;  ///< reset at each execution
  MemoryAllocator* temp_memory = nullptr;  ///< reset after each instruction that took some
};

class HostProgram;

/// A Session and its memory. A pointer to it keeps its program alive (the default session is part of its program).
class HostSession {
 public:
  std::shared_ptr<HostProgram> program() const;
  Session& session() { return *session_; }
  Error reset() { return session_->reset(); }

 private:
  friend class HostProgram;
  explicit HostSession(HostProgram* program) : program_(program) {}

  HostProgram* program_;
  std::shared_ptr<HostProgram> owner_;  // nullptr for the default session, which its program owns
  HeapAllocator memory_;
  Session* session_ = nullptr;  // in memory_
};

/// A Method and its memory.
class HostMethod {
 public:
  Method& method() { return *method_; }
  const Method& method() const { return *method_; }
  MethodMeta meta() const { return method_->meta(); }
  const std::shared_ptr<HostSession>& session() const { return session_; }
  std::shared_ptr<HostProgram> program() const { return session_->program(); }
  /// Bytes taken for it so far: planned buffers, and everything else.
  size_t planned_nbytes() const { return planned_nbytes_; }
  size_t other_nbytes() const { return method_memory_.used() + temp_memory_.used() + data_memory_.used(); }

 private:
  friend class HostProgram;
  explicit HostMethod(std::shared_ptr<HostSession> session) : session_(std::move(session)) {}

  std::shared_ptr<HostSession> session_;
  HeapAllocator method_memory_;
  HeapAllocator planned_memory_;
  HeapAllocator temp_memory_;
  HeapAllocator data_memory_;
  List<Span<uint8_t>> planned_;
  size_t planned_nbytes_ = 0;
  MemoryManager manager_;
  std::unique_ptr<Method> method_;  // declared last: it goes before its memory
};

/// A Program, its bytes, its `.ptd` files and the weights that its methods share.
class HostProgram : public std::enable_shared_from_this<HostProgram> {
 public:
  /// Opens a file. Errors: AccessFailed, naming the path; those of Program::load.
  static Result<std::shared_ptr<HostProgram>> from_file(const std::string& path, const HostOptions& options);
  /// Uses bytes in memory. `keep_alive` holds them; they are copied only when they do not start at a multiple of 16.
  static Result<std::shared_ptr<HostProgram>> from_buffer(std::shared_ptr<const void> keep_alive, const void* data,
                                                          size_t size, const HostOptions& options);
  /// Reads through a loader of the caller's. Errors: those of Program::load and of the loader.
  static Result<std::shared_ptr<HostProgram>> from_loader(std::shared_ptr<DataLoader> loader,
                                                          const HostOptions& options);
  ~HostProgram();

  const Program& program() const { return *program_; }
  const HostOptions& options() const { return options_; }
  /// Bytes of packed weights that methods share.
  size_t packed_nbytes() { return shared_cache_.memory().nbytes(); }

  /// The session that methods share when none is named. Made when it is first used.
  Result<std::shared_ptr<HostSession>> default_session();
  /// A session with state of its own, at initial values.
  Result<std::shared_ptr<HostSession>> new_session();

  /// Makes a method. session = nullptr: the default session.
  Result<std::unique_ptr<HostMethod>> load_method(std::string_view name, std::shared_ptr<HostSession> session = nullptr,
                                                  const HostMethodOptions& method_options = {});

 private:
  HostProgram() = default;
  /// As HostOptions::pack_cache says. `before`: stamp of the program's file before it was mapped.
  Error open_pack_cache(const std::string& path, const FileStamp& before);
  static Result<std::shared_ptr<HostProgram>> make(std::shared_ptr<DataLoader> loader,
                                                   std::shared_ptr<const void> keep_alive, const std::string& path,
                                                   const HostOptions& options, const FileStamp& before = {});

  HostOptions options_;
  std::shared_ptr<const void> keep_alive_;
  std::shared_ptr<DataLoader> loader_;
  List<std::shared_ptr<const DataFile>> data_files_;
  List<const NamedDataMap*> data_map_list_;
  std::unique_ptr<MergedDataMap> external_data_;
  List<uint32_t> key_order_;  // of the program's named data
  std::unique_ptr<Program> program_;
  std::unique_ptr<SparseConstants> constants_;
  std::unique_ptr<PackCache> pack_cache_;
  HeapSharedCache shared_cache_;
  std::mutex mutex_;  // guards default_session_
  std::unique_ptr<HostSession> default_session_;
};

}  // namespace et::runtime
