/// Registers the compiler half of the example backend.
#include "backends/example/compiler/payload_writer.h"

namespace et::backends::example {
namespace {

class ExampleCompiler final : public passes::BackendCompiler {
 public:
  std::string_view backend_id() const override { return "ExampleBackend"; }
  Error preprocess(const passes::BackendPart& part, passes::BackendPayload& payload,
                   ir::Diagnostics& diagnostics) override {
    return write_payload(part, payload, diagnostics);
  }
};

}  // namespace

Error register_compiler(passes::BackendCompilers& compilers) {
  static ExampleCompiler compiler;
  return compilers.add(compiler);
}

}  // namespace et::backends::example
