#include "base/format.h"

#include <cstdint>
#include <cstdio>
#include <cstring>

namespace et {
namespace {

#if (defined(__unix__) || defined(__APPLE__) || defined(_WIN32)) && !defined(__wasm__)
constexpr bool kAsksLibrary = true;
#else
constexpr bool kAsksLibrary = false;  // a formatter of the C library takes more flash than all others of ours
#endif

constexpr uint32_t kMostDigits = 9;  // of %g: ten to this power has 30 bits

/// Divides a number, from its last part down, and returns the rest. Parts have 16 bits, so no core divides 64 of them.
uint32_t divide(uint16_t* parts, size_t last, uint32_t divisor) {
  uint32_t rest = 0;
  for (size_t i = last + 1; i-- != 0;) {
    rest = rest << 16 | parts[i];
    parts[i] = static_cast<uint16_t>(rest / divisor);
    rest %= divisor;
  }
  return rest;
}

/// The text so far; what does not fit is dropped.
struct Writer {
  char* at;
  char* end;

  void put(char c) {
    if (at != end) {
      *at++ = c;
    }
  }

  void put_number(uint64_t number, uint32_t base, uint32_t least_digits = 1) {
    uint16_t parts[4];
    for (uint16_t& part : parts) {
      part = static_cast<uint16_t>(number);
      number >>= 16;
    }
    char digits[20];
    size_t first = sizeof(digits);
    do {
      digits[--first] = "0123456789abcdef"[divide(parts, 3, base)];
    } while ((parts[0] | parts[1] | parts[2] | parts[3]) != 0 || first + least_digits > sizeof(digits));
    while (first < sizeof(digits)) {
      put(digits[first++]);
    }
  }

  void put_text(const char* text, uint32_t most) {
    for (; most != 0 && *text != '\0'; --most) {
      put(*text++);
    }
  }

  void put_float(double value, uint32_t num_digits);
};

/// %g. The value stands whole in parts of 16 bits, and is multiplied or divided by ten until its integer has as many
/// digits as are wanted. What a division leaves over makes the value a little larger than the parts.
void Writer::put_float(double value, uint32_t num_digits) {
  constexpr size_t kPoint = 68;  // the part with the lowest bits of the integer
  constexpr size_t kNumParts = kPoint + 64;
  constexpr uint32_t kLowestBit = 16 * kPoint - 1074;  // of the smallest double

  uint64_t bits;
  memcpy(&bits, &value, sizeof(bits));
  if (bits >> 63 != 0) {
    put('-');
  }
  const auto exponent = static_cast<uint32_t>(bits >> 52 & 0x7ff);
  uint64_t mantissa = bits << 12 >> 12;
  if (exponent == 0x7ff) {
    put_text(mantissa == 0 ? "inf" : "nan", 3);
    return;
  }
  mantissa |= uint64_t{exponent != 0} << 52;
  const bool is_zero = mantissa == 0;
  uint16_t parts[kNumParts] = {};
  for (uint32_t bit = kLowestBit + (exponent == 0 ? 0 : exponent - 1); mantissa != 0; ++bit, mantissa >>= 1) {
    parts[bit / 16] = static_cast<uint16_t>(parts[bit / 16] | (mantissa & 1) << bit % 16);
  }

  num_digits = num_digits == 0 ? 1 : num_digits < kMostDigits ? num_digits : kMostDigits;
  uint32_t least = 1;
  for (uint32_t i = 1; i < num_digits; ++i) {
    least *= 10;
  }
  int32_t power = static_cast<int32_t>(num_digits) - 1;  // of ten, that the first digit counts
  uint32_t integer = 0;
  uint32_t rest = 0;
  size_t last = kNumParts - 1;
  while (!is_zero) {
    while (last > kPoint + 1 && parts[last] == 0) {
      --last;
    }
    integer = parts[kPoint] | static_cast<uint32_t>(parts[kPoint + 1]) << 16;
    if (last > kPoint + 1 || integer / 10 >= least) {
      rest |= divide(parts, last, 10);
      ++power;
    } else if (integer < least) {
      uint32_t carry = 0;
      for (size_t i = 0; i <= last; ++i) {
        carry += parts[i] * 10u;
        parts[i] = static_cast<uint16_t>(carry);
        carry >>= 16;
      }
      --power;
    } else {
      break;
    }
  }
  for (size_t i = 0; i + 1 < kPoint; ++i) {
    rest |= parts[i];
  }
  const uint32_t half = 0x8000;
  const uint32_t fraction = parts[kPoint - 1];
  if (fraction > half || (fraction == half && (rest != 0 || integer % 2 != 0))) {
    ++integer;
    if (integer / 10 == least) {
      integer = least;
      ++power;
    }
  }
  power = is_zero ? 0 : power;

  char digits[kMostDigits];
  for (uint32_t i = num_digits; i-- != 0; integer /= 10) {
    digits[i] = static_cast<char>('0' + integer % 10);
  }
  const bool has_power = power < -4 || power >= static_cast<int32_t>(num_digits);
  const int32_t point = has_power ? 0 : power;  // the digit before the point, or how many zeros come first
  int32_t end = static_cast<int32_t>(num_digits);
  while (end > 1 && end > point + 1 && digits[end - 1] == '0') {
    --end;
  }
  for (int32_t i = point < 0 ? point : 0; i < end; ++i) {
    put(i < 0 ? '0' : digits[i]);
    if (i == point && i + 1 < end) {
      put('.');
    }
  }
  if (has_power) {
    put('e');
    put(power < 0 ? '-' : '+');
    put_number(static_cast<uint32_t>(power < 0 ? -power : power), 10, 2);
  }
}

}  // namespace

bool detail::format_known(char* text, size_t size, size_t* length, const char* format, va_list arguments) {
  Writer writer{text, text + (size - 1)};
  bool is_known = true;
  bool has_all_digits = true;
  for (; *format != '\0'; ++format) {
    if (*format != '%' || !is_known) {
      writer.put(*format);
      continue;
    }
    const char* at = format + 1;
    const auto skip = [&at](char c) {
      const bool is_there = *at == c;
      at += is_there ? 1 : 0;
      return is_there;
    };
    const bool has_precision = skip('.');
    int precision = has_precision ? 0 : -1;
    if (has_precision && skip('*')) {
      precision = va_arg(arguments, int);
    }
    for (; has_precision && *at >= '0' && *at <= '9'; ++at) {
      precision = precision * 10 + (*at - '0');
    }
    bool is_wide = false;
    if (skip('l')) {
      is_wide = skip('l') || sizeof(long) == sizeof(int64_t);
    } else if (skip('z') || skip('t')) {
      is_wide = sizeof(size_t) == sizeof(int64_t);
    } else {
      is_wide = skip('j');
    }
    const bool fits = *at == 's' ? !is_wide : !has_precision || *at == 'g';
    switch (fits ? *at : '\0') {
      case 'd':
      case 'i':
      case 'u':
      case 'x': {
        uint64_t number = is_wide ? va_arg(arguments, uint64_t) : va_arg(arguments, uint32_t);
        if (*at == 'd' || *at == 'i') {
          number = is_wide ? number : static_cast<uint64_t>(static_cast<int32_t>(number));
          if (number >> 63 != 0) {
            writer.put('-');
            number = 0 - number;
          }
        }
        writer.put_number(number, *at == 'x' ? 16 : 10);
        break;
      }
      case 'p':
        writer.put_text("0x", 2);
        writer.put_number(reinterpret_cast<uintptr_t>(va_arg(arguments, const void*)), 16);
        break;
      case 'g':
        has_all_digits = has_all_digits && precision <= static_cast<int>(kMostDigits);
        writer.put_float(va_arg(arguments, double), precision < 0 ? 6 : static_cast<uint32_t>(precision));
        break;
      case 's': writer.put_text(va_arg(arguments, const char*), static_cast<uint32_t>(precision)); break;
      case 'c': writer.put(static_cast<char>(va_arg(arguments, int))); break;
      case '%': writer.put('%'); break;
      default:
        is_known = false;
        writer.put('%');
        continue;
    }
    format = at;
  }
  *writer.at = '\0';
  *length = static_cast<size_t>(writer.at - text);
  return is_known && has_all_digits;
}

size_t format_arguments(char* text, size_t size, const char* format, va_list arguments) {
  size_t length = 0;
  if constexpr (kAsksLibrary) {
    va_list again;
    va_copy(again, arguments);
    if (!detail::format_known(text, size, &length, format, arguments)) {
      const int whole = vsnprintf(text, size, format, again);
      length = whole < 0 ? 0 : static_cast<size_t>(whole) < size ? static_cast<size_t>(whole) : size - 1;
    }
    va_end(again);
  } else {
    detail::format_known(text, size, &length, format, arguments);
  }
  return length;
}

size_t format_text(char* text, size_t size, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const size_t length = format_arguments(text, size, format, arguments);
  va_end(arguments);
  return length;
}

}  // namespace et
