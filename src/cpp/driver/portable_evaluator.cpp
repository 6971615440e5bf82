#include "driver/portable_evaluator.h"

#include <deque>
#include <string>

#include "ops/op_table.h"
#include "passes/lift_scalars.h"
#include "passes/rewrite.h"
#include "passes/to_out_variants.h"
#include "runtime/host/heap_allocator.h"
#include "runtime/unboxing.h"

namespace et::driver {
namespace {

using runtime::EValue;
using runtime::Tensor;
using runtime::TensorImpl;

/// The arguments of one call and everything that they point at. Deques, because pointers into them must stay.
class CallArguments {
 public:
  CallArguments(const ir::Node& node, const ir::ConstantTable& constants) : node_(node), constants_(constants) {}

  /// Errors: NotSupported, an argument that cannot be one of a kernel at compile time.
  Error build(const ops::OpInfo& op, std::vector<ir::Constant>& results) {
    const std::vector<ir::Argument> given = passes::kernel_arguments(op, node_);
    size_t next = 0;
    size_t next_result = 0;
    for (const ops::Argument& parameter : op.out_arguments) {
      if (parameter.is_out) {
        ET_RETURN_IF_ERROR(add_out(parameter, results, next_result));
      } else {
        EValue* value = make(given[next++], parameter.letter);
        if (value == nullptr) {
          return Error::NotSupported;
        }
        args_.push_back(value);
      }
    }
    return next_result == node_.results().size() ? Error::Ok : Error::NotSupported;
  }

  Span<EValue* const> args() const { return {args_.data(), args_.size()}; }

 private:
  struct Shape {
    std::vector<int64_t> sizes;
    std::vector<int64_t> strides;
    std::vector<uint8_t> dim_order;
  };

  template <typename... Args>
  EValue* add(Args&&... args) {
    values_.emplace_back(std::forward<Args>(args)...);
    return &values_.back();
  }

  EValue* add_tensor(const ir::TensorType& type, void* data, bool is_constant) {
    Shape& shape = shapes_.emplace_back();
    for (const ir::Dim& dim : type.dims) {
      shape.sizes.push_back(dim.max);
    }
    shape.strides.resize(shape.sizes.size());
    shape.dim_order = type.dim_order;
    TensorImpl& impl = tensors_.emplace_back(type.dtype, shape.sizes.size(), shape.sizes.data(), shape.strides.data(),
                                             shape.dim_order.data(), data, static_cast<size_t>(type.max_nbytes()));
    impl.set_read_only(is_constant);
    return add(Tensor(&impl));
  }

  Error add_out(const ops::Argument& parameter, std::vector<ir::Constant>& results, size_t& next_result) {
    const bool is_list = parameter.letter == 'v';
    const size_t count = is_list ? node_.results().size() : 1;
    std::vector<EValue*> outs;
    for (size_t i = 0; i < count; ++i, ++next_result) {
      if (next_result >= node_.results().size()) {
        return Error::NotSupported;
      }
      const ir::Type& type = node_.result(next_result)->type;
      if (!type.is_tensor() || !type.tensor.is_static()) {
        return Error::NotSupported;
      }
      unsigned char* data = nullptr;
      results.push_back(passes::new_constant(type.tensor, &data));
      outs.push_back(add_tensor(type.tensor, data, false));
    }
    args_.push_back(is_list ? add_list<Tensor>(outs) : outs.front());
    return Error::Ok;
  }

  template <typename T>
  EValue* add_list(const std::vector<EValue*>& items) {
    auto& pointers = pointers_.emplace_back(items);
    auto& cache = std::get<std::deque<std::vector<T>>>(caches_).emplace_back(items.size());
    auto& list = std::get<std::deque<runtime::BoxedList<T>>>(lists_).emplace_back();
    list.items = pointers.data();
    list.cache = cache.data();
    list.size = static_cast<uint32_t>(items.size());
    return add(&list);
  }

  EValue* make(const ir::Argument& argument, char letter) {
    if (argument.is_none()) {
      return add();
    }
    if (argument.is_value()) {
      const ir::Node* producer = argument.value()->producer();
      const auto constant = producer == nullptr ? constants_.end() : constants_.find(producer->symbol);
      if (constant == constants_.end() || constant->second.data == nullptr) {
        return nullptr;
      }
      return add_tensor(constant->second.type, const_cast<void*>(constant->second.data), true);
    }
    if (letter == 'T' || letter == 't') {  // a number in a tensor's place, which lift-scalars takes out later
      const ir::Constant& number = numbers_.emplace_back(passes::constant_of_number(argument, node_));
      return add_tensor(number.type, const_cast<void*>(number.data), true);
    }
    if (const auto* value = argument.as<int64_t>()) {
      const bool wants_double = letter == 'd' || letter == 'D';
      return wants_double ? add(static_cast<double>(*value)) : add(*value);
    }
    if (const auto* value = argument.as<double>()) {
      return add(*value);
    }
    if (const auto* value = argument.as<bool>()) {
      return add(*value);
    }
    if (const auto* value = argument.as<std::string>()) {
      return letter == 'i' || letter == 'I' ? add() : add(&strings_.emplace_back(*value));
    }
    if (const auto* value = argument.as<ir::Argument::Doubles>()) {
      return add(&double_lists_.emplace_back(value->data(), value->size()));
    }
    if (const auto* value = argument.as<ir::Argument::Bools>()) {
      auto& items = bools_.emplace_back(new bool[value->size() + 1]);
      std::copy(value->begin(), value->end(), items.get());
      return add(&bool_lists_.emplace_back(items.get(), value->size()));
    }
    return make_list(*argument.as<ir::Argument::List>(), letter);
  }

  EValue* make_list(const ir::Argument::List& list, char letter) {
    std::vector<EValue*> items;
    for (const ir::Argument& item : list) {
      EValue* value = letter == 'w' && item.is_none() ? nullptr : make(item, 'n');
      if (value == nullptr && !item.is_none()) {
        return nullptr;
      }
      items.push_back(value);
    }
    const auto all = [&items](auto test) {
      return std::all_of(items.begin(), items.end(),
                         [&](const EValue* item) { return item != nullptr && test(*item); });
    };
    switch (letter) {
      case 'l':
      case 'L': return all([](const EValue& v) { return v.is_int(); }) ? add_list<int64_t>(items) : nullptr;
      case 'v': return all([](const EValue& v) { return v.is_tensor(); }) ? add_list<Tensor>(items) : nullptr;
      case 'w': return add_list<std::optional<Tensor>>(items);
      case 'f':
      case 'F': {
        auto& doubles = doubles_.emplace_back();
        for (const EValue* item : items) {
          if (item == nullptr || !(item->is_int() || item->is_double())) {
            return nullptr;
          }
          doubles.push_back(item->is_int() ? static_cast<double>(item->to_int()) : item->to_double());
        }
        return add(&double_lists_.emplace_back(doubles.data(), doubles.size()));
      }
      default: return nullptr;
    }
  }

  const ir::Node& node_;
  const ir::ConstantTable& constants_;
  std::vector<EValue*> args_;
  std::deque<EValue> values_;
  std::deque<TensorImpl> tensors_;
  std::deque<Shape> shapes_;
  std::deque<std::vector<EValue*>> pointers_;
  std::tuple<std::deque<std::vector<int64_t>>, std::deque<std::vector<Tensor>>,
             std::deque<std::vector<std::optional<Tensor>>>>
      caches_;
  std::tuple<std::deque<runtime::BoxedList<int64_t>>, std::deque<runtime::BoxedList<Tensor>>,
             std::deque<runtime::BoxedList<std::optional<Tensor>>>>
      lists_;
  std::deque<ir::Constant> numbers_;
  std::deque<std::string_view> strings_;
  std::deque<std::vector<double>> doubles_;
  std::deque<Span<const double>> double_lists_;
  std::deque<std::unique_ptr<bool[]>> bools_;
  std::deque<Span<const bool>> bool_lists_;
};

bool fits(const runtime::Kernel& kernel, Span<EValue* const> args) {
  if (kernel.prepare != nullptr || kernel.signature == nullptr) {
    return false;  // a stateful kernel wants a Method
  }
  const std::string_view letters(kernel.signature);
  if (letters.size() > args.size()) {
    return false;
  }
  for (size_t i = 0; i < letters.size(); ++i) {
    if (!runtime::signature_accepts(letters[i], *args[i])) {
      return false;
    }
  }
  return true;
}

}  // namespace

Error PortableEvaluator::evaluate(const ir::Node& node, const ir::ConstantTable& constants,
                                  std::vector<ir::Constant>* results) {
  const ops::OpInfo* op = ops::find_op(node.op);
  if (op == nullptr || !op->has_out_variant() || op->has_tag(ops::kRandom)) {
    return Error::NotSupported;
  }
  const runtime::Kernel* kernels[8];
  const size_t count = std::min<size_t>(registry_.find(op->out_name, kernels), 8);
  CallArguments arguments(node, constants);
  std::vector<ir::Constant> made;
  ET_RETURN_IF_ERROR(arguments.build(*op, made));
  for (size_t i = 0; i < count; ++i) {
    if (!fits(*kernels[i], arguments.args())) {
      continue;
    }
    runtime::HeapAllocator temp;
    runtime::RandomState random;
    runtime::KernelContext context(&temp, nullptr, nullptr, &random, nullptr);
    ET_RETURN_IF_ERROR(kernels[i]->run(context, arguments.args(), nullptr));
    results->insert(results->end(), std::make_move_iterator(made.begin()), std::make_move_iterator(made.end()));
    return Error::Ok;
  }
  return Error::NotSupported;
}

}  // namespace et::driver
