#include "extension/module/module.h"

#include <atomic>
#include <map>
#include <optional>

#include "base/tensor_text.h"
#include "extension/process.h"
#include "extension/tensor/tensor_ptr.h"
#include "runtime/host/out_of_memory.h"
#include "runtime/platform.h"
#include "threads/thread_pool.h"

namespace et::extension {

using runtime::HostMethod;
using runtime::HostProgram;

namespace {

/// A method with the values that were set for it. What it gives out points here.
struct Holder {
  std::shared_ptr<runtime::EventTracer> tracer;  // declared first: it goes after the method
  std::unique_ptr<HostMethod> host;
  std::vector<std::optional<EValue>> inputs;  // of set_input
  std::vector<EValue> outputs;                // of set_output; None: the method's own memory
  bool has_run = false;

  runtime::Method& method() { return host->method(); }
};

runtime::LoadMode host_mode(Module::LoadMode mode) {
  switch (mode) {
    case Module::LoadMode::File: return runtime::LoadMode::kFile;
    case Module::LoadMode::Mmap: return runtime::LoadMode::kMmap;
    case Module::LoadMode::MmapUseMlock: return runtime::LoadMode::kMmapLocked;
    case Module::LoadMode::MmapUseMlockIgnoreErrors: return runtime::LoadMode::kMmapTryLocked;
  }
  return runtime::LoadMode::kMmap;
}

/// What input `i` takes, for messages: "torch.float32 (1 to 8, 16)", or the kind of value.
std::string input_text(const runtime::MethodMeta& meta, size_t i) {
  const Result<runtime::TensorInfo> info =
      meta.input_tag(i) == Tag::kTensor ? meta.input_tensor_info(i) : Result<runtime::TensorInfo>(Error::InvalidType);
  if (!info.ok()) {
    return runtime::to_string(meta.input_tag(i));
  }
  std::vector<int64_t> lower, upper;
  for (size_t d = 0; d < info->sizes.size(); ++d) {
    const runtime::SizeBounds bounds = meta.input_bounds(i, d);
    lower.push_back(bounds.lower);
    upper.push_back(bounds.upper);
  }
  return TensorText(info->dtype, Span<const int64_t>(lower), Span<const int64_t>(upper)).text;
}

/// What a module runs, for messages.
struct Label {
  explicit Label(const char* path) {
    std::snprintf(text, sizeof(text), path == nullptr ? "the program in memory" : "'%s'", path);
  }
  char text[300];
};

std::string value_text(const runtime::EValue& value) {
  return value.is_tensor() ? describe(value.to_tensor()) : runtime::to_string(value.tag());
}

}  // namespace

struct Module::State {
  std::optional<std::string> path;
  Options options;
  std::shared_ptr<const std::vector<uint8_t>> bytes;
  std::shared_ptr<runtime::DataLoader> loader;
  std::shared_ptr<runtime::EventTracer> tracer;
  std::shared_ptr<HostProgram> program;
  std::map<std::string, std::shared_ptr<Holder>> methods;
  std::atomic<bool> busy{false};

  Label label() const { return Label(path ? path->c_str() : nullptr); }
  Error load();
  Result<std::shared_ptr<HostProgram>> read();
  Result<std::shared_ptr<Holder>> holder(const std::string& name, runtime::EventTracer* own_tracer = nullptr);
  /// Passes `value` to the method, which checks it; says what it takes when it refuses.
  Error give(Holder& holder, const runtime::EValue& value, size_t i);
  Error give_all(Holder& holder, const std::string& name, const Inputs& inputs);
  Error show_sizes(Holder& holder);
  std::vector<EValue> outputs_of(const std::shared_ptr<Holder>& holder);
};

/// The time of one call: nobody else is in the module, and there is one.
class Module::Call {
 public:
  explicit Call(const Module& module) : state_(module.state_.get()) {
    if (state_ == nullptr) {
      runtime::platform_install_default_log();
      error_ =
          module.made_ != Error::Ok
              ? ET_ERROR_WITH_MESSAGE(MemoryAllocationFailed,
                                      "there was no memory for the %zu bytes of this Module and its tables when "
                                      "it was made; make it anew",
                                      sizeof(State))
              : ET_ERROR_WITH_MESSAGE(InvalidState, "this Module has been moved from; use the one it was moved to");
    } else if (state_->busy.exchange(true, std::memory_order_acquire)) {
      error_ = ET_ERROR_WITH_MESSAGE(InvalidState,
                                     "another call is running in this Module; make a Module for each "
                                     "thread, of one program()");
      state_ = nullptr;
    }
  }
  ~Call() {
    if (state_ != nullptr) {
      state_->busy.store(false, std::memory_order_release);
    }
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  Error error() const { return error_; }
  State* operator->() const { return state_; }

 private:
  State* state_;
  Error error_ = Error::Ok;
};

Result<std::shared_ptr<HostProgram>> Module::State::read() {
  runtime::HostOptions host = process_options();
  ET_RETURN_IF_ERROR(process_error());
  host.kernels = options.kernels != nullptr ? options.kernels : host.kernels;
  host.backends = options.backends != nullptr ? options.backends : host.backends;
  host.pool = options.pool != nullptr ? options.pool : host.pool;
  host.mode = host_mode(options.mode);
  host.data_files = options.data_files;
  host.pack_cache = options.pack_cache;
  host.tracer = tracer;
  if (path) {
    return HostProgram::from_file(*path, host);
  }
  if (bytes != nullptr) {
    return HostProgram::from_buffer(bytes, bytes->data(), bytes->size(), host);
  }
  ET_CHECK_OR_RETURN(loader != nullptr, InvalidArgument, "this Module was given a null program or data loader");
  return HostProgram::from_loader(loader, host);
}

Error Module::State::load() {
  if (program == nullptr) {
    ET_TRY(program, read());
    bytes = nullptr;  // the program keeps them
    loader = nullptr;
  }
  return Error::Ok;
}

Result<std::shared_ptr<Holder>> Module::State::holder(const std::string& name, runtime::EventTracer* own_tracer) {
  if (const auto known = methods.find(name); known != methods.end()) {
    return known->second;
  }
  ET_RETURN_IF_ERROR(load());
  auto made = std::make_shared<Holder>();
  made->tracer = tracer;
  runtime::HostMethodOptions method_options;
  method_options.tracer = own_tracer != nullptr ? own_tracer : tracer.get();
  method_options.seed = options.seed;
  const LoadScope scope(process().gate);
  Result<std::unique_ptr<HostMethod>> host = program->load_method(name, nullptr, method_options);
  if (!host.ok()) {
    ET_LOG_CONTEXT("method '%s' of %s cannot be loaded: %s", name.c_str(), label().text, to_string(host.error()));
    return host.error();
  }
  made->host = std::move(*host);
  made->inputs.resize(made->method().num_inputs());
  made->outputs.resize(made->method().num_outputs());
  methods[name] = made;
  return made;
}

Error Module::State::give(Holder& holder, const runtime::EValue& value, size_t i) {
  const Error error = holder.method().set_input(value, i);
  if (error != Error::Ok) {
    const runtime::MethodMeta meta = holder.host->meta();
    const std::string name(meta.name());
    if (i < meta.num_inputs()) {
      ET_LOG_CONTEXT("input %zu of method '%s' of %s is %s, %s was given", i, name.c_str(), label().text,
                     input_text(meta, i).c_str(), value_text(value).c_str());
    } else {
      ET_LOG_CONTEXT("method '%s' of %s", name.c_str(), label().text);
    }
  }
  return error;
}

Error Module::State::give_all(Holder& holder, const std::string& name, const Inputs& inputs) {
  const runtime::MethodMeta meta = holder.host->meta();
  ET_CHECK_OR_RETURN(inputs.size() <= meta.num_inputs(), InvalidArgument,
                     "%zu inputs were given, method '%s' of %s takes %zu", inputs.size(), name.c_str(), label().text,
                     meta.num_inputs());
  for (size_t i = 0; i < meta.num_inputs(); ++i) {
    const bool is_set = i < inputs.size() || holder.inputs[i].has_value();
    ET_CHECK_OR_RETURN(is_set || meta.input_tag(i) != Tag::kTensor, InvalidArgument,
                       "%zu inputs were given, method '%s' of %s takes %zu: input %zu (%s) is missing; pass it, or "
                       "set_input it",
                       inputs.size(), name.c_str(), label().text, meta.num_inputs(), i, input_text(meta, i).c_str());
    if (is_set) {
      ET_RETURN_IF_ERROR(give(holder, i < inputs.size() ? inputs[i] : *holder.inputs[i], i));
    }
  }
  return Error::Ok;
}

/// Gives the tensors of set_output the sizes of the outputs.
Error Module::State::show_sizes(Holder& holder) {
  for (size_t i = 0; i < holder.outputs.size(); ++i) {
    if (holder.outputs[i].is_tensor()) {
      const Tensor made = holder.method().get_output(i).to_tensor();
      const Tensor given = holder.outputs[i].to_tensor();
      if (!equal(made.sizes(), given.sizes())) {
        ET_RETURN_IF_ERROR(given.unsafe_impl()->resize(made.sizes()));
      }
    }
  }
  return Error::Ok;
}

std::vector<EValue> Module::State::outputs_of(const std::shared_ptr<Holder>& holder) {
  std::vector<EValue> values;
  for (size_t i = 0; i < holder->outputs.size(); ++i) {
    values.push_back(EValue::owned_by(holder, holder->method().get_output(i)));
  }
  return values;
}

/// Part of a constructor, which says no later: every call gives MemoryAllocationFailed then.
template <typename Fill>
void Module::fill(Fill&& fill) {
  if (made_ != Error::Ok) {
    return;
  }
  try {
    fill();
  } catch (const std::bad_alloc&) {
    made_ = Error::MemoryAllocationFailed;
    state_ = nullptr;
  }
}

Module::Module(Options options, std::unique_ptr<runtime::EventTracer> tracer) {
  fill([&] {
    state_ = std::make_unique<State>();
    state_->options = std::move(options);
    state_->tracer = std::move(tracer);
  });
}

Module::Module(std::string path, Options options, std::unique_ptr<runtime::EventTracer> tracer)
    : Module(std::move(options), std::move(tracer)) {
  fill([&] { state_->path = std::move(path); });
}

Module::Module(std::string path, LoadMode mode, std::unique_ptr<runtime::EventTracer> tracer)
    : Module(std::move(path), Options{mode, {}}, std::move(tracer)) {}

Module::Module(std::string path, std::string data_file, LoadMode mode, std::unique_ptr<runtime::EventTracer> tracer)
    : Module(std::move(path), Options{mode, {}}, std::move(tracer)) {
  fill([&] { state_->options.data_files.push_back(std::move(data_file)); });
}

Module::Module(std::string path, std::vector<std::string> data_files, LoadMode mode,
               std::unique_ptr<runtime::EventTracer> tracer)
    : Module(std::move(path), Options{mode, std::move(data_files)}, std::move(tracer)) {}

Module::Module(std::vector<uint8_t> bytes, Options options, std::unique_ptr<runtime::EventTracer> tracer)
    : Module(std::move(options), std::move(tracer)) {
  fill([&] { state_->bytes = std::make_shared<const std::vector<uint8_t>>(std::move(bytes)); });
}

Module::Module(std::unique_ptr<runtime::DataLoader> loader, Options options,
               std::unique_ptr<runtime::EventTracer> tracer)
    : Module(std::move(options), std::move(tracer)) {
  fill([&] { state_->loader = std::move(loader); });
}

Module::Module(std::shared_ptr<HostProgram> program, std::unique_ptr<runtime::EventTracer> tracer)
    : Module(Options{}, std::move(tracer)) {
  fill([&] { state_->program = std::move(program); });
}

Module::Module(Module&& other) noexcept = default;
Module& Module::operator=(Module&& other) noexcept = default;
Module::~Module() = default;

Error Module::load(runtime::Verification) try {
  const Call call(*this);
  ET_RETURN_IF_ERROR(call.error());
  return call->load();
}
ET_NO_MEMORY("the tables of %s", state_ == nullptr ? "a Module" : state_->label().text)

bool Module::is_loaded() const { return program() != nullptr; }

std::shared_ptr<HostProgram> Module::program() const {
  const Call call(*this);
  return call.error() == Error::Ok ? call->program : nullptr;
}

Result<size_t> Module::num_methods() try {
  const Call call(*this);
  ET_RETURN_IF_ERROR(call.error());
  ET_RETURN_IF_ERROR(call->load());
  return call->program->program().num_methods();
}
ET_NO_MEMORY("the tables of %s", state_ == nullptr ? "a Module" : state_->label().text)

Result<std::unordered_set<std::string>> Module::method_names() try {
  const Call call(*this);
  ET_RETURN_IF_ERROR(call.error());
  ET_RETURN_IF_ERROR(call->load());
  const runtime::Program& program = call->program->program();
  std::unordered_set<std::string> names;
  for (size_t i = 0; i < program.num_methods(); ++i) {
    names.emplace(program.method_name(i));
  }
  return names;
}
ET_NO_MEMORY("the names of the methods of %s", state_ == nullptr ? "a Module" : state_->label().text)

Result<MethodMeta> Module::method_meta(const std::string& name) try {
  const Call call(*this);
  ET_RETURN_IF_ERROR(call.error());
  ET_RETURN_IF_ERROR(call->load());
  ET_TRY(const runtime::MethodMeta meta, call->program->program().method_meta(name));
  return MethodMeta(meta, call->program);
}
ET_NO_MEMORY("the tables of method '%s'", name.c_str())

Error Module::load_method(const std::string& name, runtime::EventTracer* tracer) try {
  const Call call(*this);
  ET_RETURN_IF_ERROR(call.error());
  return call->holder(name, tracer).error();
}
ET_NO_MEMORY("the tables of method '%s'", name.c_str())

bool Module::is_method_loaded(const std::string& name) const {
  const Call call(*this);
  return call.error() == Error::Ok && call->methods.count(name) != 0;
}

bool Module::unload_method(const std::string& name) {
  const Call call(*this);
  return call.error() == Error::Ok && call->methods.erase(name) != 0;
}

Result<runtime::Method*> Module::method(const std::string& name) try {
  const Call call(*this);
  ET_RETURN_IF_ERROR(call.error());
  ET_TRY(const std::shared_ptr<Holder> holder, call->holder(name));
  return &holder->method();
}
ET_NO_MEMORY("the tables of method '%s'", name.c_str())

Result<std::vector<EValue>> Module::execute(const std::string& name, const Inputs& inputs) try {
  const Call call(*this);
  ET_RETURN_IF_ERROR(call.error());
  ET_TRY(const std::shared_ptr<Holder> holder, call->holder(name));
  holder->has_run = false;
  ET_RETURN_IF_ERROR(call->give_all(*holder, name, inputs));
  const Error error = holder->method().execute();
  if (error != Error::Ok) {
    ET_LOG_CONTEXT("method '%s' of %s failed: %s", name.c_str(), call->label().text, to_string(error));
    return error;
  }
  if (threads::ThreadPool* const pool = holder->host->program()->options().pool; pool != nullptr) {
    pool->end_call();
  }
  ET_RETURN_IF_ERROR(call->show_sizes(*holder));
  holder->has_run = true;
  return call->outputs_of(holder);
}
ET_NO_MEMORY("a call of method '%s'", name.c_str())

Result<EValue> Module::get(const std::string& name, const Inputs& inputs) try {
  ET_TRY(const std::vector<EValue> outputs, execute(name, inputs));
  ET_CHECK_OR_RETURN(!outputs.empty(), InvalidState, "method '%s' has no outputs", name.c_str());
  return outputs[0];
}
ET_NO_MEMORY("the outputs of method '%s'", name.c_str())

Error Module::set_input(const std::string& name, const EValue& value, size_t index) try {
  const Call call(*this);
  ET_RETURN_IF_ERROR(call.error());
  ET_TRY(const std::shared_ptr<Holder> holder, call->holder(name));
  ET_RETURN_IF_ERROR(call->give(*holder, value, index));
  holder->inputs[index] = value;
  return Error::Ok;
}
ET_NO_MEMORY("input %zu of method '%s'", index, name.c_str())

Error Module::set_inputs(const std::string& name, const Inputs& values) try {
  const Call call(*this);
  ET_RETURN_IF_ERROR(call.error());
  ET_TRY(const std::shared_ptr<Holder> holder, call->holder(name));
  ET_CHECK_OR_RETURN(values.size() == holder->inputs.size(), InvalidArgument,
                     "%zu inputs were given, method '%s' of %s takes %zu", values.size(), name.c_str(),
                     call->label().text, holder->inputs.size());
  for (size_t i = 0; i < values.size(); ++i) {
    ET_RETURN_IF_ERROR(call->give(*holder, values[i], i));
  }
  holder->inputs.assign(values.begin(), values.end());
  return Error::Ok;
}
ET_NO_MEMORY("the inputs of method '%s'", name.c_str())

Error Module::set_output(const std::string& name, const EValue& value, size_t index) try {
  const Call call(*this);
  ET_RETURN_IF_ERROR(call.error());
  ET_TRY(const std::shared_ptr<Holder> holder, call->holder(name));
  const runtime::MethodMeta meta = holder->host->meta();
  const std::string where = "output " + std::to_string(index) + " of method '" + name + "' of " + call->label().text;
  ET_CHECK_OR_RETURN(index < meta.num_outputs(), InvalidArgument, "there is no %s: it has %zu", where.c_str(),
                     meta.num_outputs());
  if (value.is_none()) {
    ET_RETURN_IF_ERROR(holder->method().set_output_data_ptr(nullptr, 0, index));
    holder->outputs[index] = value;
    return Error::Ok;
  }
  ET_CHECK_OR_RETURN(value.is_tensor() && meta.output_tag(index) == Tag::kTensor, InvalidType,
                     "%s is %s, %s was given for it", where.c_str(), runtime::to_string(meta.output_tag(index)),
                     value_text(value).c_str());
  ET_TRY(const runtime::TensorInfo info, meta.output_tensor_info(index));
  const Tensor tensor = value.to_tensor();
  ET_CHECK_OR_RETURN(tensor.scalar_type() == info.dtype && static_cast<size_t>(tensor.dim()) == info.sizes.size(),
                     InvalidType, "%s is %s of rank %zu, %s was given for it", where.c_str(), to_string(info.dtype),
                     info.sizes.size(), describe(tensor).c_str());
  ET_CHECK_OR_RETURN(equal(runtime::dim_order(tensor), info.dim_order), InvalidArgument,
                     "the dimensions of %s lie in another order in memory than those of the tensor given",
                     where.c_str());
  ET_CHECK_OR_RETURN(!tensor.unsafe_impl()->read_only(), InvalidArgument, "%s was given a tensor that is read-only",
                     where.c_str());
  ET_RETURN_IF_ERROR(
      holder->method().set_output_data_ptr(tensor.mutable_data_ptr(), tensor.unsafe_impl()->capacity(), index));
  holder->outputs[index] = value;
  return Error::Ok;
}
ET_NO_MEMORY("output %zu of method '%s'", index, name.c_str())

Error Module::set_outputs(const std::string& name, const std::vector<EValue>& tensors) {
  ET_TRY(const MethodMeta meta, method_meta(name));
  ET_CHECK_OR_RETURN(tensors.size() == meta.num_outputs(), InvalidArgument,
                     "%zu outputs were given, method '%s' has %zu", tensors.size(), name.c_str(), meta.num_outputs());
  for (size_t i = 0; i < tensors.size(); ++i) {
    ET_RETURN_IF_ERROR(set_output(name, tensors[i], i));
  }
  return Error::Ok;
}

Result<std::vector<EValue>> Module::get_outputs(const std::string& name) try {
  const Call call(*this);
  ET_RETURN_IF_ERROR(call.error());
  ET_TRY(const std::shared_ptr<Holder> holder, call->holder(name));
  ET_CHECK_OR_RETURN(holder->has_run, InvalidState, "method '%s' of %s has no outputs: it has not run, or it failed",
                     name.c_str(), call->label().text);
  return call->outputs_of(holder);
}
ET_NO_MEMORY("the outputs of method '%s'", name.c_str())

Result<EValue> Module::get_output(const std::string& name, size_t index) {
  ET_TRY(const std::vector<EValue> outputs, get_outputs(name));
  ET_CHECK_OR_RETURN(index < outputs.size(), InvalidArgument, "method '%s' has %zu outputs, there is no output %zu",
                     name.c_str(), outputs.size(), index);
  return outputs[index];
}

Error Module::reset_state() try {
  const Call call(*this);
  ET_RETURN_IF_ERROR(call.error());
  ET_RETURN_IF_ERROR(call->load());
  ET_TRY(const auto session, call->program->default_session());
  return session->reset();
}
ET_NO_MEMORY("the state of %s", state_ == nullptr ? "a Module" : state_->label().text)

runtime::EventTracer* Module::event_tracer() const { return state_ == nullptr ? nullptr : state_->tracer.get(); }

}  // namespace et::extension
