// A plug-in with one kernel and one backend, as a user would write it.
#include "runtime/plugin.h"

namespace {

using et::Error;
using et::Result;
using et::Span;
using et::runtime::EValue;
using et::runtime::Kernel;
using et::runtime::KernelContext;
using et::runtime::Tensor;

Error triple_out(KernelContext& context, const Tensor& self, Tensor& out) {
  ET_RETURN_IF_ERROR(resize_tensor(context, out, self.sizes()));
  const float* from = self.const_data_ptr<float>();
  float* to = out.mutable_data_ptr<float>();
  for (int64_t i = 0; i < self.numel(); ++i) {
    ET_CHECK_OR_RETURN(from[i] >= 0, InvalidArgument, "triple: element %d is negative", static_cast<int>(i));
    to[i] = 3 * from[i];
  }
  return Error::Ok;
}

/// Writes a number to its output, the same everywhere.
class Fill final : public et::runtime::BackendInterface {
 public:
  bool is_available() const override { return true; }
  Result<et::runtime::DelegateHandle*> init(et::runtime::BackendInitContext&, et::runtime::FreeableBuffer* processed,
                                            Span<const et::runtime::CompileSpec>) const override {
    ET_CHECK_OR_RETURN(processed->size() == 1, DelegateInvalidCompatibility, "fill: the payload has %zu bytes, not 1",
                       processed->size());
    return static_cast<et::runtime::DelegateHandle*>(nullptr);
  }
  Error execute(et::runtime::BackendExecutionContext&, et::runtime::DelegateHandle*,
                Span<EValue* const> args) const override {
    const Tensor out = args[args.size() - 1]->to_tensor();
    for (int64_t i = 0; i < out.numel(); ++i) {
      out.mutable_data_ptr<float>()[i] = 7;
    }
    return Error::Ok;
  }
};

const Fill fill;
const Kernel kKernels[] = {
    et::runtime::make_kernel<&triple_out>("test_plugin::triple.out", et::runtime::kPriorityUser)};
const et::runtime::PluginBackend kBackends[] = {{"TestPluginBackend", &fill}};
const et::runtime::Plugin kPlugin = {"test_plugin", kKernels, 1, kBackends, 1};

}  // namespace

ET_EXPORT_PLUGIN(kPlugin)
