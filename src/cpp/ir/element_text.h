/// Numbers in the text form: elements of constants, and real literals.
///
/// For: printer.cpp and parser.cpp. What is written reads back to the same bits.
#pragma once

#include <string>

#include "base/dtype.h"
#include "ir/constants.h"
#include "ir/scanner.h"

namespace et::ir {

/// The shortest text that reads back as `value`, with a point or an exponent; "inf", "-inf", "nan".
std::string real_text(double value);
std::string real_text(float value);

/// One element at `data`. A NaN is written as its bits (0x7fc00000), since there are many; a complex number as two
/// numbers.
std::string element_text(ScalarType dtype, const unsigned char* data);

/// Reads one element to `out`; false after recording the error.
bool parse_element(Scanner& scan, ScalarType dtype, unsigned char* out);

/// Reads the data of a constant whose type is known: `[1.0, 2.0]`, or `splat(0.0)` for equal elements. Takes what it
/// needs off `*nbytes_left`; false after recording the error.
bool parse_data(Scanner& scan, Constant* constant, size_t* nbytes_left);

}  // namespace et::ir
