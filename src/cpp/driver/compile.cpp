#include "driver/compile.h"

#include <algorithm>

#include "driver/check_kernels.h"
#include "driver/portable_evaluator.h"
#include "kernels/portable/register.h"
#include "passes/pipeline.h"

namespace et::driver {
namespace {

/// Passes work on the whole program, so what one method leaves to its caller is left to all callers.
passes::PassOptions pass_options(const ir::Program& program, const CompileOptions& options) {
  passes::PassOptions out;
  out.compatible = options.emit.compatible;
  out.sparse_weights = options.sparse_weights;
  out.channels_last = options.channels_last;
  out.quantized_io = options.quantized_io;
  for (const auto& method : program.methods) {
    const planning::LifetimeOptions& lifetimes = options.memory.of(method->name).lifetimes;
    out.plan_inputs = out.plan_inputs && lifetimes.plan_inputs;
    out.plan_outputs = out.plan_outputs && lifetimes.plan_outputs;
  }
  return out;
}

}  // namespace

Error compile(const std::shared_ptr<ir::Program>& program, const CompileOptions& options, Compiled& out,
              ir::Diagnostics& diagnostics) {
  // Only the portable kernels fold: what faster ones compute may differ from machine to machine, the file must not.
  runtime::KernelRegistry portable;
  ET_RETURN_IF_ERROR(kernels::portable::register_portable_kernels(portable));
  PortableEvaluator evaluator(portable);
  passes::PassContext context{*program, diagnostics};
  context.options = pass_options(*program, options);
  context.evaluator = &evaluator;
  context.custom_ops = options.custom_ops;
  passes::ManagerOptions manager_options;
  manager_options.disabled = options.disabled_passes;
  manager_options.verify = options.verify;
  manager_options.on_pass = options.on_pass;
  passes::PassManager manager(std::move(manager_options));

  ET_RETURN_IF_ERROR(manager.run(passes::before_delegation(), *program, context));
  const passes::BackendCompilers no_backends;
  ET_RETURN_IF_ERROR(delegation::outline_delegates(*program, options.delegation,
                                                   options.backends != nullptr ? *options.backends : no_backends,
                                                   diagnostics, &evaluator));
  ET_RETURN_IF_ERROR(manager.run(passes::after_delegation(), *program, context));
  passes::drop_unused_symbols(*program);
  if (options.kernels != nullptr) {
    ET_RETURN_IF_ERROR(check_kernels(*program, *options.kernels, options.target_kernels, diagnostics));
  }
  out.pass_timings = manager.timings();
  out.program = program;
  FinishOptions last_steps = options;
  last_steps.emit.sparse_weights = options.sparse_weights;
  return finish(program, last_steps, out, diagnostics);
}

Error run_passes(ir::Program& program, const std::vector<std::string_view>& ids, bool compatible,
                 ir::Diagnostics& diagnostics) {
  runtime::KernelRegistry portable;
  ET_RETURN_IF_ERROR(kernels::portable::register_portable_kernels(portable));
  PortableEvaluator evaluator(portable);
  passes::PassContext context{program, diagnostics};
  context.options.compatible = compatible;
  context.evaluator = &evaluator;
  return passes::PassManager().run(ids, program, context);
}

Result<std::vector<delegation::NodeSupport>> query_support(ir::Program& program, passes::BackendCompiler& compiler,
                                                           const std::vector<ir::Delegate::CompileSpec>& specs,
                                                           const delegation::Leaving& leaving) {
  runtime::KernelRegistry portable;
  ET_RETURN_IF_ERROR(kernels::portable::register_portable_kernels(portable));
  PortableEvaluator evaluator(portable);
  return delegation::query_support(program, compiler, specs, leaving, &evaluator);
}

}  // namespace et::driver
