#include <algorithm>
#include <optional>

#include "devtools/host/etdump_gen.h"
#include "extension/tensor/tensor.h"
#include "subject.h"

namespace et::faults {
namespace {

using extension::EValue;
using extension::Inputs;
using extension::Module;
using runtime::SizeBounds;

/// Loads, loads its methods, runs each twice with tensors of the largest sizes and once with the smallest, puts its
/// state back and runs again, gives its outputs; with a tracer, then the ETDump.
class ModuleSubject : public Subject {
 public:
  ModuleSubject(const Plan& plan, bool traced)
      : plan_(plan),
        path_(plan.path),
        data_files_(plan.data_files),
        tracer_(traced ? std::make_unique<devtools::ETDumpGen>() : nullptr) {}

  Error run(Outcome& out) override {
    if (!module_.has_value()) {
      module_.emplace(std::move(path_), std::move(data_files_));
    }
    out.step = "load";
    ET_RETURN_IF_ERROR(module_->load());
    if (tracer_ != nullptr) {
      out.step = "record values";
      tracer_->clear();
      ET_RETURN_IF_ERROR(tracer_->record_values(size_t{1} << 20));
    }
    for (const Call& call : plan_.calls) {
      out.step = "init";
      ET_RETURN_IF_ERROR(module_->load_method(call.method, tracer_.get()));
    }
    for (const Call& call : plan_.calls) {
      for (size_t i = 0; i < call.inputs.size(); ++i) {
        out.step = i < 2 ? "execute" : "resize";
        ET_RETURN_IF_ERROR(execute(call, i, out));
      }
    }
    out.step = "reset";
    ET_RETURN_IF_ERROR(module_->reset_state());
    out.step = "execute after reset";
    for (const Call& call : plan_.calls) {
      ET_RETURN_IF_ERROR(execute(call, 0, out));
    }
    if (tracer_ != nullptr) {
      out.step = "the ETDump";
      ET_TRY(const std::vector<uint8_t> bytes, tracer_->to_bytes());
      ET_CHECK_OR_RETURN(bytes.size() > 1000, Internal, "an ETDump of %zu bytes", bytes.size());
      ET_RETURN_IF_ERROR(tracer_->save("/dev/null", "/dev/null"));
    }
    out.step = "get_outputs";
    return module_->get_outputs(plan_.calls[0].method).error();
  }
  Error reset() override { return module_->reset_state(); }

 private:
  Error execute(const Call& call, size_t i, Outcome& out) {
    ET_TRY(const std::vector<EValue> values, module_->execute(call.method, call.inputs[i]));
    for (const EValue& value : values) {
      if (value.is_tensor()) {
        out.outputs.add(value.to_tensor());
      }
    }
    return Error::Ok;
  }

  const Plan& plan_;
  std::string path_;
  std::vector<std::string> data_files_;
  std::unique_ptr<devtools::ETDumpGen> tracer_;  // outlives the module's methods
  std::optional<Module> module_;
};

EValue input_of(const runtime::MethodMeta& meta, size_t i, bool smallest) {
  switch (meta.input_tag(i)) {
    case runtime::Tag::kInt: return EValue(int64_t{1});
    case runtime::Tag::kDouble: return EValue(0.5);
    case runtime::Tag::kBool: return EValue(true);
    default: break;
  }
  const runtime::TensorInfo info = meta.input_tensor_info(i).get();
  std::vector<int64_t> sizes;
  int64_t count = 1;
  for (size_t d = 0; d < info.sizes.size(); ++d) {
    const SizeBounds bounds = meta.input_bounds(i, d);
    sizes.push_back(smallest ? std::max<int64_t>(bounds.lower, 1) : bounds.upper);
    count *= sizes.back();
  }
  std::vector<double> numbers;
  for (int64_t n = 0; n < count; ++n) {
    numbers.push_back(is_floating(info.dtype) ? static_cast<double>((n * 37 + 11) % 101) / 50 - 1
                                              : static_cast<double>(n % 2));
  }
  return EValue(extension::make_tensor_ptr(
      sizes, numbers, std::vector<uint8_t>(info.dim_order.begin(), info.dim_order.end()), {}, info.dtype));
}

}  // namespace

Plan make_plan(const char* path, std::vector<std::string> data_files) {
  Plan plan{path, std::move(data_files), {}};
  const auto loader = runtime::open_loader(path, runtime::LoadMode::kFile);
  const auto program = loader.ok() ? runtime::Program::load(loader->get()) : Result<runtime::Program>(loader.error());
  for (size_t m = 0; program.ok() && m < program->num_methods(); ++m) {
    const runtime::MethodMeta meta = program->method_meta(program->method_name(m)).get();
    Call call{std::string(meta.name()), {}};
    for (const bool smallest : {false, false, true}) {
      Inputs inputs;
      for (size_t i = 0; i < meta.num_inputs(); ++i) {
        inputs.push_back(input_of(meta, i, smallest));
      }
      call.inputs.push_back(std::move(inputs));
    }
    plan.calls.push_back(std::move(call));
  }
  return plan;
}

std::unique_ptr<Subject> module_subject(const Plan& plan) { return std::make_unique<ModuleSubject>(plan, false); }
std::unique_ptr<Subject> traced_subject(const Plan& plan) { return std::make_unique<ModuleSubject>(plan, true); }

}  // namespace et::faults
