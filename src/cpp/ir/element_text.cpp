#include "ir/element_text.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "base/visit_dtype.h"

namespace et::ir {
namespace {

template <typename T>
std::string shortest(T value) {
  if (std::isnan(value)) {
    return "nan";
  }
  if (std::isinf(value)) {
    return value < 0 ? "-inf" : "inf";
  }
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) {
    text += ".0";
  }
  return text;
}

template <typename T, typename Bits, typename Printed = T>
std::string float_element(const unsigned char* data) {
  T value;
  Bits bits;
  std::memcpy(&value, data, sizeof(value));
  std::memcpy(&bits, data, sizeof(bits));
  const auto printed = static_cast<Printed>(value);
  if (std::isnan(printed)) {
    char buffer[2 * sizeof(Bits)];
    return "0x" + std::string(buffer, std::to_chars(buffer, buffer + sizeof(buffer), bits, 16).ptr);
  }
  return shortest(printed);
}

template <typename T>
std::string int_element(const unsigned char* data) {
  T value;
  std::memcpy(&value, data, sizeof(value));
  return std::to_string(value);
}

/// Parses a number that is not complex. A bool that is neither 0 nor 1 is the byte it is.
template <typename T>
bool store(std::string_view text, unsigned char* out) {
  std::conditional_t<is_small_float(dtype_of<T>), float, std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>>
      value{};
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if constexpr (is_small_float(dtype_of<T>)) {
    const T narrow(value);
    std::memcpy(out, &narrow, sizeof(narrow));
  } else {
    std::memcpy(out, &value, sizeof(value));
  }
  return code == std::errc() && end == text.data() + text.size();
}

template <typename T>
std::string one_element(const unsigned char* data) {
  if constexpr (std::is_same_v<T, bool>) {
    return *data == 0 ? "false" : *data == 1 ? "true" : int_element<uint8_t>(data);
  } else if constexpr (std::is_integral_v<T>) {
    return int_element<T>(data);
  } else if constexpr (is_complex(dtype_of<T>)) {
    using Part = decltype(T::re);
    return one_element<Part>(data) + ", " + one_element<Part>(data + sizeof(Part));
  } else if constexpr (is_small_float(dtype_of<T>)) {
    return float_element<T, uint16_t, float>(data);
  } else {
    return float_element<T, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>(data);
  }
}

}  // namespace

std::string real_text(double value) { return shortest(value); }

std::string real_text(float value) { return shortest(value); }

std::string element_text(ScalarType dtype, const unsigned char* data) {
  return visit_dtype(dtype, [&](auto zero) { return one_element<decltype(zero)>(data); });
}

bool parse_element(Scanner& scan, ScalarType dtype, unsigned char* out) {
  const size_t start = scan.position();
  if (is_complex(dtype)) {
    const ScalarType part = dtype == ScalarType::ComplexFloat ? ScalarType::Float : ScalarType::Double;
    return parse_element(scan, part, out) && scan.expect(",", "before the imaginary part") &&
           parse_element(scan, part, out + element_size(part));
  }
  if (dtype == ScalarType::Bool && (scan.peek() == 't' || scan.peek() == 'f')) {
    *out = scan.try_token("true") ? 1 : 0;
    return *out == 1 || scan.try_token("false") || scan.fail("expected true or false");
  }
  std::string_view text;
  if (!scan.try_number(&text)) {
    return scan.fail("expected an element");
  }
  if (text.substr(0, 2) == "0x") {  // the bits of a NaN
    uint64_t bits = 0;
    const auto [end, code] = std::from_chars(text.data() + 2, text.data() + text.size(), bits, 16);
    if (code != std::errc() || end != text.data() + text.size()) {
      return scan.fail_at(start, "expected the bits of an element");
    }
    std::memcpy(out, &bits, element_size(dtype));  // little-endian hosts only, like the file format
    return true;
  }
  const bool is_stored = visit_dtype(dtype, [&](auto zero) {
    if constexpr (is_complex(dtype_of<decltype(zero)>)) {
      return false;  // its parts were stored one by one
    } else {
      return store<decltype(zero)>(text, out);
    }
  });
  return is_stored ||
         scan.fail_at(start, "'" + std::string(text) + "' is no " + (is_floating(dtype) ? "number" : to_string(dtype)));
}

bool parse_data(Scanner& scan, Constant* constant, size_t* nbytes_left) {
  const int64_t nbytes = constant->type.max_nbytes();
  if (static_cast<uint64_t>(nbytes) > *nbytes_left) {
    return scan.fail("the constants of this text are too large");
  }
  *nbytes_left -= static_cast<size_t>(nbytes);
  const bool splat = scan.try_token("splat");
  if (!scan.expect(splat ? "(" : "[", splat ? "after splat" : "or splat before the data")) {
    return false;
  }
  const size_t size = element_size(constant->type.dtype);
  const size_t numel = static_cast<size_t>(constant->type.numel());
  const auto data = std::make_shared<std::vector<unsigned char>>(static_cast<size_t>(nbytes) + 1);
  for (size_t i = 0; i < (splat ? std::min<size_t>(numel, 1) : numel); ++i) {
    if ((i != 0 && !scan.expect(",", "between elements")) ||
        !parse_element(scan, constant->type.dtype, data->data() + i * size)) {
      return false;
    }
  }
  for (size_t i = 1; splat && i < numel; ++i) {
    std::memcpy(data->data() + i * size, data->data(), size);
  }
  constant->data = data->data();
  constant->keep_alive = data;
  return scan.expect(splat ? ")" : "]", "after " + std::to_string(numel) + " elements");
}

}  // namespace et::ir
