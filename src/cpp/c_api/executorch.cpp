#include "c_api/executorch.h"

#include <atomic>
#include <cstring>
#include <list>
#include <memory>
#include <vector>

#include "extension/process.h"
#include "extension/tensor/tensor_ptr.h"
#include "runtime/host/out_of_memory.h"
#include "runtime/platform.h"
#include "threads/thread_pool.h"

namespace {

using et::Error;
using et::LogLevel;
using et::Result;
using et::runtime::EValue;
using et::runtime::MethodMeta;
using et::runtime::Tag;
using et::runtime::Tensor;
using et::runtime::TensorInfo;

static_assert(ET_OUT_OF_MEMORY == static_cast<int>(Error::MemoryAllocationFailed));
static_assert(ET_INVALID_PROGRAM == static_cast<int>(Error::InvalidProgram));
static_assert(ET_BFLOAT16 == static_cast<int>(et::ScalarType::BFloat16));
static_assert(ET_BOOL == static_cast<int>(et::ScalarType::Bool));

constexpr size_t kMostThreads = 4096;  // as in Python's set_num_threads

/// The messages of one call, of which the first says what is wrong and the others where.
struct Messages {
  char text[2048];
  size_t length;
};
thread_local Messages t_messages;
thread_local bool t_in_call = false;
std::atomic<et::LogHook> g_others{nullptr};  // the hook before ours, for messages outside of calls

void keep(LogLevel level, const char* file, int line, const char* message, size_t length) {
  if (!t_in_call || level < LogLevel::kError) {
    if (const et::LogHook others = g_others.load()) {
      others(level, file, line, message, length);
    }
    return;
  }
  Messages& kept = t_messages;
  if (kept.length + length + 2 < sizeof(kept.text)) {
    kept.length += kept.length == 0 ? 0 : 1;  // the line break that takes the place of the last zero
    std::memcpy(kept.text + kept.length, message, length);
    if (kept.length > 0) {
      kept.text[kept.length - 1] = '\n';
    }
    kept.length += length;
    kept.text[kept.length] = '\0';
  }
}

/// A call from outside: its messages are kept, and nothing is thrown beyond it.
template <typename Body>
et_status call(Body&& body) {
  t_messages.length = 0;
  t_messages.text[0] = '\0';
  t_in_call = true;
  Error error;
  try {
    error = body();
  } catch (const std::bad_alloc& fault) {
    error = ET_ERROR_WITH_MESSAGE(MemoryAllocationFailed, "no memory for %s of the C interface",
                                  et::runtime::RequestText(fault).text);
  }
  t_in_call = false;
  return static_cast<et_status>(error);
}

Error check_given(const void* pointer, const char* what) {
  ET_CHECK_OR_RETURN(pointer != nullptr, InvalidArgument, "the %s is null", what);
  return Error::Ok;
}

/// Memory of a caller's allocator, given back as a whole.
class CallersMemory final : public et::runtime::MemoryAllocator {
 public:
  explicit CallersMemory(const et_allocator& from) : from_(from) {}
  ~CallersMemory() override { reset(); }

  void* allocate(size_t nbytes, size_t alignment) override {
    // One more for the list of blocks, which lies in front.
    const size_t before = alignment > sizeof(Block) ? alignment : sizeof(Block);
    const size_t aligned_to = alignment > alignof(Block) ? alignment : alignof(Block);
    size_t total;
    if (et::add_overflow(nbytes, (before + aligned_to - 1) / aligned_to * aligned_to, &total)) {
      return nullptr;
    }
    auto* const memory = static_cast<char*>(from_.allocate(from_.context, total, aligned_to));
    if (memory == nullptr || reinterpret_cast<uintptr_t>(memory) % aligned_to != 0) {
      return memory == nullptr ? nullptr : (from_.release(from_.context, memory), nullptr);
    }
    std::memset(memory, 0, total);
    first_ = new (memory) Block{first_};
    used_ += total;
    return memory + (total - nbytes);
  }
  void reset() override {
    while (first_ != nullptr) {
      Block* const next = first_->next;
      from_.release(from_.context, first_);
      first_ = next;
    }
    used_ = 0;
  }
  size_t used() const override { return used_; }

 private:
  struct Block {
    Block* next;
  };
  const et_allocator& from_;
  Block* first_ = nullptr;
  size_t used_ = 0;
};

et_kind kind_of(Tag tag) {
  switch (tag) {
    case Tag::kTensor: return ET_KIND_TENSOR;
    case Tag::kInt: return ET_KIND_INT;
    case Tag::kDouble: return ET_KIND_DOUBLE;
    case Tag::kBool: return ET_KIND_BOOL;
    default: return ET_KIND_OTHER;
  }
}

}  // namespace

struct et_program {
  std::shared_ptr<et::runtime::HostProgram> host;
  std::vector<std::string> names;
  const et_allocator* allocator = nullptr;
};

struct et_method {
  std::unique_ptr<CallersMemory> memory, data, temp;  // declared first: they go after the method
  std::unique_ptr<et::runtime::HostMethod> host;
  std::vector<et::extension::TensorPtr> inputs;
  std::vector<std::string> input_names;
  bool has_run = false;

  Error set(size_t i, const EValue& value) {
    has_run = false;
    return host->method().set_input(value, i);
  }
};

namespace {

using Read = Result<std::shared_ptr<et::runtime::HostProgram>>(const void*, size_t, const et::runtime::HostOptions&);

Result<std::shared_ptr<et::runtime::HostProgram>> read_file(const void* path, size_t,
                                                            const et::runtime::HostOptions& host) {
  return et::runtime::HostProgram::from_file(static_cast<const char*>(path), host);
}

Result<std::shared_ptr<et::runtime::HostProgram>> read_memory(const void* data, size_t nbytes,
                                                              const et::runtime::HostOptions& host) {
  return et::runtime::HostProgram::from_buffer(nullptr, data, nbytes, host);
}

/// `pack_cache`: nullptr for none.
Error load(Read* read, const void* data, size_t nbytes, const et_options* options, const char* const* pack_cache,
           et_program** out) {
  ET_RETURN_IF_ERROR(check_given(out, "place for the program"));
  *out = nullptr;
  ET_RETURN_IF_ERROR(check_given(data, "path or address of the program"));
  et::runtime::HostOptions host = et::extension::process_options();
  ET_RETURN_IF_ERROR(et::extension::process_error());
  if (pack_cache != nullptr) {
    ET_CHECK_OR_RETURN(*pack_cache != nullptr && **pack_cache != '\0', InvalidArgument,
                       "the directory of packed weights is %s", *pack_cache == nullptr ? "null" : "empty");
    host.pack_cache = *pack_cache;
  }
  auto made = std::make_unique<et_program>();
  if (options != nullptr) {
    ET_CHECK_OR_RETURN(
        options->abi_version == ET_ABI_VERSION, NotSupported,
        "the options are of ABI version %u, this library has %u; begin with ET_OPTIONS_INIT, and compile "
        "against this library's executorch.h",
        options->abi_version, ET_ABI_VERSION);
    host.mode = options->read_file != 0 ? et::runtime::LoadMode::kFile : et::runtime::LoadMode::kMmap;
    ET_CHECK_OR_RETURN(options->num_data_files == 0 || options->data_files != nullptr, InvalidArgument,
                       "%zu data files are named, their list is null", options->num_data_files);
    for (size_t i = 0; i < options->num_data_files; ++i) {
      ET_RETURN_IF_ERROR(check_given(options->data_files[i], "path of a data file"));
      host.data_files.emplace_back(options->data_files[i]);
    }
    if (options->allocator != nullptr) {
      ET_CHECK_OR_RETURN(options->allocator->allocate != nullptr && options->allocator->release != nullptr,
                         InvalidArgument, "the allocator needs two functions, %s is null",
                         options->allocator->allocate == nullptr ? "allocate" : "release");
      made->allocator = options->allocator;
    }
  }
  ET_TRY(made->host, read(data, nbytes, host));
  for (size_t i = 0; i < made->host->program().num_methods(); ++i) {
    made->names.emplace_back(made->host->program().method_name(i));
  }
  *out = made.release();
  return Error::Ok;
}

Error info_of(const Result<TensorInfo>& info, et_tensor_info* out) {
  ET_RETURN_IF_ERROR(check_given(out, "place for the description"));
  ET_RETURN_IF_ERROR(info.error());
  *out = {static_cast<et_dtype>(info->dtype), static_cast<int32_t>(info->sizes.size()), info->sizes.data(),
          info->dim_order.data(), info->nbytes};
  return Error::Ok;
}

Error check_output(const et_method* method, size_t i, const void* out, et_kind kind, const char* word) {
  ET_RETURN_IF_ERROR(check_given(method, "method"));
  ET_RETURN_IF_ERROR(check_given(out, "place for the output"));
  ET_CHECK_OR_RETURN(method->has_run, InvalidState, "output %zu: the method has not run since its inputs were set", i);
  const MethodMeta meta = method->host->meta();
  ET_CHECK_OR_RETURN(i < meta.num_outputs(), InvalidArgument, "there is no output %zu, the method has %zu", i,
                     meta.num_outputs());
  ET_CHECK_OR_RETURN(kind_of(meta.output_tag(i)) == kind, InvalidType, "output %zu is %s, not %s", i,
                     et::runtime::to_string(meta.output_tag(i)), word);
  return Error::Ok;
}

et_status set_number(et_method* method, size_t i, const EValue& value) {
  return call([&]() -> Error {
    ET_RETURN_IF_ERROR(check_given(method, "method"));
    return method->set(i, value);
  });
}

}  // namespace

extern "C" {

et_status et_init_abi(uint32_t version) {
  static std::atomic<bool> done{false};
  if (!done.exchange(true)) {
    et::runtime::platform_install_default_log();
    g_others.store(et::set_log_hook(&keep));
  }
  return call([&]() -> Error {
    ET_CHECK_OR_RETURN(version == ET_ABI_VERSION, NotSupported,
                       "the program was compiled for ABI version %u, this library has %u; compile it against this "
                       "library's executorch.h",
                       version, ET_ABI_VERSION);
    return Error::Ok;
  });
}

uint32_t et_abi_version(void) { return ET_ABI_VERSION; }

const char* et_last_error(void) { return t_messages.text; }

const char* et_status_name(et_status status) {
  return status < 0 || status > UINT8_MAX ? "Unknown" : et::to_string(static_cast<Error>(status));
}

et_status et_set_num_threads(size_t count) {
  return call([&]() -> Error {
    ET_CHECK_OR_RETURN(count <= kMostThreads, InvalidArgument, "%zu threads are more than any machine has (%zu)", count,
                       kMostThreads);
    et::extension::process_options().pool->set_num_threads(count);
    return Error::Ok;
  });
}

et_status et_program_load_file(const char* path, const et_options* options, et_program** out) {
  return call([&] { return load(&read_file, path, 0, options, nullptr, out); });
}

et_status et_program_load_memory(const void* data, size_t nbytes, const et_options* options, et_program** out) {
  return call([&] { return load(&read_memory, data, nbytes, options, nullptr, out); });
}

et_status et_program_load_file_packed(const char* path, const et_options* options, const char* pack_cache,
                                      et_program** out) {
  return call([&] { return load(&read_file, path, 0, options, &pack_cache, out); });
}

et_status et_program_load_memory_packed(const void* data, size_t nbytes, const et_options* options,
                                        const char* pack_cache, et_program** out) {
  return call([&] { return load(&read_memory, data, nbytes, options, &pack_cache, out); });
}

void et_program_free(et_program* program) { delete program; }

size_t et_program_num_methods(const et_program* program) { return program == nullptr ? 0 : program->names.size(); }

const char* et_program_method_name(const et_program* program, size_t i) {
  return i < et_program_num_methods(program) ? program->names[i].c_str() : nullptr;
}

et_status et_method_load(et_program* program, const char* name, et_method** out) {
  return call([&]() -> Error {
    ET_RETURN_IF_ERROR(check_given(out, "place for the method"));
    *out = nullptr;
    ET_RETURN_IF_ERROR(check_given(program, "program"));
    ET_RETURN_IF_ERROR(check_given(name, "name of the method"));
    auto made = std::make_unique<et_method>();
    et::runtime::HostMethodOptions options;
    if (program->allocator != nullptr) {
      made->memory = std::make_unique<CallersMemory>(*program->allocator);
      made->data = std::make_unique<CallersMemory>(*program->allocator);
      made->temp = std::make_unique<CallersMemory>(*program->allocator);
      options.memory = made->memory.get();
      options.data_memory = made->data.get();
      options.temp_memory = made->temp.get();
    }
    const et::extension::LoadScope scope(et::extension::process().gate);
    ET_TRY(made->host, program->host->load_method(name, nullptr, options));
    const MethodMeta meta = made->host->meta();
    made->inputs.resize(meta.num_inputs());
    for (size_t i = 0; i < meta.num_inputs(); ++i) {
      made->input_names.emplace_back(meta.input_name(i));
    }
    *out = made.release();
    return Error::Ok;
  });
}

void et_method_free(et_method* method) { delete method; }

size_t et_method_num_inputs(const et_method* method) { return method == nullptr ? 0 : method->inputs.size(); }

size_t et_method_num_outputs(const et_method* method) {
  return method == nullptr ? 0 : method->host->meta().num_outputs();
}

et_kind et_method_input_kind(const et_method* method, size_t i) {
  return i < et_method_num_inputs(method) ? kind_of(method->host->meta().input_tag(i)) : ET_KIND_OTHER;
}

et_kind et_method_output_kind(const et_method* method, size_t i) {
  return i < et_method_num_outputs(method) ? kind_of(method->host->meta().output_tag(i)) : ET_KIND_OTHER;
}

et_status et_method_input_info(const et_method* method, size_t i, et_tensor_info* out) {
  return call([&]() -> Error {
    ET_RETURN_IF_ERROR(check_given(method, "method"));
    return info_of(method->host->meta().input_tensor_info(i), out);
  });
}

et_status et_method_output_info(const et_method* method, size_t i, et_tensor_info* out) {
  return call([&]() -> Error {
    ET_RETURN_IF_ERROR(check_given(method, "method"));
    return info_of(method->host->meta().output_tensor_info(i), out);
  });
}

const char* et_method_input_name(const et_method* method, size_t i) {
  return i < et_method_num_inputs(method) ? method->input_names[i].c_str() : nullptr;
}

et_status et_method_set_input(et_method* method, size_t i, const et_tensor* tensor) {
  return call([&]() -> Error {
    ET_RETURN_IF_ERROR(check_given(method, "method"));
    ET_RETURN_IF_ERROR(check_given(tensor, "tensor"));
    ET_CHECK_OR_RETURN(i < method->inputs.size(), InvalidArgument, "there is no input %zu, the method takes %zu", i,
                       method->inputs.size());
    const MethodMeta meta = method->host->meta();
    ET_CHECK_OR_RETURN(meta.input_tag(i) == Tag::kTensor, InvalidType, "input %zu is %s, a tensor was given", i,
                       et::runtime::to_string(meta.input_tag(i)));
    ET_CHECK_OR_RETURN(et::is_valid_dtype(tensor->dtype), InvalidType, "input %zu: %d is no dtype", i, tensor->dtype);
    ET_TRY(const TensorInfo info, meta.input_tensor_info(i));
    ET_CHECK_OR_RETURN(tensor->rank >= 0 && static_cast<size_t>(tensor->rank) == info.sizes.size(), InvalidArgument,
                       "input %zu has rank %zu, a tensor of rank %d was given", i, info.sizes.size(), tensor->rank);
    ET_CHECK_OR_RETURN(tensor->rank == 0 || tensor->sizes != nullptr, InvalidArgument, "input %zu: its sizes are null",
                       i);
    const et::Span<const int64_t> sizes(tensor->sizes, static_cast<size_t>(tensor->rank));
    et::extension::TensorPtr made = et::extension::make_tensor({et::extension::Sizes(sizes),
                                                                {info.dim_order.begin(), info.dim_order.end()},
                                                                {},
                                                                static_cast<et::ScalarType>(tensor->dtype)},
                                                               nullptr, tensor->data, tensor->nbytes);
    ET_CHECK_OR_RETURN(made != nullptr, InvalidArgument, "input %zu is no tensor", i);
    ET_RETURN_IF_ERROR(method->set(i, EValue(*made)));
    method->inputs[i] = std::move(made);
    return Error::Ok;
  });
}

et_status et_method_set_input_int(et_method* method, size_t i, int64_t value) {
  return set_number(method, i, EValue(value));
}

et_status et_method_set_input_double(et_method* method, size_t i, double value) {
  return set_number(method, i, EValue(value));
}

et_status et_method_set_input_bool(et_method* method, size_t i, int32_t value) {
  return set_number(method, i, EValue(value != 0));
}

et_status et_method_execute(et_method* method) {
  return call([&]() -> Error {
    ET_RETURN_IF_ERROR(check_given(method, "method"));
    method->has_run = false;
    ET_RETURN_IF_ERROR(method->host->method().execute());
    if (auto* const pool = method->host->program()->options().pool) {
      pool->end_call();
    }
    method->has_run = true;
    return Error::Ok;
  });
}

et_status et_method_get_output(et_method* method, size_t i, et_tensor* out) {
  return call([&]() -> Error {
    ET_RETURN_IF_ERROR(check_output(method, i, out, ET_KIND_TENSOR, "a tensor"));
    const Tensor tensor = method->host->method().get_output(i).to_tensor();
    *out = {static_cast<et_dtype>(tensor.scalar_type()), static_cast<int32_t>(tensor.dim()), tensor.sizes().data(),
            tensor.mutable_data_ptr(), tensor.nbytes()};
    return Error::Ok;
  });
}

et_status et_method_get_output_int(et_method* method, size_t i, int64_t* out) {
  return call([&]() -> Error {
    ET_RETURN_IF_ERROR(check_output(method, i, out, ET_KIND_INT, "an int"));
    *out = method->host->method().get_output(i).to_int();
    return Error::Ok;
  });
}

et_status et_method_get_output_double(et_method* method, size_t i, double* out) {
  return call([&]() -> Error {
    ET_RETURN_IF_ERROR(check_output(method, i, out, ET_KIND_DOUBLE, "a double"));
    *out = method->host->method().get_output(i).to_double();
    return Error::Ok;
  });
}

et_status et_method_get_output_bool(et_method* method, size_t i, int32_t* out) {
  return call([&]() -> Error {
    ET_RETURN_IF_ERROR(check_output(method, i, out, ET_KIND_BOOL, "a bool"));
    *out = method->host->method().get_output(i).to_bool() ? 1 : 0;
    return Error::Ok;
  });
}

et_status et_method_reset_state(et_method* method) {
  return call([&]() -> Error {
    ET_RETURN_IF_ERROR(check_given(method, "method"));
    return method->host->method().reset_state();
  });
}

void et_method_cancel(et_method* method) {
  if (method != nullptr) {
    method->host->method().cancel();
  }
}

}  // extern "C"
