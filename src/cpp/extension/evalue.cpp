#include "extension/evalue.h"

#include "extension/tensor/tensor_ptr_maker.h"
#include "runtime/platform.h"

namespace et::extension {
namespace {

Error check_index(const runtime::MethodMeta& meta, const char* kind, size_t i, size_t count) {
  ET_CHECK_OR_RETURN(i < count, InvalidArgument, "method '%.*s' has %zu %ss, there is no %s %zu",
                     static_cast<int>(meta.name().size()), meta.name().data(), count, kind, kind, i);
  return Error::Ok;
}

}  // namespace

Error EValue::wrong_kind(const char* kind) const {
  runtime::platform_install_default_log();
  return ET_ERROR_WITH_MESSAGE(InvalidType, "the value is %s, not %s", runtime::to_string(tag()), kind);
}

Result<Scalar> EValue::tryToScalar() const {
  if (!is_number()) {
    return wrong_kind("a number");
  }
  return is_double() ? Scalar(to_double()) : is_bool() ? Scalar(to_bool()) : Scalar(to_int());
}

Scalar EValue::toScalar() const { return or_nothing(tryToScalar()); }

Tensor EValue::toTensor() const {
  const Result<Tensor> tensor = tryToTensor();
  if (tensor.ok()) {
    return *tensor;
  }
  static const TensorPtr* const nothing = new TensorPtr(empty({0}));
  return **nothing;
}

Result<Tag> MethodMeta::input_tag(size_t i) const {
  ET_RETURN_IF_ERROR(check_index(*this, "input", i, num_inputs()));
  return runtime::MethodMeta::input_tag(i);
}

Result<Tag> MethodMeta::output_tag(size_t i) const {
  ET_RETURN_IF_ERROR(check_index(*this, "output", i, num_outputs()));
  return runtime::MethodMeta::output_tag(i);
}

Result<TensorInfo> MethodMeta::input_tensor_meta(size_t i) const {
  ET_TRY(const runtime::TensorInfo info, input_tensor_info(i));
  return TensorInfo(info, input_name(i), program_);
}

Result<TensorInfo> MethodMeta::output_tensor_meta(size_t i) const {
  ET_TRY(const runtime::TensorInfo info, output_tensor_info(i));
  return TensorInfo(info, output_name(i), program_);
}

Result<int64_t> MethodMeta::memory_planned_buffer_size(size_t i) const {
  ET_RETURN_IF_ERROR(check_index(*this, "planned buffer", i, num_memory_planned_buffers()));
  return static_cast<int64_t>(runtime::MethodMeta::memory_planned_buffer_size(i));
}

Result<std::string_view> MethodMeta::get_backend_name(size_t i) const {
  ET_RETURN_IF_ERROR(check_index(*this, "backend", i, num_backends()));
  return backend_name(i);
}

}  // namespace et::extension
