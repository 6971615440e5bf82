#include "report.h"

#include <cstring>

#include "base/crc32.h"
#include "board/board.h"
#include "model.h"

namespace firmware {

using namespace et;           // NOLINT(google-build-using-namespace): a program, not a header
using namespace et::runtime;  // NOLINT(google-build-using-namespace)

namespace {

constexpr size_t kLineLength = 80;

void write_line(const char* text, size_t length) {
  char line[kLineLength + 2];
  memcpy(line, text, length);
  line[length] = '\n';
  line[length + 1] = '\0';
  board::write(line);
}

/// Breaks texts between words; without texts there are names of operators only, cut off.
void write_message(LogLevel, const char*, int, const char* message, size_t length) {
#ifndef ET_STRIP_MESSAGES
  while (length > kLineLength) {
    size_t end = kLineLength;
    while (end > 0 && message[end] != ' ') {
      --end;
    }
    const size_t kept = end == 0 ? kLineLength : end;
    write_line(message, kept);
    const size_t next = end == 0 ? kept : kept + 1;
    message += next;
    length -= next;
  }
#endif
  write_line(message, length < kLineLength ? length : kLineLength);
}

/// The name of an error. One text after the other: with an address for each, as in to_string, it takes 0.2 KB more.
const char* name_of(Error error) {
  static constexpr uint8_t kCodes[] = {
#define ET_ERROR(name, value, python_class, meaning) value,
#include "base/error_codes.def"
#undef ET_ERROR
  };
  static constexpr char kNames[] =
#define ET_ERROR(name, value, python_class, meaning) #name "\0"
#include "base/error_codes.def"
#undef ET_ERROR
      "Unknown";
  const char* name = kNames;
  for (const uint8_t code : kCodes) {
    if (code == static_cast<uint8_t>(error)) {
      break;
    }
    name += strlen(name) + 1;
  }
  return name;
}

void write_lack_of(const char* name, size_t nbytes, const char* end) {
  board::write(name);
  write_number(" lacks ", nbytes);
  board::write(end);
}

}  // namespace

void* Pool::allocate(size_t nbytes, size_t alignment) {
  void* const memory = MemoryAllocator::allocate(nbytes, alignment);
  const size_t used_now = used();
  most_used_ = used_now > most_used_ ? used_now : most_used_;
  if (memory == nullptr) {
    const size_t needed = (used_now + alignment - 1) / alignment * alignment + nbytes;
    lacked_ = needed > size_ ? needed - size_ : alignment;
  }
  return memory;
}

void Pool::write_lack() const {
  if (lacked_ != 0) {
    write_lack_of(name_, lacked_, " bytes or more\n");
  }
}

void install_log() { set_log_hook(&write_message); }

Error fail(const char* step, Error error) {
  board::write(step);
  board::write(": ");
  board::write(name_of(error));
  write_number(" (", static_cast<uint64_t>(error));
  board::write(")\n");
  return error;
}

Error check_program(const void* program, bool weights) {
  const uint32_t found = crc32(program, weights ? kProgramBytes : kProgramTablesBytes);
  if (found == (weights ? kProgramChecksum : kProgramTablesChecksum)) {
    return Error::Ok;
  }
  board::write("the model's checksum differs: its flash is damaged\n");
  return fail("model", Error::InvalidProgram);
}

Result<Program> load_program(DataLoader* loader, const void* model) {
  Result<Program> program = Program::load(loader);
  if (!program.ok()) {
    static_cast<void>(fail("model", program.error()));
    if (program.error() == Error::InvalidArgument) {
      write_number("the model stands at address ", reinterpret_cast<uintptr_t>(model));
      board::write(", no multiple of 16\n");
    } else if (loader->size() >= 8 && memcmp(static_cast<const char*>(model) + 4, "ET12", 4) != 0) {
      board::write("bytes 4 to 7 are not ET12: the model is of another version or no .pte\n");
    }
  }
  return program;
}

Result<Method> load_method(const Program& program, const char* name, const MemoryManager& memory,
                           const MethodOptions& options) {
  Result<Method> method = program.load_method(name, &memory, options);
  if (method.ok()) {
    return method;
  }
  static_cast<void>(fail("load", method.error()));
  if (const Result<MethodMeta> meta = program.method_meta(name); meta.ok()) {
    for (size_t i = 0; i < meta->num_memory_planned_buffers(); ++i) {
      const auto needed = static_cast<size_t>(meta->memory_planned_buffer_size(i));
      const size_t there = i < memory.planned_memory.size() ? memory.planned_memory[i].size() : 0;
      if (needed > there) {
        write_lack_of("arena", needed - there, " bytes\n");
      }
    }
  }
  return method;
}

Error set_input(Method& method, size_t i, const void* data, size_t nbytes) {
  if (i >= method.num_inputs()) {
    return fail("input", Error::InvalidArgument);
  }
  const EValue& taken = method.get_input(i);
  if (!taken.is_tensor()) {
    return Error::Ok;  // a number that was fixed at export
  }
  const Tensor tensor = taken.to_tensor();
  int64_t strides[kMaxRank];
  int64_t sizes[kMaxRank];
  const size_t rank = static_cast<size_t>(tensor.dim());
  for (size_t d = 0; d < rank; ++d) {
    sizes[d] = tensor.sizes()[d];
  }
  if (nbytes != tensor.nbytes()) {
    write_number("input ", i);
    write_number(" has ", nbytes);
    write_number(" bytes, must have ", tensor.nbytes());
    board::write("\n");
    return fail("input", Error::InvalidArgument);
  }
  TensorImpl impl(tensor.scalar_type(), rank, sizes, strides, dim_order(tensor).data(), const_cast<void*>(data),
                  nbytes);
  const Error error = method.set_input(EValue(Tensor(&impl)), i);
  return error == Error::Ok ? error : fail("input", error);
}

}  // namespace firmware
