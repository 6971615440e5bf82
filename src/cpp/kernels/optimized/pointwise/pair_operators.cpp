#include "kernels/optimized/pointwise/pair_operators.h"

#include "kernels/portable/convert.h"

namespace et::kernels::optimized::pointwise {

bool add_scalar(const EValue& value, const EValue* times, ScalarType dtype, bool rounds,
                PointwiseOperation* operation) {
  if (is_integral(dtype, false)) {
    if (!is_whole(value) || (times != nullptr && !is_whole(*times))) {
      return false;
    }
    const auto factor = static_cast<uint64_t>(times != nullptr ? times->number_as_int() : 1);
    operation->add_number(static_cast<uint64_t>(value.number_as_int()) * factor);  // its low bytes come first
    operation->operands[operation->num_operands - 1].element_size = static_cast<uint8_t>(element_size(dtype));
    return true;
  }
  const double factor = times != nullptr ? times->number_as_double() : 1.0;
  if (dtype == ScalarType::Double) {
    operation->add_number(value.number_as_double() * factor);
    return true;
  }
  if (rounds && is_small_float(dtype)) {
    operation->add_number(number_as_element(dtype, value.number_as_double()) * static_cast<float>(factor));
    return true;
  }
  operation->add_number(times != nullptr ? static_cast<float>(value.number_as_double() * factor)
                                         : number_as_float(value));
  return true;
}

void add_element(const EValue& value, ScalarType dtype, PointwiseOperation* operation) {
  uint64_t element = 0;
  portable::store_scalar(dtype, value.is_double() ? Scalar(value.to_double()) : Scalar(value.number_as_int()),
                         &element);
  if (operation->converts) {
    operation->add_number(portable::load_one<float>(dtype, &element));
    return;
  }
  operation->add_number(element);
  operation->operands[operation->num_operands - 1].element_size = static_cast<uint8_t>(element_size(dtype));
}

bool meet_in_float(const EValue& self, const EValue& other, const EValue& out) {
  const ScalarType a = self.to_tensor().scalar_type(), b = other.to_tensor().scalar_type();
  const auto is_taken = [](ScalarType dtype) { return is_up_to_float(dtype) || is_integral(dtype, true); };
  return is_float(out) && is_taken(a) && is_taken(b) && !(is_integral(a, true) && is_integral(b, true));
}

bool become_floats(const EValue& self, const EValue& other, const EValue& out) {
  return is_float(out) && is_integral(self.to_tensor().scalar_type(), true) &&
         is_integral(other.to_tensor().scalar_type(), true);
}

Error choose_pair_loop(Arguments args, const char* name, const PairLoops& loops, PointwiseOperation* operation) {
  const EValue& out = *args[args.size() - 1];
  const auto dtype = one_dtype(*args[0], *args[1], out);
  operation->name = name;
  operation->function = dtype ? loops.of(*dtype) : nullptr;
  operation->converts = dtype && is_small_float(*dtype);
  if (!dtype && meet_in_float(*args[0], *args[1], out)) {
    operation->function = loops.floats;
    operation->converts = true;
  }
  operation->add_tensor(args, 0);
  operation->add_tensor(args, 1);
  return operation->function == nullptr ? Error::NotSupported : Error::Ok;
}

Error choose_number_loop(Arguments args, const char* name, const PairLoops& loops, const EValue* alpha, bool rounds,
                         PointwiseOperation* operation) {
  const EValue& out = *args[args.size() - 1];
  const auto dtype = one_dtype(*args[0], *args[0], out);
  operation->name = name;
  operation->function = dtype && *dtype != ScalarType::Bool ? loops.of(*dtype) : nullptr;
  operation->converts = dtype && is_small_float(*dtype);
  operation->add_tensor(args, 0);
  const bool fits = operation->function != nullptr && add_scalar(*args[1], alpha, *dtype, rounds, operation);
  return fits ? Error::Ok : Error::NotSupported;
}

}  // namespace et::kernels::optimized::pointwise
