// What the firmware says: figures, and of an error a code and lines of at most 80 characters. Never a fault.
#pragma once

#include "board/board.h"
#include "runtime/method.h"

namespace firmware {

/// A pool that knows the most that was in use, and what it lacked for the request that failed.
class Pool final : public et::runtime::MemoryAllocator {
 public:
  Pool(const char* name, uint8_t* base, size_t size) : MemoryAllocator(base, size), name_(name), size_(size) {}
  void* allocate(size_t nbytes, size_t alignment) override;
  size_t most_used() const { return most_used_; }
  /// Writes how many bytes it lacked, if it did. Later requests may need more.
  void write_lack() const;

 private:
  const char* name_;
  size_t size_;
  size_t most_used_ = 0;
  size_t lacked_ = 0;
};

/// Has the runtime write the operator that fails. A build with texts writes what is wrong, in lines of 80 characters.
void install_log();

using board::write_number;

/// Writes "step: code" and returns the error.
et::Error fail(const char* step, et::Error error);

/// Whether the program at `program` is the one that was built in, by its checksum; without `weights` its header and
/// tables.
et::Error check_program(const void* program, bool weights);

/// Loads the program; says of a failure whether the address or the version is why.
et::Result<et::runtime::Program> load_program(et::runtime::DataLoader* loader, const void* model);

/// Loads a method; says of a failure how many bytes the arena or a pool lacks.
et::Result<et::runtime::Method> load_method(const et::runtime::Program& program, const char* name,
                                            const et::runtime::MemoryManager& memory,
                                            const et::runtime::MethodOptions& options);

/// Gives `nbytes` at `data` to tensor input `i`; says of other sizes how many bytes it takes.
et::Error set_input(et::runtime::Method& method, size_t i, const void* data, size_t nbytes);

}  // namespace firmware
