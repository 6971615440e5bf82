/// Registers the compiler half of the TOSA backend.
#include "backends/tosa/compiler/lowering.h"
#include "backends/tosa/compiler/op_support.h"
#include "backends/tosa/compiler/part_form.h"

namespace et::backends::tosa::compiler {
namespace {

class TosaCompiler final : public passes::BackendCompiler {
 public:
  std::string_view backend_id() const override { return "TOSABackend"; }

  Error preprocess(const passes::BackendPart& part, passes::BackendPayload& payload,
                   ir::Diagnostics& diagnostics) override {
    PartForm form;
    ET_RETURN_IF_ERROR(make_part_form(part, form, diagnostics));
    return Lowering(part, form.graph(), form.program, diagnostics).run(payload);
  }

  bool judges_parts() const override { return true; }

  std::vector<passes::PartRefusal> part_refusals(const passes::BackendPart& part) override {
    std::vector<passes::PartRefusal> out;
    PartForm form;
    ir::Diagnostics diagnostics;
    const Target target = read_target(part.compile_specs);
    if (make_part_form(part, form, diagnostics) != Error::Ok) {
      for (const auto& node : part.graph.nodes()) {
        out.push_back({node->debug_handle, "a pass over the part failed: " + diagnostics.front().to_string()});
      }
      return out;
    }
    for (const auto& node : form.graph().nodes()) {
      const std::string why = refusal_of({*node, form.program, target});
      if (!why.empty()) {
        for (const uint32_t handle : node->all_handles()) {
          out.push_back({handle, why});
        }
      }
    }
    return out;
  }
};

}  // namespace
}  // namespace et::backends::tosa::compiler

namespace et::backends::tosa {

Error register_compiler(passes::BackendCompilers& compilers) {
  static compiler::TosaCompiler compiler;
  return compilers.add(compiler);
}

}  // namespace et::backends::tosa
