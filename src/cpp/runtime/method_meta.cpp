#include "runtime/method_meta.h"

#include <algorithm>

#include "base/checked_math.h"
#include "runtime/program.h"
#include "runtime/program_verifier.h"

namespace et::runtime {
namespace {

namespace fb = schema;

Tag tag_of(const fb::ExecutionPlan& plan, Span<const int32_t> indices, size_t i) {
  return i < indices.size() ? static_cast<Tag>(plan.values()->Get(static_cast<uint32_t>(indices[i]))->val_type())
                            : Tag::kNone;
}

TensorInfo tensor_info(const fb::Tensor& tensor) {
  TensorInfo info;
  info.dtype = static_cast<ScalarType>(tensor.scalar_type());
  info.sizes = span(tensor.sizes());
  info.dim_order = span(tensor.dim_order());
  info.dynamism = static_cast<TensorShapeDynamism>(tensor.shape_dynamism());
  info.is_memory_planned = tensor.allocation_info() != nullptr;
  info.nbytes = static_cast<size_t>(tensor_nbytes(tensor));
  return info;
}

/// The tensor of attribute `i`; nullptr when there is none. `num` gets the number of attributes before it, or all.
const fb::Tensor* attribute(const fb::ExecutionPlan& plan, size_t i, size_t* num) {
  *num = 0;
  for (uint32_t at = 0; at < count(plan.values()); ++at) {
    const fb::Tensor* tensor = plan.values()->Get(at)->val_as_Tensor();
    if (tensor == nullptr || tensor->allocation_info() == nullptr || tensor->extra_tensor_info() == nullptr ||
        count(tensor->extra_tensor_info()->fully_qualified_name()) == 0) {
      continue;
    }
    if ((*num)++ == i) {
      return tensor;
    }
  }
  return nullptr;
}

Result<TensorInfo> tensor_info(const fb::ExecutionPlan& plan, Span<const int32_t> indices, size_t i, const char* what) {
  ET_CHECK_OR_RETURN(i < indices.size() && tag_of(plan, indices, i) == Tag::kTensor, InvalidArgument,
                     "%s %zu of '%s' does not exist or is no tensor; there are %zu", what, i, plan.name()->c_str(),
                     indices.size());
  return tensor_info(*plan.values()->Get(static_cast<uint32_t>(indices[i]))->val_as_Tensor());
}

}  // namespace

std::string_view MethodMeta::name() const { return view(plan_->name()); }
size_t MethodMeta::num_inputs() const { return count(plan_->inputs()); }
size_t MethodMeta::num_outputs() const { return count(plan_->outputs()); }
Tag MethodMeta::input_tag(size_t i) const { return tag_of(*plan_, span(plan_->inputs()), i); }
Tag MethodMeta::output_tag(size_t i) const { return tag_of(*plan_, span(plan_->outputs()), i); }

Result<TensorInfo> MethodMeta::input_tensor_info(size_t i) const {
  return tensor_info(*plan_, span(plan_->inputs()), i, "input");
}
Result<TensorInfo> MethodMeta::output_tensor_info(size_t i) const {
  return tensor_info(*plan_, span(plan_->outputs()), i, "output");
}

std::string_view MethodMeta::input_name(size_t i) const {
  const auto* names = shapes_ == nullptr ? nullptr : shapes_->input_names();
  return i < count(names) ? view(names->Get(static_cast<uint32_t>(i))) : std::string_view();
}
std::string_view MethodMeta::output_name(size_t i) const {
  const auto* names = shapes_ == nullptr ? nullptr : shapes_->output_names();
  return i < count(names) ? view(names->Get(static_cast<uint32_t>(i))) : std::string_view();
}

SizeBounds MethodMeta::input_bounds(size_t i, size_t dim) const {
  SizeBounds bounds;
  if (input_tag(i) != Tag::kTensor) {
    return bounds;
  }
  const fb::Tensor* tensor = plan_->values()->Get(static_cast<uint32_t>(span(plan_->inputs())[i]))->val_as_Tensor();
  if (dim >= count(tensor->sizes())) {
    return bounds;
  }
  bounds.upper = span(tensor->sizes())[dim];
  bounds.lower = tensor->shape_dynamism() == fb::TensorShapeDynamism_STATIC ? bounds.upper : 0;
  if (shapes_ == nullptr || tensor->shape_dynamism() == fb::TensorShapeDynamism_STATIC) {
    return bounds;
  }
  // Every dynamic dimension has a relation in our files, so one without is static.
  bounds.lower = bounds.upper;
  for (const fb::shapes::SizeRelation& relation : span(shapes_->inputs())) {
    if (relation.value() == i && relation.dim() == static_cast<int32_t>(dim)) {
      const fb::shapes::Symbol* symbol = shapes_->symbols()->Get(relation.symbol());
      int64_t lower;
      if (mul_overflow(symbol->lower(), relation.scale(), &lower) || add_overflow(lower, relation.offset(), &lower)) {
        lower = 0;
      }
      if (tensor->shape_dynamism() == fb::TensorShapeDynamism_DYNAMIC_UNBOUND) {
        int64_t upper;  // the file's size of such a dimension is 0
        if (mul_overflow(symbol->upper(), relation.scale(), &upper) || add_overflow(upper, relation.offset(), &upper)) {
          upper = INT64_MAX;
        }
        bounds.upper = upper;
      }
      bounds.lower = lower < 0 ? 0 : lower < bounds.upper ? lower : bounds.upper;
      bounds.symbol = view(symbol->name());
    }
  }
  return bounds;
}

size_t MethodMeta::num_attributes() const {
  size_t num = 0;
  attribute(*plan_, SIZE_MAX, &num);
  return num;
}
std::string_view MethodMeta::attribute_name(size_t i) const {
  size_t num = 0;
  const fb::Tensor* tensor = attribute(*plan_, i, &num);
  return tensor == nullptr ? std::string_view() : view(tensor->extra_tensor_info()->fully_qualified_name());
}
Result<TensorInfo> MethodMeta::attribute_tensor_info(size_t i) const {
  size_t num = 0;
  const fb::Tensor* tensor = attribute(*plan_, i, &num);
  ET_CHECK_OR_RETURN(tensor != nullptr, InvalidArgument, "'%s' has %zu attributes, there is no attribute %zu",
                     plan_->name()->c_str(), num, i);
  return tensor_info(*tensor);
}

size_t MethodMeta::num_memory_planned_buffers() const {
  const size_t n = count(plan_->non_const_buffer_sizes());
  return n > 0 ? n - 1 : 0;
}
uint64_t MethodMeta::memory_planned_buffer_size(size_t i) const {
  return i < num_memory_planned_buffers() ? static_cast<uint64_t>(span(plan_->non_const_buffer_sizes())[i + 1]) : 0;
}
bool MethodMeta::memory_planned_buffer_is_state(size_t i) const {
  return program_->is_state_memory(static_cast<uint32_t>(i + 1)) && memory_planned_buffer_size(i) > 0;
}
bool MethodMeta::uses_state() const {
  for (size_t i = 0; i < num_memory_planned_buffers(); ++i) {
    if (memory_planned_buffer_is_state(i)) {
      return true;
    }
  }
  return false;
}

size_t MethodMeta::num_instructions() const {
  return count(plan_->chains()) == 0 ? 0 : count(plan_->chains()->Get(0)->instructions());
}
size_t MethodMeta::num_operators() const { return count(plan_->operators()); }

std::string_view MethodMeta::operator_name(size_t i, Span<char> buffer) const {
  const fb::Operator* op = plan_->operators()->Get(static_cast<uint32_t>(i));
  const std::string_view name = view(op->name());
  const std::string_view overload = view(op->overload());
  size_t length = 0;
  const auto append = [&](std::string_view text) {  // std::string_view::copy links what throws, std::copy memmove
    for (size_t c = 0; c < text.size() && length < buffer.size(); ++c) {
      buffer[length++] = text[c];
    }
  };
  append(name);
  append(overload.empty() ? "" : ".");
  append(overload);
  return {buffer.data(), length};
}

size_t MethodMeta::num_backends() const { return count(plan_->delegates()); }
std::string_view MethodMeta::backend_name(size_t i) const {
  return view(plan_->delegates()->Get(static_cast<uint32_t>(i))->id());
}
bool MethodMeta::uses_backend(std::string_view name) const {
  for (size_t i = 0; i < num_backends(); ++i) {
    if (backend_name(i) == name) {
      return true;
    }
  }
  return false;
}

std::string_view MethodMeta::input_structure() const {
  return plan_->container_meta_type() == nullptr ? std::string_view()
                                                 : view(plan_->container_meta_type()->encoded_inp_str());
}
std::string_view MethodMeta::output_structure() const {
  return plan_->container_meta_type() == nullptr ? std::string_view()
                                                 : view(plan_->container_meta_type()->encoded_out_str());
}

}  // namespace et::runtime
