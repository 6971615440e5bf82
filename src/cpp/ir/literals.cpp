#include "ir/literals.h"

#include <cstdlib>

#include "base/half.h"

namespace et::ir {

std::optional<int64_t> int_of(const Argument& argument) {
  if (const auto* number = argument.as<int64_t>()) {
    return *number;
  }
  if (const auto* flag = argument.as<bool>()) {
    return *flag ? 1 : 0;
  }
  return std::nullopt;
}

std::optional<double> number_of(const Argument& argument) {
  if (const auto* real = argument.as<double>()) {
    return *real;
  }
  const std::optional<int64_t> integer = int_of(argument);
  return integer ? std::optional<double>(static_cast<double>(*integer)) : std::nullopt;
}

std::optional<std::vector<int64_t>> ints_of(const Argument& argument) {
  const auto* list = argument.as<Argument::List>();
  if (list == nullptr) {
    return std::nullopt;
  }
  std::vector<int64_t> result;
  for (const Argument& item : *list) {
    const std::optional<int64_t> number = int_of(item);
    if (!number) {
      return std::nullopt;
    }
    result.push_back(*number);
  }
  return result;
}

bool is_default(const Argument& argument, std::string_view text) {
  if (text == "None") {
    return argument.is_none();
  }
  if (text == "True" || text == "False") {
    return int_of(argument) == (text == "True" ? 1 : 0);
  }
  const std::optional<double> number = number_of(argument);
  return number && number == std::strtod(std::string(text).c_str(), nullptr);
}

const Constant* constant_of(const Program& program, const Value* value) {
  if (value == nullptr || value->producer() == nullptr || value->producer()->op != "constant") {
    return nullptr;
  }
  const auto entry = program.constants.find(value->producer()->symbol);
  return entry == program.constants.end() || entry->second.data == nullptr ? nullptr : &entry->second;
}

const Constant* constant_of(const Program& program, const Argument& argument) {
  return constant_of(program, argument.value());
}

std::optional<double> scalar_of(const Program& program, const Argument& argument) {
  const Constant* constant = constant_of(program, argument);
  if (constant == nullptr || constant->type.rank() != 0) {
    return number_of(argument);
  }
  switch (constant->type.dtype) {
    case ScalarType::Float: return *static_cast<const float*>(constant->data);
    case ScalarType::Double: return *static_cast<const double*>(constant->data);
    case ScalarType::Half: return static_cast<float>(*static_cast<const Half*>(constant->data));
    case ScalarType::BFloat16: return static_cast<float>(*static_cast<const BFloat16*>(constant->data));
    case ScalarType::Long: return static_cast<double>(*static_cast<const int64_t*>(constant->data));
    default: return std::nullopt;
  }
}

}  // namespace et::ir
