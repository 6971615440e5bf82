/// Registers the compiler half of the TOSA backend.
#include "backends/tosa/compiler/lowering.h"
#include "backends/tosa/compiler/op_support.h"
#include "backends/tosa/compiler/part_form.h"

namespace et::backends::tosa::compiler {
namespace {

/// Handles of a node of the integer form. A conversion that a pass made has none: it stands at the border of what gave
/// its numbers, or of what reads them.
std::vector<uint32_t> handles_at(const ir::Node& node) {
  std::vector<uint32_t> handles = node.all_handles();
  const auto take = [&](const ir::Node* other) {
    handles = handles.empty() && other != nullptr ? other->all_handles() : std::move(handles);
  };
  node.for_each_input([&](const ir::Value* input) { take(input->producer()); });
  for (const auto& result : node.results()) {
    for (const ir::Node* user : result->users()) {
      take(user);
    }
  }
  return handles;
}

/// Refuses the whole part.
void refuse_all(const passes::BackendPart& part, const std::string& why, std::vector<passes::PartRefusal>& out) {
  for (const auto& node : part.graph.nodes()) {
    out.push_back({node->debug_handle, why});
  }
}

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
      const std::string why = diagnostics.empty() ? "no reason given" : diagnostics.front().to_string();
      refuse_all(part, "a pass over the part failed: " + why, out);
      return out;
    }
    for (const auto& node : form.graph().nodes()) {
      const std::string why = refusal_of({*node, form.program, target});
      const std::vector<uint32_t> handles = why.empty() ? std::vector<uint32_t>() : handles_at(*node);
      for (const uint32_t handle : handles) {
        out.push_back({handle, why});
      }
      if (!why.empty() && handles.empty()) {
        refuse_all(part, why, out);
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
