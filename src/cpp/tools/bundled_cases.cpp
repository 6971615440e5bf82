#include "tools/bundled_cases.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "devtools/bundled_program.h"
#include "tools/npy.h"

namespace et::tools {
namespace {

using devtools::BundledProgram;
using devtools::OutputDifference;

constexpr size_t kAlignment = 64;

/// A file in memory that is aligned as programs are.
Result<std::shared_ptr<const uint8_t>> aligned_copy(const std::vector<uint8_t>& bytes) {
  void* const memory = std::aligned_alloc(kAlignment, (bytes.size() / kAlignment + 1) * kAlignment);
  ET_CHECK_OR_RETURN(memory != nullptr, MemoryAllocationFailed, "no memory for a file of %zu bytes", bytes.size());
  std::memcpy(memory, bytes.data(), bytes.size());
  return std::shared_ptr<const uint8_t>(static_cast<uint8_t*>(memory), [](uint8_t* memory) { std::free(memory); });
}

}  // namespace

Error run_bundled(const RunnerOptions& options, const runtime::HostOptions& host_options,
                  const runtime::HostMethodOptions& method_options, devtools::ETDumpGen* etdump) {
  ET_TRY(const std::vector<uint8_t> file, read_file(options.bundled_program));
  ET_TRY(const std::shared_ptr<const uint8_t> bytes, aligned_copy(file));
  ET_TRY(const BundledProgram bundle, BundledProgram::load({bytes.get(), file.size()}));
  const Span<const uint8_t> program = bundle.program();
  ET_TRY(const std::shared_ptr<runtime::HostProgram> host,
         runtime::HostProgram::from_buffer(bytes, program.data(), program.size(), host_options));
  ET_TRY(const std::unique_ptr<runtime::HostMethod> loaded, host->load_method(options.method, nullptr, method_options));
  runtime::Method& method = loaded->method();
  const size_t num_cases = bundle.num_cases(options.method);
  const bool is_one = options.test_case != SIZE_MAX;
  ET_CHECK_OR_RETURN(is_one ? options.test_case < num_cases : num_cases > 0, InvalidArgument,
                     "'%s' has %zu test cases for method '%s'", options.bundled_program.c_str(), num_cases,
                     options.method.c_str());
  size_t num_wrong = 0;
  for (size_t i = is_one ? options.test_case : 0; i < (is_one ? options.test_case + 1 : num_cases); ++i) {
    if (etdump != nullptr) {
      etdump->set_bundled_input_index(static_cast<int32_t>(i));
    }
    ET_RETURN_IF_ERROR(bundle.load_input(method, i));
    ET_RETURN_IF_ERROR(method.execute());
    ET_TRY(const OutputDifference found, bundle.compare_outputs(method, i, {options.rtol, options.atol}));
    std::printf("test case %zu: %s, largest difference %g\n", i, found.num_different == 0 ? "ok" : "WRONG",
                found.largest);
    if (found.num_different > 0) {
      ++num_wrong;
      std::printf("  %zu elements differ; the first is element %zu of output %zu, %.9g instead of %.9g\n",
                  found.num_different, found.element, found.output, found.result, found.expected);
    }
  }
  ET_CHECK_OR_RETURN(num_wrong == 0, NotFound, "%zu of %zu test cases of '%s' gave other outputs than expected",
                     num_wrong, is_one ? 1 : num_cases, options.bundled_program.c_str());
  return Error::Ok;
}

}  // namespace et::tools
