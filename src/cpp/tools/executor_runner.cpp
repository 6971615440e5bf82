// executor_runner: runs a method of a .pte with inputs from files or generated ones, and says what it took.
// Exit status: 0, 1 = the program or a run failed, 2 = wrong arguments.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "base/tensor_text.h"
#include "base/visit_dtype.h"
#include "extension/process.h"
#include "runtime/platform.h"
#include "threads/thread_pool.h"
#include "tools/bundled_cases.h"
#include "tools/chrome_trace.h"
#include "tools/npy.h"
#include "tools/runner_options.h"
#include "tools/strided_order.h"

namespace et::tools {
namespace {

using runtime::EValue;
using runtime::HostMethod;
using runtime::MethodMeta;
using runtime::Tag;
using runtime::Tensor;
using runtime::TensorImpl;
using runtime::TensorInfo;

/// A tensor that is given to the method, with everything it stands on.
struct InputTensor {
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  std::vector<uint8_t> data;
  TensorImpl impl;

  /// Takes row-major bytes and lays them out as the method wants them.
  void set(const TensorInfo& info, std::vector<int64_t> new_sizes, const std::vector<uint8_t>& row_major) {
    sizes = std::move(new_sizes);
    strides.resize(sizes.size());
    data.resize(row_major.size() + 1);  // never empty
    to_dim_order(sizes, info.dim_order, element_size(info.dtype), row_major.data(), data.data());
    impl = TensorImpl(info.dtype, sizes.size(), sizes.data(), strides.data(), info.dim_order.data(), data.data(),
                      row_major.size());
  }
};

bool ends_with(const std::string& text, const char* suffix) {
  const size_t length = std::strlen(suffix);
  return text.size() >= length && text.compare(text.size() - length, length, suffix) == 0;
}

/// Values that make sense for most models: floats in [-1, 1), small integers, which are valid as indices, too.
std::vector<uint8_t> generate(const TensorInfo& info, uint64_t* state) {
  std::vector<uint8_t> data(info.nbytes);
  const size_t item = element_size(info.dtype);
  for (size_t i = 0; i + item <= data.size(); i += item) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;  // Knuth, MMIX
    const uint32_t random = static_cast<uint32_t>(*state >> 33);
    const float real = static_cast<float>(random) / 1073741824.0f - 1.0f;
    visit_dtype(info.dtype, [&](auto zero) {
      using T = decltype(zero);
      if constexpr (is_floating(dtype_of<T>)) {
        const T value(real);
        std::memcpy(&data[i], &value, item);
      } else {
        data[i] = static_cast<uint8_t>(random % 2);
      }
    });
  }
  return data;
}

Error make_input(const MethodMeta& meta, size_t i, const std::string& path, uint64_t* random, InputTensor* out) {
  ET_TRY(const TensorInfo info, meta.input_tensor_info(i));
  std::vector<int64_t> sizes(info.sizes.begin(), info.sizes.end());
  if (path.empty()) {
    out->set(info, std::move(sizes), generate(info, random));
  } else if (ends_with(path, ".npy")) {
    ET_TRY(NpyArray array, read_npy(path));
    ET_CHECK_OR_RETURN(array.dtype == info.dtype && array.sizes.size() == info.sizes.size(), InvalidArgument,
                       "'%s' is %s of rank %zu, input %zu is %s of rank %zu", path.c_str(), to_string(array.dtype),
                       array.sizes.size(), i, to_string(info.dtype), info.sizes.size());
    out->set(info, std::move(array.sizes), array.data);
  } else {
    ET_TRY(const std::vector<uint8_t> bytes, read_file(path));
    ET_CHECK_OR_RETURN(bytes.size() == info.nbytes, InvalidArgument, "'%s' has %zu bytes, input %zu takes %zu",
                       path.c_str(), bytes.size(), i, info.nbytes);
    out->set(info, std::move(sizes), bytes);
  }
  return Error::Ok;
}

Error set_inputs(HostMethod& method, std::vector<InputTensor>& tensors, const std::vector<EValue>& constants) {
  for (size_t i = 0; i < tensors.size(); ++i) {
    const bool is_tensor = method.meta().input_tag(i) == Tag::kTensor;
    ET_RETURN_IF_ERROR(method.method().set_input(is_tensor ? EValue(Tensor(&tensors[i].impl)) : constants[i], i));
  }
  return Error::Ok;
}

/// The elements of a tensor in row-major order, whatever order they lie in.
std::vector<uint8_t> row_major(const Tensor& tensor) {
  std::vector<uint8_t> data(tensor.nbytes());
  from_dim_order(tensor.sizes(), dim_order(tensor), tensor.element_size(),
                 static_cast<const uint8_t*>(tensor.const_data_ptr()), data.data());
  return data;
}

template <typename T>
void print_element(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  if constexpr (is_complex(dtype_of<T>)) {
    std::printf("%.9g%+.9gj", static_cast<double>(value.re), static_cast<double>(value.im));
  } else if constexpr (std::is_integral_v<T> && std::is_signed_v<T>) {
    std::printf("%lld", static_cast<long long>(value));
  } else if constexpr (std::is_integral_v<T>) {
    std::printf("%llu", static_cast<unsigned long long>(value));
  } else {
    std::printf("%.9g", static_cast<double>(value));
  }
}

void print_elements(const Tensor& tensor) {
  constexpr int64_t kMost = 64;
  const std::vector<uint8_t> data = row_major(tensor);
  const char* separator = "";
  for (int64_t i = 0; i < tensor.numel() && i < kMost; ++i, separator = ", ") {
    std::printf("%s", separator);
    const uint8_t* const from = data.data() + static_cast<size_t>(i) * tensor.element_size();
    visit_dtype(tensor.scalar_type(), [&](auto zero) { print_element<decltype(zero)>(from); });
  }
  std::printf("%s", tensor.numel() > kMost ? ", ..." : "");
}

void print_output(size_t i, const EValue& value) {
  std::printf("output %zu: ", i);
  if (value.is_tensor()) {
    const Tensor tensor = value.to_tensor();
    std::printf("%s = [", TensorText(tensor.scalar_type(), tensor.sizes()).text);
    print_elements(tensor);
    std::printf("]\n");
  } else if (value.tag() == Tag::kString) {
    const std::string_view text = value.to_string_view();
    std::printf("'%.*s'\n", static_cast<int>(text.size()), text.data());
  } else if (value.tag() == Tag::kInt) {
    std::printf("%lld\n", static_cast<long long>(value.to_int()));
  } else if (value.is_number()) {
    std::printf("%.17g\n", value.number_as_double());
  } else {
    std::printf("%s\n", to_string(value.tag()));
  }
}

Error write_output(const std::string& folder, size_t i, const EValue& value) {
  if (!value.is_tensor()) {
    return Error::Ok;
  }
  const Tensor tensor = value.to_tensor();
  NpyArray array;
  array.dtype = tensor.scalar_type();
  array.sizes.assign(tensor.sizes().begin(), tensor.sizes().end());
  array.data = row_major(tensor);
  return write_npy(folder + "/output_" + std::to_string(i) + ".npy", array);
}

void print_memory(const HostMethod& method) {
  const MethodMeta meta = method.meta();
  for (size_t i = 0; i < meta.num_memory_planned_buffers(); ++i) {
    std::printf("planned buffer %zu: %llu bytes%s\n", i + 1,
                static_cast<unsigned long long>(meta.memory_planned_buffer_size(i)),
                meta.memory_planned_buffer_is_state(i) ? " (state of the session)" : "");
  }
  std::printf("planned memory: %zu bytes; other memory of the method: %zu bytes\n", method.planned_nbytes(),
              method.other_nbytes());
}

double ms(uint64_t ns) { return static_cast<double>(ns) / 1e6; }

/// The tracer that --etdump needs; nullptr: none.
Result<std::shared_ptr<devtools::ETDumpGen>> make_etdump(const RunnerOptions& options) {
  ET_CHECK_OR_RETURN(options.trace.empty() || options.etdump.empty(), InvalidArgument,
                     "--trace and --etdump record the same; give one of them");
  ET_CHECK_OR_RETURN(options.debug_output.empty() || !options.etdump.empty(), InvalidArgument,
                     "--debug-output goes with --etdump, which says where its values are");
  if (options.etdump.empty()) {
    return std::shared_ptr<devtools::ETDumpGen>();
  }
  auto etdump = std::make_shared<devtools::ETDumpGen>();
  if (!options.debug_output.empty()) {
    ET_RETURN_IF_ERROR(etdump->record_values(options.debug_nbytes));
  }
  return etdump;
}

Error write_etdump(const RunnerOptions& options, const devtools::ETDumpGen* etdump) {
  return etdump == nullptr ? Error::Ok : etdump->save(options.etdump, options.debug_output);
}

Error run(const RunnerOptions& options) {
  threads::set_num_threads(options.threads);
  runtime::HostOptions host_options = extension::process_options();
  ET_RETURN_IF_ERROR(extension::process_error());
  host_options.mode = options.read_file ? runtime::LoadMode::kFile : runtime::LoadMode::kMmap;
  host_options.data_files = options.data_files;
  host_options.pack_cache = options.pack_cache;
  ChromeTrace trace;
  runtime::HostMethodOptions method_options;
  method_options.tracer = options.trace.empty() ? nullptr : &trace;
  ET_TRY(const std::shared_ptr<devtools::ETDumpGen> etdump, make_etdump(options));
  host_options.tracer = etdump;
  if (!options.bundled_program.empty()) {
    ET_RETURN_IF_ERROR(run_bundled(options, host_options, method_options, etdump.get()));
    return write_etdump(options, etdump.get());
  }
  if (options.max_backward_jumps > 0) {
    method_options.max_backward_jumps = options.max_backward_jumps;
  }

  const uint64_t load_start = runtime::platform_now_ns();
  ET_TRY(const std::shared_ptr<runtime::HostProgram> program,
         runtime::HostProgram::from_file(options.model, host_options));
  ET_TRY(const std::unique_ptr<HostMethod> method, program->load_method(options.method, nullptr, method_options));
  const uint64_t load_ns = runtime::platform_now_ns() - load_start;

  const MethodMeta meta = method->meta();
  std::vector<InputTensor> tensors(meta.num_inputs());
  std::vector<EValue> constants;
  uint64_t random = options.seed;
  size_t next_file = 0;
  for (size_t i = 0; i < meta.num_inputs(); ++i) {
    constants.push_back(method->method().get_input(i));
    if (meta.input_tag(i) == Tag::kTensor) {
      const std::string path = next_file < options.inputs.size() ? options.inputs[next_file++] : "";
      ET_RETURN_IF_ERROR(make_input(meta, i, path, &random, &tensors[i]));
    }
  }
  ET_CHECK_OR_RETURN(next_file == options.inputs.size(), InvalidArgument,
                     "%zu inputs were given, method '%s' takes %zu tensors", options.inputs.size(),
                     options.method.c_str(), next_file);

  std::vector<uint64_t> times;
  times.reserve(options.warmup + options.runs);
  for (size_t i = 0; i < options.warmup + options.runs; ++i) {
    ET_RETURN_IF_ERROR(set_inputs(*method, tensors, constants));
    const uint64_t start = runtime::platform_now_ns();
    ET_RETURN_IF_ERROR(method->method().execute());
    times.push_back(runtime::platform_now_ns() - start);
    host_options.pool->end_call();
  }
  if (!times.empty()) {
    const uint64_t first = times.front();
    times.erase(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(std::min(options.warmup, times.size() - 1)));
    std::sort(times.begin(), times.end());
    std::printf("load %.3f ms, first run %.3f ms; of %zu runs: median %.3f ms, fastest %.3f ms\n", ms(load_ns),
                ms(first), times.size(), ms(times[times.size() / 2]), ms(times.front()));
    for (size_t i = 0; i < meta.num_outputs(); ++i) {
      if (options.print_outputs) {
        print_output(i, method->method().get_output(i));
      }
      if (!options.output_dir.empty()) {
        ET_RETURN_IF_ERROR(write_output(options.output_dir, i, method->method().get_output(i)));
      }
    }
  }
  if (options.planned_memory) {
    print_memory(*method);
  }
  if (!options.trace.empty()) {
    trace.print_summary();
    ET_RETURN_IF_ERROR(trace.write(options.trace));
  }
  return write_etdump(options, etdump.get());
}

}  // namespace
}  // namespace et::tools

int main(int argc, char** argv) {
  et::tools::RunnerOptions options;
  switch (et::tools::parse_arguments(argc, argv, &options)) {
    case et::tools::ParseResult::kDone: return 0;
    case et::tools::ParseResult::kError: return 2;
    case et::tools::ParseResult::kRun: break;
  }
  const et::Error error = et::tools::run(options);
  if (error != et::Error::Ok) {
    std::fprintf(stderr, "executor_runner: %s\n", et::to_string(error));
  }
  return error == et::Error::Ok ? 0 : 1;
}
