/// Module: a program and its methods, with kernels, backends, threads and messages as they are.
///
/// For: applications that run a model. Not for: several sessions of one program, or methods on several threads at once
/// (runtime/host/module.h); microcontrollers (runtime/method.h).
///
///     Module module("model.pte");
///     const auto result = module.forward(make_tensor_ptr({1, 3}, {1.0f, 2.0f, 3.0f}));
///     if (result.ok()) use(result->at(0).toTensor().const_data_ptr<float>());
///
/// Nothing is read before the first call that needs it: load() and load_method() choose the moment. A failed call can
/// be made again. Defaults: every kernel and backend of this build and of the process (extension/process.h), the
/// process's pool of threads, messages on stderr unless the process has a log hook (base/log.h). Ownership: outputs are
/// views of the method's memory, valid until the method's next execution; they outlive the Module. Threads: one call at
/// a time. A call beside another one returns InvalidState and harms nothing. Modules that are made of one program() run
/// side by side.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "extension/evalue.h"
#include "extension/published.h"
#include "runtime/event_tracer.h"
#include "runtime/host/module.h"

namespace et::extension {

/// The inputs of a call: one value, a list in braces, or a vector. Text stands in braces: alone it names a method.
class Inputs : public std::vector<EValue> {
 public:
  Inputs() = default;
  Inputs(std::initializer_list<EValue> values) : vector(values) {}   // NOLINT(google-explicit-constructor)
  Inputs(std::vector<EValue> values) : vector(std::move(values)) {}  // NOLINT(google-explicit-constructor)
  template <typename T, typename = std::enable_if_t<std::is_convertible_v<const T&, EValue> &&
                                                    !std::is_convertible_v<const T&, std::string>>>
  Inputs(const T& value) : vector(1, EValue(value)) {}  // NOLINT(google-explicit-constructor)
};

/// How files are read: into memory, or mapped; the last two keep the mapping in memory, and fail or not where the
/// system does not allow it.
enum class ModuleLoadMode : uint8_t { File, Mmap, MmapUseMlock, MmapUseMlockIgnoreErrors };

/// What a module is loaded with; what is nullptr is the process's. Everything pointed at must outlive the outputs.
struct ModuleOptions {
  ModuleLoadMode mode = ModuleLoadMode::Mmap;
  std::vector<std::string> data_files = {};  ///< `.ptd`; the first that has a name gives it
  std::string pack_cache = {};               ///< directory for packed weights (runtime/host/module.h); "": none
  const runtime::KernelRegistry* kernels = nullptr;
  const runtime::BackendRegistry* backends = nullptr;
  threads::ThreadPool* pool = nullptr;
  uint64_t seed = 0;  ///< of random operators
};

class Module {
 public:
  using LoadMode = ModuleLoadMode;
  using Options = ModuleOptions;

  explicit Module(std::string path, LoadMode mode = LoadMode::Mmap,
                  std::unique_ptr<runtime::EventTracer> tracer = nullptr);
  Module(std::string path, std::string data_file, LoadMode mode = LoadMode::Mmap,
         std::unique_ptr<runtime::EventTracer> tracer = nullptr);
  Module(std::string path, std::vector<std::string> data_files, LoadMode mode = LoadMode::Mmap,
         std::unique_ptr<runtime::EventTracer> tracer = nullptr);
  Module(std::string path, Options options, std::unique_ptr<runtime::EventTracer> tracer = nullptr);
  /// The bytes of a file.
  explicit Module(std::vector<uint8_t> bytes, Options options = {},
                  std::unique_ptr<runtime::EventTracer> tracer = nullptr);
  /// A file that a loader of the caller's reads.
  explicit Module(std::unique_ptr<runtime::DataLoader> loader, Options options = {},
                  std::unique_ptr<runtime::EventTracer> tracer = nullptr);
  /// A further module of a program that is loaded: methods of its own, one state (KV caches and the like).
  explicit Module(std::shared_ptr<runtime::HostProgram> program,
                  std::unique_ptr<runtime::EventTracer> tracer = nullptr);
  Module(Module&& other) noexcept;
  Module& operator=(Module&& other) noexcept;
  ~Module();

  /// Reads and verifies the program; does nothing when that is done. Every other call does it, too.
  /// Errors: AccessFailed, naming the path; those of Program::load; InvalidState, moved from or in use.
  Error load(runtime::Verification verification = runtime::Verification::kInternalConsistency);
  Error load(Program::Verification) { return load(); }
  bool is_loaded() const;
  /// nullptr before load().
  std::shared_ptr<runtime::HostProgram> program() const;

  Result<size_t> num_methods();
  Result<std::unordered_set<std::string>> method_names();
  /// Errors: NotFound, naming the methods there are.
  Result<MethodMeta> method_meta(const std::string& name);

  /// Makes a method ready, with a tracer of its own when one is given; does nothing when that is done.
  /// Errors: as Program::load_method.
  Error load_method(const std::string& name, runtime::EventTracer* tracer = nullptr);
  Error load_forward(runtime::EventTracer* tracer = nullptr) { return load_method("forward", tracer); }
  bool is_method_loaded(const std::string& name) const;
  /// Drops a method and its memory, as soon as no output of it is left. False when it was not loaded.
  bool unload_method(const std::string& name);
  bool unload_forward() { return unload_method("forward"); }
  /// The method itself, loaded: for step(), cancel(), failure(). Valid until it is unloaded.
  Result<runtime::Method*> method(const std::string& name);

  /// Runs a method. `inputs` stand for the first ones; the others are those of set_input.
  /// Errors: InvalidArgument, InvalidType: names the input, what it takes and what was given; those of Method::execute.
  Result<std::vector<EValue>> execute(const std::string& name, const Inputs& inputs = {});
  Result<std::vector<EValue>> forward(const Inputs& inputs = {}) { return execute("forward", inputs); }
  /// The first output. Errors: as execute; InvalidState when there is none.
  Result<EValue> get(const std::string& name, const Inputs& inputs = {});
  Result<EValue> get(const Inputs& inputs = {}) { return get("forward", inputs); }

  /// Keeps an input for all calls that do not give it. A TensorPtr is kept alive; a Tensor must live as long.
  /// Errors: InvalidArgument, InvalidType, as execute; the value before stays.
  Error set_input(const std::string& name, const EValue& value, size_t index);
  Error set_input(const EValue& value, size_t index) { return set_input("forward", value, index); }
  /// All inputs. Errors: InvalidArgument for another number of them; as set_input.
  Error set_inputs(const std::string& name, const Inputs& values);
  Error set_inputs(const Inputs& values) { return set_inputs("forward", values); }

  /// Has an output written to the memory of `tensor`, which is given the output's sizes. An EValue of None ends that.
  /// Errors: InvalidArgument, no such output; InvalidType, no tensor or another dtype; at execute(), OutOfResources,
  /// too
  ///         small.
  Error set_output(const std::string& name, const EValue& tensor, size_t index = 0);
  Error set_output(const EValue& tensor, size_t index = 0) { return set_output("forward", tensor, index); }
  Error set_outputs(const std::string& name, const std::vector<EValue>& tensors);
  Error set_outputs(const std::vector<EValue>& tensors) { return set_outputs("forward", tensors); }
  /// What the last execution gave. Errors: InvalidState before the first one, or when it failed.
  Result<std::vector<EValue>> get_outputs(const std::string& name = "forward");
  Result<EValue> get_output(const std::string& name, size_t index = 0);
  Result<EValue> get_output(size_t index = 0) { return get_output("forward", index); }

  /// Puts the model's state (mutable buffers) back to its initial values. Errors: InvalidState while a method runs.
  Error reset_state();
  /// The tracer that was given; nullptr: none.
  runtime::EventTracer* event_tracer() const;

 private:
  struct State;
  class Call;

  Module(Options options, std::unique_ptr<runtime::EventTracer> tracer);
  template <typename Fill>
  void fill(Fill&& fill);

  std::unique_ptr<State> state_;  // nullptr: moved from, or there was no memory to make it
  Error made_ = Error::Ok;
};

}  // namespace et::extension
