#include "delegation/query_support.h"

#include <iterator>
#include <memory>
#include <unordered_map>

#include "delegation/leave_conversions.h"
#include "delegation/leave_spelled_out.h"
#include "delegation/outline_delegates.h"
#include "delegation/outline_part.h"
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
  Query(ir::Program& program, passes::BackendCompiler& compiler, const std::vector<ir::Delegate::CompileSpec>& specs,
        passes::ConstantEvaluator* evaluator)
      : program_(program), compiler_(compiler), specs_(specs), evaluator_(evaluator) {}

  /// For backends that judge whole parts: everything is taken, then what is refused is left until nothing is.
  void judge_parts(ir::Graph& graph, std::string_view method) {
    std::unordered_map<uint32_t, ir::Node*> nodes;
    for (const auto& node : graph.nodes()) {
      for (const auto& region : node->regions) {
        judge_parts(*region, method);
      }
      if (!is_candidate(*node)) {
        continue;
      }
      node->tag = node->regions.empty() ? kTaken : "";
      position_[node.get()] = answers.size();
      nodes.emplace(node->debug_handle, node.get());
      answers.push_back({node->debug_handle, node->regions.empty() ? "" : "control flow", ""});
    }
    while (leave_refused(graph, method, nodes)) {
    }
  }

  void judge_nodes(ir::Graph& graph, const Leaving& leaving) {
    for (const auto& node : graph.nodes()) {
      for (const auto& region : node->regions) {
        judge_nodes(*region, leaving);
      }
      if (!is_candidate(*node)) {
        continue;
      }
      std::string why = node->regions.empty() ? compiler_.refusal(*node, program_, specs_) : "control flow";
      node->tag = why.empty() ? kTaken : "";
      position_[node.get()] = answers.size();
      answers.push_back({node->debug_handle, std::move(why), ""});
    }
    const auto refuse = [this](ir::Node& node, std::string why) { leave(node, std::move(why)); };
    leave_conversions(graph, refuse);
    if (leaving.functions) {
      leave_spelled_out(graph, program_, compiler_, processors_of(leaving), refuse);
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
  static bool is_candidate(const ir::Node& node) {
    return node.op != "constant" && node.op != "buffer" && node.op != "delegate" && node.tag.empty();
  }

  void leave(ir::Node& node, std::string why) {
    node.tag.clear();
    answers[position_.at(&node)].refusal = std::move(why);
  }

  /// True when a node was refused, so that the parts have to be judged again.
  bool leave_refused(const ir::Graph& graph, std::string_view method,
                     const std::unordered_map<uint32_t, ir::Node*>& nodes) {
    bool changed = false;
    for (const std::vector<ir::Node*>& part : delegate_parts(graph)) {
      if (part.front()->tag != kTaken) {
        continue;
      }
      const std::unique_ptr<Outline> outline = outline_part(part, graph.name);
      const passes::BackendPart given{outline->graph, program_, specs_, method, evaluator_};
      for (passes::PartRefusal& refusal : compiler_.part_refusals(given)) {
        const auto found = nodes.find(refusal.debug_handle);
        if (found != nodes.end() && found->second->tag == kTaken) {
          leave(*found->second, std::move(refusal.why));
          changed = true;
        }
      }
    }
    return changed;
  }

  ir::Program& program_;
  passes::BackendCompiler& compiler_;
  const std::vector<ir::Delegate::CompileSpec>& specs_;
  passes::ConstantEvaluator* evaluator_;
  std::unordered_map<const ir::Node*, size_t> position_;
};

}  // namespace

std::vector<NodeSupport> query_support(ir::Program& program, passes::BackendCompiler& compiler,
                                       const std::vector<ir::Delegate::CompileSpec>& specs, const Leaving& leaving,
                                       passes::ConstantEvaluator* evaluator) {
  Query query(program, compiler, specs, evaluator);
  for (const auto& method : program.methods) {
    read_sizes_at_inputs(*method);
    if (compiler.judges_parts()) {
      query.judge_parts(*method, method->name);
      continue;
    }
    query.judge_nodes(*method, leaving);
    if (leaving.parts) {
      query.weigh(*method, leaving);
    }
  }
  return std::move(query.answers);
}

}  // namespace et::delegation
