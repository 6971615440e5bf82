// The half of PlanEmitter that makes values: inputs, tensors, numbers and arguments.
#include <algorithm>
#include <cstring>
#include <limits>

#include "base/log.h"
#include "emit/plan_emitter.h"
#include "ops/names.h"

namespace et::emit {
namespace {

using flatbuffers::Offset;

schema::TensorShapeDynamism dynamism_of(const ir::TensorType& type, bool is_growing) {
  if (!type.is_bounded()) {
    return schema::TensorShapeDynamism_DYNAMIC_UNBOUND;
  }
  return type.is_static() && !is_growing ? schema::TensorShapeDynamism_STATIC
                                         : schema::TensorShapeDynamism_DYNAMIC_BOUND;
}

/// Sizes as the file has them: the upper bound; 0 where only the data decides, so that nothing is planned for it.
bool file_sizes(const ir::TensorType& type, std::vector<int32_t>& sizes) {
  for (const ir::Dim& dim : type.dims) {
    const int64_t size = dim.is_bounded() ? dim.max : 0;
    if (size < 0 || size > std::numeric_limits<int32_t>::max()) {
      return false;
    }
    sizes.push_back(static_cast<int32_t>(size));
  }
  return true;
}

/// True when there is no data, or nothing but zero bytes.
bool is_zero(const void* data, uint64_t nbytes) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  return data == nullptr || nbytes == 0 || (bytes[0] == 0 && std::memcmp(bytes, bytes + 1, nbytes - 1) == 0);
}

bool is_tensor(const ir::Argument& argument) {
  const ir::Value* value = argument.value();
  return value != nullptr && value->type.is_tensor();
}

}  // namespace

Error PlanEmitter::add_inputs() {
  for (const auto& input : graph_.inputs()) {
    ET_TRY(const int32_t index, value_index(input.get(), nullptr));
    static_cast<void>(index);
  }
  return Error::Ok;
}

void PlanEmitter::find_growing() {
  for (const ir::Step& step : schedule_.steps()) {
    if (tables_.options.compatible && step.kind == ir::Step::Kind::kNode &&
        step.node->op == op::executorch_prim_et_copy_index_tensor) {
      if (ir::Value* value = schedule_.resolve(step.node->args()[0]).value()) {
        growing_.insert(same_value(value));
      }
    }
  }
}

ir::Value* PlanEmitter::root_of(ir::Value* value) const {
  for (;;) {
    if (ir::Value* resolved = schedule_.resolve(value).value()) {
      value = resolved;
    }
    if (value->alias_of == nullptr) {
      return value;
    }
    value = value->alias_of;
  }
}

ir::Value* PlanEmitter::same_value(ir::Value* value) const {
  for (;;) {
    if (ir::Value* resolved = schedule_.resolve(value).value()) {
      value = resolved;
    }
    const ir::Node* producer = value->producer();
    if (value->alias_of == nullptr || producer == nullptr) {
      return value;
    }
    const bool is_view = producer->op == "alias" && value->type.tensor == value->alias_of->type.tensor;
    const ops::OpInfo* op = ops::find_out(producer->op);
    const bool is_in_place = op != nullptr && !op->has_out_variant() && op->has_tag(ops::kMutates);
    if (!is_view && !is_in_place) {
      return value;
    }
    value = value->alias_of;
  }
}

Result<int32_t> PlanEmitter::value_index(ir::Value* value, const ir::Node* node) {
  const ir::Argument resolved = schedule_.resolve(value);
  if (!resolved.is_value()) {
    return index_of(resolved, node);
  }
  ir::Value* own = same_value(resolved.value());
  if (const auto found = indices_.find(own); found != indices_.end()) {
    return found->second;
  }
  int32_t index = 0;
  switch (own->type.kind) {
    case ir::Kind::kTensor: {
      ET_TRY(index, tensor_index(own));
      break;
    }
    case ir::Kind::kInt: index = values_.add_integer(own->type.dim.is_static() ? own->type.dim.min : 0); break;
    case ir::Kind::kDouble: index = values_.add_floating(own->type.number); break;
    case ir::Kind::kBool: index = values_.add_boolean(own->type.number != 0); break;
    case ir::Kind::kString: {
      const auto text = builder_.CreateString(own->type.text);
      index = values_.add(schema::KernelTypes_String, schema::CreateString(builder_, text).Union());
      break;
    }
    case ir::Kind::kNone: index = values_.null(); break;
  }
  indices_.emplace(own, index);
  return index;
}

Result<int32_t> PlanEmitter::tensor_index(ir::Value* value) {
  const ir::TensorType& type = value->type.tensor;
  std::vector<int32_t> sizes;
  if (!file_sizes(type, sizes)) {
    return fail(Error::NotSupported, value->producer(),
                "%" + value->name + " has a dimension of 2^31 elements or more");
  }
  const ir::Value* root = root_of(value);
  const ir::Node* origin = root->producer();
  uint32_t data_index = 0;
  Offset<schema::ExtraTensorInfo> extra = 0;
  const auto external = [&](const ir::Constant& constant) {
    const ExternalEntry entry{constant.data, static_cast<uint64_t>(constant.type.max_nbytes()), &constant};
    tables_.externals[constant.external_file].emplace(constant.external_key, entry);
    return schema::CreateExtraTensorInfoDirect(builder_, 0, constant.external_key.c_str(),
                                               schema::TensorDataLocation_EXTERNAL);
  };
  if (origin != nullptr && origin->op == "constant") {
    const auto entry = tables_.program.constants.find(origin->symbol);
    if (entry == tables_.program.constants.end()) {
      return fail(Error::InvalidArgument, origin, "there is no constant '" + origin->symbol + "'");
    }
    const ir::Constant& constant = entry->second;
    const auto nbytes = static_cast<uint64_t>(constant.type.max_nbytes());
    if (constant.data == nullptr && nbytes != 0) {
      return fail(Error::InvalidArgument, origin, "constant '" + origin->symbol + "' has no data");
    }
    if (const auto sparse = tables_.sparse.find(origin->symbol); sparse != tables_.sparse.end()) {
      extra = schema::CreateExtraTensorInfoDirect(builder_, 0, std::string(sparse->second.key).c_str(),
                                                  schema::TensorDataLocation_EXTERNAL);
    } else if (constant.external_key.empty()) {
      data_index = tables_.constants.add(constant.data, nbytes);
    } else {
      extra = external(constant);
    }
  } else if (origin != nullptr && origin->op == "buffer" && root == value) {
    const auto entry = tables_.program.buffers.find(origin->symbol);
    if (entry == tables_.program.buffers.end()) {
      return fail(Error::InvalidArgument, origin, "there is no buffer '" + origin->symbol + "'");
    }
    const ir::Buffer& buffer = entry->second;
    const std::string& name = buffer.fully_qualified_name.empty() ? origin->symbol : buffer.fully_qualified_name;
    if (!buffer.initial.external_key.empty()) {
      extra = external(buffer.initial);
    } else {
      extra = schema::CreateExtraTensorInfoDirect(builder_, 0, name.c_str());
      const auto nbytes = static_cast<uint64_t>(buffer.initial.type.max_nbytes());
      // Our runtime fills named state that has no initial value with zeros; the published one leaves it as it finds it.
      if (buffer.initial.data != nullptr && (tables_.options.compatible || !is_zero(buffer.initial.data, nbytes))) {
        data_index = tables_.mutables.add(buffer.initial.data, nbytes);
      }
    }
  }
  Offset<schema::AllocationDetails> allocation = 0;
  if (value->allocation.memory_id != 0) {
    allocation = schema::CreateAllocationDetails(builder_, value->allocation.memory_id,
                                                 static_cast<uint32_t>(value->allocation.offset),
                                                 static_cast<uint32_t>(value->allocation.offset >> 32));
  }
  const auto tensor =
      schema::CreateTensor(builder_, static_cast<schema::ScalarType>(type.dtype), 0, tables_.vectors.add(sizes),
                           tables_.vectors.add(type.dim_order), false, data_index, allocation, 0,
                           dynamism_of(type, growing_.count(value) != 0), extra);
  return values_.add(schema::KernelTypes_Tensor, tensor.Union());
}

Result<int32_t> PlanEmitter::index_of(const ir::Argument& given, const ir::Node* node) {
  const ir::Argument argument = schedule_.resolve(given);
  if (ir::Value* value = argument.value()) {
    return value_index(value, node);
  }
  if (argument.is_none()) {
    return values_.null();
  }
  if (const auto* value = argument.as<int64_t>()) {
    return values_.integer(*value);
  }
  if (const auto* value = argument.as<double>()) {
    return values_.floating(*value);
  }
  if (const auto* value = argument.as<bool>()) {
    return values_.boolean(*value);
  }
  if (const auto* value = argument.as<std::string>()) {
    return values_.string(*value);
  }
  if (const auto* value = argument.as<ir::Argument::Doubles>()) {
    return values_.double_list(*value);
  }
  if (const auto* value = argument.as<ir::Argument::Bools>()) {
    return values_.bool_list(*value);
  }
  const auto& list = *argument.as<ir::Argument::List>();
  if (std::none_of(list.begin(), list.end(), is_tensor)) {
    return list_index(list, 'l', node);
  }
  return list_index(list, std::all_of(list.begin(), list.end(), is_tensor) ? 'v' : 'w', node);
}

Result<int32_t> PlanEmitter::index_of(const ir::Argument& given, const ops::Argument& parameter, const ir::Node& node) {
  const ir::Argument argument = schedule_.resolve(given);
  if (argument.is_value() || argument.is_none()) {
    return index_of(argument, &node);
  }
  switch (parameter.letter) {
    case 'd':
    case 'D':
      if (const auto* value = argument.as<int64_t>()) {
        return values_.floating(static_cast<double>(*value));
      }
      break;
    case 'b':
    case 'B':
      if (const auto* value = argument.as<int64_t>()) {
        return values_.boolean(*value != 0);
      }
      break;
    case 'i':
    case 'I':
      if (const auto* value = argument.as<bool>()) {
        return values_.integer(*value ? 1 : 0);
      }
      if (argument.as<std::string>() != nullptr) {
        return values_.null();  // a device or a layout: the file has none
      }
      break;
    case 'l':
    case 'L':
    case 'v':
    case 'w':
      if (const auto* list = argument.as<ir::Argument::List>()) {
        return list_index(*list, parameter.letter, &node);
      }
      break;
    case 'f':
    case 'F':
      if (const auto* list = argument.as<ir::Argument::List>()) {
        std::vector<double> items;
        for (const ir::Argument& item : *list) {
          const auto* integer = item.as<int64_t>();
          const auto* floating = item.as<double>();
          if (integer == nullptr && floating == nullptr) {
            return fail(Error::InvalidArgument, &node, std::string(parameter.name) + " is not a list of numbers");
          }
          items.push_back(integer != nullptr ? static_cast<double>(*integer) : *floating);
        }
        return values_.double_list(items);
      }
      break;
    case 'm':
      if (const auto* list = argument.as<ir::Argument::List>(); list != nullptr && list->empty()) {
        return values_.bool_list({});
      }
      break;
    default: break;
  }
  return index_of(argument, &node);
}

Result<int32_t> PlanEmitter::list_index(const ir::Argument::List& list, char letter, const ir::Node* node) {
  const bool is_ints = letter == 'l' || letter == 'L';
  std::vector<int64_t> ints;
  std::vector<int32_t> tensors;
  for (const ir::Argument& given : list) {
    const ir::Argument item = schedule_.resolve(given);
    if (letter == 'w' && item.is_none()) {
      tensors.push_back(-1);
      continue;
    }
    const bool fits =
        is_ints ? item.as<int64_t>() != nullptr || (item.is_value() && item.value()->type.kind == ir::Kind::kInt)
                : is_tensor(item);
    if (!fits) {
      return fail(Error::InvalidArgument, node,
                  is_ints ? "a list of integers holds something else" : "a list of tensors holds something else");
    }
    ET_TRY(const int32_t index, index_of(item, node));
    if (is_ints) {
      ints.push_back(index);
    } else {
      tensors.push_back(index);
    }
  }
  if (is_ints) {
    return values_.int_list(ints);
  }
  return letter == 'v' ? values_.tensor_list(tensors) : values_.optional_tensor_list(tensors);
}

}  // namespace et::emit
