/// format_text: printf's rules for the messages of the runtime, in a buffer of the caller.
///
/// For: messages, on cores too, whose C library may lack `%zu` and numbers of 64 bits and brings a heap. Knows `%%`,
/// `%c`, `%s`, `%d`, `%i`, `%u`, `%x`, `%p` and `%g`; precisions of `%s` and `%g` (at most 9 digits); the lengths `l`,
/// `ll`, `z`, `j` and `t`. All round and look as snprintf's. Not for: output of tools, tables with columns.
///
///     char text[40];
///     format_text(text, sizeof(text), "input %zu has %" PRId64 " bytes", i, nbytes);
///
/// No heap, no recursion, no arithmetic of floats. Place: log.cpp and tensor_text.cpp; all code that logs calls those.
#pragma once

#include <cstdarg>
#include <cstddef>

namespace et {

/// Writes at most `size` bytes with the '\0' at their end, and returns the bytes before it; `size` is at least 1. Text
/// beyond is cut off. Where the format has something else, hosts call the C library; elsewhere the format's rest is
/// text. Takes some 0.5 KB of stack.
size_t format_text(char* text, size_t size, const char* format, ...) __attribute__((format(printf, 3, 4)));
/// The same with the arguments of a function of the caller.
size_t format_arguments(char* text, size_t size, const char* format, va_list arguments)
    __attribute__((format(printf, 3, 0)));

namespace detail {
/// What cores do; false: the format has something else, from which on it is copied.
bool format_known(char* text, size_t size, size_t* length, const char* format, va_list arguments)
    __attribute__((format(printf, 4, 0)));
}  // namespace detail

}  // namespace et
