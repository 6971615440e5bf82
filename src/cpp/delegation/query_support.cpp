#include "delegation/query_support.h"

#include <iterator>
#include <unordered_map>

#include "delegation/leave_conversions.h"
#include "delegation/leave_written_out.h"
#include "delegation/outline_delegates.h"
#include "delegation/weigh_parts.h"

namespace et::delegation {
namespace {

constexpr const char* kTaken = "taken";

/// Whose costs decide about functions: those of the file, or the usual ones where the user chose the parts.
std::vector<ops::TargetIsa> processors_of(const Leaving& leaving) {
  return leaving.isas.empty() ? std::vector(std::begin(ops::kUsualIsas), std::end(ops::kUsualIsas)) : leaving.isas;
}

class Query {
 public:
  Query(ir::Program& program, passes::BackendCompiler& compiler, const std::vector<ir::Delegate::CompileSpec>& specs)
      : program_(program), compiler_(compiler), specs_(specs) {}

  void ask(ir::Graph& graph, const Leaving& leaving) {
    for (const auto& node : graph.nodes()) {
      for (const auto& region : node->regions) {
        ask(*region, leaving);
      }
      if (node->op == "constant" || node->op == "buffer" || node->op == "delegate" || !node->tag.empty()) {
        continue;
      }
      std::string why = node->regions.empty() ? compiler_.refusal(*node, program_, specs_) : "control flow";
      node->tag = why.empty() ? kTaken : "";
      position_[node.get()] = answers.size();
      answers.push_back({node->debug_handle, std::move(why), ""});
    }
    const auto refuse = [this](ir::Node& node, std::string why) {
      node.tag.clear();
      answers[position_.at(&node)].refusal = std::move(why);
    };
    leave_conversions(graph, refuse);
    if (leaving.functions) {
      leave_written_out(graph, program_, compiler_, processors_of(leaving), refuse);
    }
  }

  void weigh(ir::Graph& graph, const Leaving& leaving) {
    for (const auto& node : graph.nodes()) {
      for (const auto& region : node->regions) {
        weigh(*region, leaving);
      }
    }
    for (const std::vector<ir::Node*>& part : delegate_parts(graph)) {
      if (part.front()->tag != kTaken) {
        continue;
      }
      const Span<ir::Node* const> nodes(part.data(), part.size());
      const passes::Offer offer = compiler_.offer(nodes);
      std::optional<Verdict> verdict;
      if (offer.refusal.empty() && !leaving.isas.empty()) {
        verdict = weigh_part(nodes, offer.costs, leaving.isas);
      }
      for (ir::Node* node : part) {
        NodeSupport& answer = answers[position_.at(node)];
        answer.refusal = offer.refusal;
        if (verdict) {
          (verdict->is_taken ? answer.costs : answer.refusal) =
              (verdict->is_taken ? "its part costs " : "its part would cost ") + verdict->text;
        }
      }
    }
  }

  std::vector<NodeSupport> answers;

 private:
  ir::Program& program_;
  passes::BackendCompiler& compiler_;
  const std::vector<ir::Delegate::CompileSpec>& specs_;
  std::unordered_map<const ir::Node*, size_t> position_;
};

}  // namespace

std::vector<NodeSupport> query_support(ir::Program& program, passes::BackendCompiler& compiler,
                                       const std::vector<ir::Delegate::CompileSpec>& specs, const Leaving& leaving) {
  Query query(program, compiler, specs);
  for (const auto& method : program.methods) {
    read_sizes_at_inputs(*method);
    query.ask(*method, leaving);
    if (leaving.parts) {
      query.weigh(*method, leaving);
    }
  }
  return std::move(query.answers);
}

}  // namespace et::delegation
