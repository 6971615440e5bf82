/// BackendCompiler: a backend's `preprocess`, written in C++.
///
/// For: backends/<name>/compiler. It gets the part of a method that its partitioner took, as a graph of its own, and
/// gives the bytes that its runtime half will read. Backends whose preprocess is Python never come here.
///
///     class MyCompiler final : public passes::BackendCompiler {
///       std::string_view backend_id() const override { return "MyBackend"; }
///       Error preprocess(const passes::BackendPart& part, passes::BackendPayload& payload,
///                        ir::Diagnostics& diagnostics) override;
///     };
///     Error register_compiler(passes::BackendCompilers& compilers) {
///       static MyCompiler compiler;
///       return compilers.add(compiler);
///     }
///
/// Place: delegation/ calls it when it cuts delegates out, between the two halves of the pipeline.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/span.h"
#include "ir/diagnostic.h"
#include "ir/graph.h"

namespace et::ops {
struct WorkCosts;
}

namespace et::passes {

class ConstantEvaluator;

/// What a backend compiles.
struct BackendPart {
  /// Stage::kEdge, verified. Inputs are what comes from outside, in order of first use; outputs what is used outside.
  /// Constants that the part uses are `constant` nodes in it. Handles and sources are those of the method's nodes.
  const ir::Graph& graph;
  /// Holds the constants (ConstantTable) that the graph names.
  const ir::Program& program;
  /// From the partitioner's DelegationSpec.
  const std::vector<ir::Delegate::CompileSpec>& compile_specs;
  std::string_view method_name;
  /// For passes that the backend runs on a copy of its part; nullptr: constants are only reshaped.
  ConstantEvaluator* evaluator = nullptr;
};

/// A node of a part, by its debug handle, that a backend cannot take, and why.
struct PartRefusal {
  uint32_t debug_handle = 0;
  std::string why;
};

/// What it made of it.
struct BackendPayload {
  std::string bytes;
  /// Weights to be shared by content with other delegates and methods: key (their hash, say) and bytes. An entry with
  /// `sparse_dtype` may reach the runtime half as "sparse:" and its key: it reads both forms
  /// (runtime/host/sparse_data.h).
  std::vector<ir::NamedData> named_data;
  /// Positions of the part's inputs that the payload does not take (sizes that its runtime half sees in the tensors),
  /// in rising order. They do not become arguments of the call.
  std::vector<size_t> dropped_inputs;
  /// Its numbers for what it made, and the debug handles of the nodes of the part that each stands for, the one that it
  /// is told as first. The runtime half reports times, values and failures under these numbers. Empty: it does not.
  std::map<uint32_t, std::vector<uint32_t>> debug_handles;
};

/// What a backend says of a part.
struct Offer {
  std::string refusal;                    ///< why it is better left out; "" = it is not
  const ops::WorkCosts* costs = nullptr;  ///< what the work of its nodes costs there; nullptr: the backend does not say
};

class BackendCompiler {
 public:
  virtual ~BackendCompiler() = default;
  /// The name under which the runtime half is registered.
  virtual std::string_view backend_id() const = 0;
  /// Errors: whatever stops it; a diagnostic names the node and what to do. The same part gives the same bytes.
  virtual Error preprocess(const BackendPart& part, BackendPayload& payload, ir::Diagnostics& diagnostics) = 0;

  /// Why the backend does not take a node of an Edge program, or "" when it does. For partitioners that call the
  /// compiler (delegation/query_support.h) instead of having a table of their own.
  virtual std::string refusal(const ir::Node& node, const ir::Program& program,
                              const std::vector<ir::Delegate::CompileSpec>& specs) {
    static_cast<void>(node), static_cast<void>(program), static_cast<void>(specs);
    return "the backend has no table of operators";
  }
  /// True for backends that see only in a whole part what they can take (integer operators are made of several nodes).
  /// part_refusals judges for them, first everything, then for what is left of it, until nothing is refused.
  virtual bool judges_parts() const { return false; }
  virtual std::vector<PartRefusal> part_refusals(const BackendPart& part) {
    static_cast<void>(part);
    return {};
  }
  /// What a part, all of whose nodes the backend could take, costs it or why it does not want it. Called where costs
  /// decide (delegation/weigh_parts.h); without a table of costs a backend gets what it takes.
  virtual Offer offer(Span<ir::Node* const> part) {
    static_cast<void>(part);
    return {};
  }
};

/// The backends of this build whose preprocess is C++, by id.
class BackendCompilers {
 public:
  /// `compiler` must outlive the table. Errors: RegistrationAlreadyRegistered.
  Error add(BackendCompiler& compiler) {
    const bool is_new = compilers_.emplace(compiler.backend_id(), &compiler).second;
    ET_CHECK_OR_RETURN(is_new, RegistrationAlreadyRegistered, "two compilers for backend '%s'",
                       std::string(compiler.backend_id()).c_str());
    return Error::Ok;
  }
  BackendCompiler* find(std::string_view backend_id) const {
    const auto found = compilers_.find(backend_id);
    return found == compilers_.end() ? nullptr : found->second;
  }
  std::vector<std::string> ids() const {
    std::vector<std::string> out;
    for (const auto& [id, compiler] : compilers_) {
      out.emplace_back(id);
    }
    return out;
  }

 private:
  std::map<std::string_view, BackendCompiler*> compilers_;
};

}  // namespace et::passes
