#include "extension/program/program.h"

#include <string>

#include "extension/process.h"
#include "runtime/host/out_of_memory.h"
#include "runtime/platform.h"

namespace et::extension {

struct Method::Held {
  explicit Held(std::shared_ptr<const runtime::Program> program) : program(std::move(program)) {}

  std::shared_ptr<const runtime::Program> program;
  runtime::HeapAllocator temp;
  runtime::HeapAllocator data;
  runtime::MemoryManager memory;
  std::unique_ptr<runtime::Method> method;  // declared last: it goes before its memory
};

runtime::Method& Method::method() const { return *held_->method; }

Error Method::set_inputs(Span<const EValue> values) {
  ET_CHECK_OR_RETURN(values.size() == inputs_size(), InvalidArgument, "%zu inputs were given, the method takes %zu",
                     values.size(), inputs_size());
  for (size_t i = 0; i < values.size(); ++i) {
    ET_RETURN_IF_ERROR(set_input(values[i], i));
  }
  return Error::Ok;
}

EValue Method::get_output(size_t i) const { return i < outputs_size() ? EValue(method().get_output(i)) : EValue(); }

EValue Method::get_input(size_t i) const { return i < inputs_size() ? EValue(method().get_input(i)) : EValue(); }

Error Method::get_outputs(EValue* values, size_t length) const {
  ET_CHECK_OR_RETURN(values != nullptr && length >= outputs_size(), InvalidArgument,
                     "there are %zu outputs, the array has room for %zu", outputs_size(), length);
  for (size_t i = 0; i < length; ++i) {
    values[i] = get_output(i);
  }
  return Error::Ok;
}

Error Method::get_inputs(EValue* values, size_t length) const {
  ET_CHECK_OR_RETURN(values != nullptr && length >= inputs_size(), InvalidArgument,
                     "there are %zu inputs, the array has room for %zu", inputs_size(), length);
  for (size_t i = 0; i < length; ++i) {
    values[i] = get_input(i);
  }
  return Error::Ok;
}

Program::HeaderStatus Program::check_header(const void* data, size_t size) {
  constexpr size_t kPlace = 4, kLength = 4;  // of the identifier in a FlatBuffer
  if (data == nullptr || size < kMinHeadBytes) {
    return HeaderStatus::ShortData;
  }
  const std::string_view identifier(static_cast<const char*>(data) + kPlace, kLength);
  return identifier == "ET12"              ? HeaderStatus::CompatibleVersion
         : identifier.substr(0, 2) == "ET" ? HeaderStatus::IncompatibleVersion
                                           : HeaderStatus::NotPresent;
}

Result<Program> Program::load(DataLoader* loader, Verification) try {
  runtime::platform_install_default_log();
  ET_CHECK_OR_RETURN(loader != nullptr, InvalidArgument, "a program cannot be loaded: the data loader is null");
  ET_TRY(runtime::Program program, runtime::Program::load(loader));
  return Program(std::move(program));
}
ET_NO_MEMORY("a program of %zu bytes", loader == nullptr ? 0 : loader->size())

Result<const char*> Program::get_method_name(size_t i) const {
  ET_CHECK_OR_RETURN(i < num_methods(), InvalidArgument, "there is no method %zu, the program has %zu", i,
                     num_methods());
  return program_->method_name(i).data();  // a string of the file, which ends in zero
}

Result<MethodMeta> Program::method_meta(const char* name) const {
  ET_TRY(const runtime::MethodMeta meta, program_->method_meta(name == nullptr ? "" : name));
  return MethodMeta(meta, program_);
}

Result<Method> Program::load_method(const char* name, MemoryManager* memory, EventTracer* tracer,
                                    const runtime::NamedDataMap* data) const try {
  ET_CHECK_OR_RETURN(memory != nullptr && memory->method_allocator() != nullptr, InvalidArgument,
                     "a method cannot be loaded: the %s is null",
                     memory == nullptr ? "MemoryManager" : "method allocator");
  const LoadScope scope(process().gate);
  const runtime::HostOptions host = process_options();
  ET_RETURN_IF_ERROR(process_error());
  const auto held = std::make_shared<Method::Held>(program_);
  held->memory.method_allocator = memory->method_allocator();
  if (memory->planned_memory() != nullptr) {
    held->memory.planned_memory = memory->planned_memory()->buffers();
  }
  held->memory.temp_allocator = memory->temp_allocator() != nullptr ? memory->temp_allocator() : &held->temp;
  held->memory.data_allocator = &held->data;
  runtime::MethodOptions options;
  options.kernels = host.kernels;
  options.backends = host.backends;
  options.pool = host.pool;
  options.external_data = data;
  options.tracer = tracer;
  ET_TRY(runtime::Method method, program_->load_method(name == nullptr ? "" : name, &held->memory, options));
  held->method = std::make_unique<runtime::Method>(std::move(method));
  return Method(held, tracer);
}
ET_NO_MEMORY("method '%s'", name == nullptr ? "" : name)

}  // namespace et::extension
