/// From boxed arguments to a kernel's C++ parameters, derived from the function's type.
///
/// For: `make_kernel` and nothing else. Included by kernel.h.
///
/// Signature letters, one a parameter after the context:
///   T Tensor that is read · o Tensor that is written (`Tensor&`) · t optional Tensor
///   e E: T and t of which the kernel reads an element no later than it writes the one at that place, or the whole
///   before it
///       writes: such a tensor and a written one may begin at one address
///   i int · I optional int · d double · D optional double · b bool · B optional bool
///   n Scalar · N optional Scalar · s string · S optional string · y ScalarType · Y optional ScalarType
///   l int list · L optional int list · f double list · F optional double list · m bool list
///   v tensor list · w list of optional tensors
/// and two for kernels that work on boxed values (kernels/prim):
///   r number that is replaced · p tensor that is made to show another one's memory
#pragma once

#include "runtime/kernel.h"

namespace et::runtime {

/// True when `value` may be passed for a parameter with this letter. A number of one kind may be passed for one of
/// another where a conversion keeps its meaning: Int and Bool for each other, both for a double.
bool signature_accepts(char letter, const EValue& value);

/// True when the kernel writes the tensors of parameter `i`: letter `o`; or, in a signature without an `o`, the last
/// list of tensors (the outs of `split` and its kin).
bool signature_writes(const char* signature, size_t i);

/// Two arguments of a call, of which the first is written and the second lies in the same memory.
struct Overlap {
  size_t written;
  size_t other;
  bool both_are_written;
};
/// Logs it.
void report(const Overlap& overlap);

/// What a kernel writes lies apart from all its other arguments, but for those with the letters e and E: else it would
/// follow indices that it has overwritten after it had checked them. (Outputs of one list may meet; no kernel reads
/// those back.) `args` has one value for each letter at least. True when two arguments are not so.
bool find_overlap(const char* signature, Span<EValue* const> args, Overlap* found);
/// The same as an error: `error`, naming both arguments.
Error check_written_apart(const char* signature, Span<EValue* const> args, Error error);

namespace detail {

template <typename T>
struct Unbox;  // no such parameter type: see the list at the top of this file

#define ET_UNBOX(type, letter_value, expression)            \
  template <>                                               \
  struct Unbox<type> {                                      \
    static constexpr char letter = letter_value;            \
    static type get(const EValue& v) { return expression; } \
  };

inline Scalar unbox_scalar(const EValue& v) {
  return v.is_double() ? Scalar(v.to_double()) : v.is_bool() ? Scalar(v.to_bool()) : Scalar(v.to_int());
}

ET_UNBOX(Tensor, 'T', v.to_tensor())
ET_UNBOX(std::optional<Tensor>, 't', v.is_none() ? std::nullopt : std::optional<Tensor>(v.to_tensor()))
ET_UNBOX(int64_t, 'i', v.number_as_int())
ET_UNBOX(std::optional<int64_t>, 'I', v.is_none() ? std::nullopt : std::optional<int64_t>(v.number_as_int()))
ET_UNBOX(double, 'd', v.number_as_double())
ET_UNBOX(std::optional<double>, 'D', v.is_none() ? std::nullopt : std::optional<double>(v.number_as_double()))
ET_UNBOX(bool, 'b', v.number_as_bool())
ET_UNBOX(std::optional<bool>, 'B', v.is_none() ? std::nullopt : std::optional<bool>(v.number_as_bool()))
ET_UNBOX(Scalar, 'n', unbox_scalar(v))
ET_UNBOX(std::optional<Scalar>, 'N', v.is_none() ? std::nullopt : std::optional<Scalar>(unbox_scalar(v)))
ET_UNBOX(std::string_view, 's', v.to_string_view())
ET_UNBOX(std::optional<std::string_view>, 'S',
         v.is_none() ? std::nullopt : std::optional<std::string_view>(v.to_string_view()))
ET_UNBOX(ScalarType, 'y', static_cast<ScalarType>(v.number_as_int()))
ET_UNBOX(std::optional<ScalarType>, 'Y',
         v.is_none() ? std::nullopt : std::optional<ScalarType>(static_cast<ScalarType>(v.number_as_int())))
ET_UNBOX(IntArrayRef, 'l', v.to_int_list())
ET_UNBOX(std::optional<IntArrayRef>, 'L', v.is_none() ? std::nullopt : std::optional<IntArrayRef>(v.to_int_list()))
ET_UNBOX(Span<const double>, 'f', v.to_double_list())
ET_UNBOX(std::optional<Span<const double>>, 'F',
         v.is_none() ? std::nullopt : std::optional<Span<const double>>(v.to_double_list()))
ET_UNBOX(Span<const bool>, 'm', v.to_bool_list())
ET_UNBOX(Span<const Tensor>, 'v', v.to_tensor_list())
ET_UNBOX(Span<const std::optional<Tensor>>, 'w', v.to_optional_tensor_list())
#undef ET_UNBOX

template <typename Arg>
inline constexpr bool is_written = std::is_lvalue_reference_v<Arg> && !std::is_const_v<std::remove_reference_t<Arg>>;
template <typename Arg>
inline constexpr char letter_of = is_written<Arg> ? 'o' : Unbox<std::decay_t<Arg>>::letter;

constexpr bool has_bit(uint32_t bits, size_t i) { return i < 32 && (bits >> i & 1u) != 0; }
constexpr char in_place_letter(char letter) { return letter == 'T' ? 'e' : letter == 't' ? 'E' : letter; }

template <size_t N>
struct SignatureText {
  char text[N + 1] = {};
};

/// The letters of `Boxed`, where the parameters of `InPlace` are e and E.
template <uint32_t InPlace, typename Boxed>
constexpr auto make_in_place_letters() {
  constexpr size_t kCount = sizeof(Boxed::signature) - 1;
  static_assert(kCount >= 32 || (InPlace >> kCount) == 0, "InPlace names parameters");
  SignatureText<kCount> letters;
  for (size_t i = 0; i < kCount; ++i) {
    letters.text[i] = has_bit(InPlace, i) ? in_place_letter(Boxed::signature[i]) : Boxed::signature[i];
  }
  return letters;
}
template <uint32_t InPlace, typename Boxed>
inline constexpr auto in_place_letters = make_in_place_letters<InPlace, Boxed>();

template <auto Function, typename Type = decltype(Function)>
struct Boxed;

template <auto Function, typename... Args>
struct Boxed<Function, Error (*)(KernelContext&, Args...)> {
  static constexpr char signature[sizeof...(Args) + 1] = {letter_of<Args>..., '\0'};

  static Error run(KernelContext& context, Span<EValue* const> args, void*) {
    return call(context, args.data(), std::index_sequence_for<Args...>{});
  }

 private:
  template <size_t... I>
  static Error call(KernelContext& context, EValue* const* args, std::index_sequence<I...>) {
    // A parameter `Tensor&` binds to a named copy of the handle, so that kernels can be written as in ATen.
    std::tuple<std::decay_t<Args>...> values{Unbox<std::decay_t<Args>>::get(*args[I])...};
    return Function(context, static_cast<Args>(std::get<I>(values))...);
  }
};

}  // namespace detail

/// The table entry of a stateless kernel: `Function` is Error(KernelContext&, parameters of the out-variant's schema…).
/// Bit i of `InPlace`: parameter i, a tensor, may begin where an output does (letter e or E).
template <auto Function, uint32_t InPlace = 0>
constexpr Kernel make_kernel(const char* name, uint8_t priority = kPriorityPortable) {
  using Boxed = detail::Boxed<Function>;
  return Kernel{name, detail::in_place_letters<InPlace, Boxed>.text, &Boxed::run, nullptr, nullptr, priority};
}

}  // namespace et::runtime
