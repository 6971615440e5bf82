// Bytes in and bytes out: what a sensor and a link are on a product.
//
// For: applications of examples/. stream_files.cpp reads and writes files of a host; stream_semihosting.cpp does the
// same from a board whose debugger or emulator offers the host's files.
#pragma once

#include <cstddef>

namespace application {

/// Opens `samples.bin` for reading and `results.bin` for writing; false where one cannot be opened.
bool open_streams();

/// Reads exactly `nbytes`; false at the end of the samples.
bool read_sample(void* data, size_t nbytes);

/// False when it was not written.
bool write_result(const void* data, size_t nbytes);

}  // namespace application
