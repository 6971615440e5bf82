#include "driver/check_kernels.h"

#include "ops/names.h"
#include "ops/op_table.h"

namespace et::driver {
namespace {

constexpr const char* kChoices =
    ". Let the export decompose it, delegate it to a backend, or register a kernel for it.";

/// The tensor whose element type chooses the kernel: the first argument that is one, else the first result.
const ir::TensorType* main_tensor(const ir::Node& node) {
  const ir::TensorType* found = nullptr;
  node.for_each_input([&](const ir::Value* value) {
    if (found == nullptr && value->type.is_tensor()) {
      found = &value->type.tensor;
    }
  });
  if (found == nullptr && !node.results().empty() && node.result()->type.is_tensor()) {
    found = &node.result()->type.tensor;
  }
  return found;
}

class KernelCheck {
 public:
  KernelCheck(const runtime::KernelRegistry& registry, const std::set<std::string, std::less<>>& target_kernels,
              ir::Diagnostics& diagnostics)
      : registry_(registry), target_kernels_(target_kernels), diagnostics_(diagnostics) {}

  void check(const ir::Graph& graph, const ir::Graph& method) {
    for (const auto& node : graph.nodes()) {
      for (const auto& region : node->regions) {
        check(*region, method);
      }
      if (node->op.find("::") != std::string::npos && target_kernels_.count(node->op) == 0) {
        check(*node, method);
      }
    }
  }

  Error error() const { return error_; }

 private:
  void check(const ir::Node& node, const ir::Graph& method) {
    const std::string with_overload = node.op + ".default";
    const std::string& name = with_overload == op::executorch_prim_et_view_default ? with_overload : node.op;
    if (!registry_.has(name)) {
      report(Error::OperatorMissing, method, node, "the runtime has no kernel " + name + kChoices);
      return;
    }
    const ops::OpInfo* op = ops::find_out(node.op);
    const ir::TensorType* tensor = main_tensor(node);
    if (op != nullptr && op->dtypes != 0 && tensor != nullptr && !op->supports(tensor->dtype)) {
      report(Error::NotSupported, method, node,
             name + " has no kernel for " + to_string(tensor->dtype) + " tensors; convert to another dtype before it");
    }
  }

  void report(Error code, const ir::Graph& method, const ir::Node& node, std::string message) {
    const Error error = diagnose(diagnostics_, code, method, &node, std::move(message));
    error_ = error_ == Error::Ok ? error : error_;
  }

  const runtime::KernelRegistry& registry_;
  const std::set<std::string, std::less<>>& target_kernels_;
  ir::Diagnostics& diagnostics_;
  Error error_ = Error::Ok;
};

}  // namespace

Error check_kernels(const ir::Program& program, const runtime::KernelRegistry& registry,
                    const std::set<std::string, std::less<>>& target_kernels, ir::Diagnostics& diagnostics) {
  KernelCheck check(registry, target_kernels, diagnostics);
  for (const auto& method : program.methods) {
    check.check(*method, *method);
  }
  return check.error();
}

}  // namespace et::driver
